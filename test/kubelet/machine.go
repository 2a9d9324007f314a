package kubelet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"

	cadvisor "github.com/google/cadvisor/lib/model"
)

// Machine is a described machine: the JSON of test/conformance/testdata/topologies. It is read here once more, apart from the topology
// package, so that a mistake there does not reach both sides of a comparison.
type Machine struct {
	Name  string     `json:"name"`
	CPUs  []CPU      `json:"cpus"`
	Nodes []NUMANode `json:"numaNodes"`
}

// CPU is one thread. Core is unique within its socket, LLC (the last-level cache) within the machine.
type CPU struct {
	ID     int `json:"id"`
	Core   int `json:"core"`
	Socket int `json:"socket"`
	NUMA   int `json:"numa"`
	LLC    int `json:"llc"`
}

// NUMANode is one NUMA node. MemoryKiB includes the huge pages, which HugePages counts by their size in KiB.
type NUMANode struct {
	ID        int               `json:"id"`
	MemoryKiB uint64            `json:"memoryKiB"`
	HugePages map[string]uint64 `json:"hugePages"`
	Distances []uint64          `json:"distances"`
}

// ReadMachine reads a described machine.
func ReadMachine(path string) (*Machine, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := new(Machine)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// info is the machine as cAdvisor shows it to the kubelet.
func (m *Machine) info() (*cadvisor.MachineInfo, error) {
	info := &cadvisor.MachineInfo{NumCores: len(m.CPUs)} // cAdvisor counts threads there
	sockets := map[int]bool{}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		node := cadvisor.Node{Id: n.ID, Memory: n.MemoryKiB << 10, Distances: n.Distances, Cores: m.cores(n.ID)}
		for _, core := range node.Cores {
			sockets[core.SocketID] = true
		}
		for size, count := range n.HugePages {
			kib, err := strconv.ParseUint(size, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("machine %s, node %d: huge pages of %q KiB: %w", m.Name, n.ID, size, err)
			}
			node.HugePages = append(node.HugePages, cadvisor.HugePagesInfo{PageSize: kib, NumPages: count})
		}
		slices.SortFunc(node.HugePages, func(a, b cadvisor.HugePagesInfo) int { return cmp.Compare(a.PageSize, b.PageSize) })
		info.MemoryCapacity += node.Memory
		info.Topology = append(info.Topology, node)
	}
	info.NumSockets = len(sockets)
	return info, nil
}

// cores returns the cores of a node, in the order of their lowest CPU.
func (m *Machine) cores(node int) []cadvisor.Core {
	type key struct{ socket, core int }
	at := map[key]int{}
	var cores []cadvisor.Core
	for _, c := range m.CPUs {
		if c.NUMA != node {
			continue
		}
		k := key{c.Socket, c.Core}
		i, known := at[k]
		if !known {
			i = len(cores)
			at[k] = i
			cores = append(cores, cadvisor.Core{Id: c.Core, SocketID: c.Socket, UncoreCaches: []cadvisor.Cache{{Id: c.LLC, Level: 3}}})
		}
		cores[i].Threads = append(cores[i].Threads, c.ID)
	}
	return cores
}
