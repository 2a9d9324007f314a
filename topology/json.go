package topology

import (
	"encoding/json"
	"fmt"
	"strconv"

	"nri-cpuset/topology/cpuset"
)

// machineJSON is what `nri-cpuset topology --output json` prints. Sets are in the kernel's list form; lists of sets are in the order of
// their lowest CPU.
type machineJSON struct {
	Name             string                `json:"name,omitempty"`
	CPUs             cpuset.Set            `json:"cpus"`
	Offline          cpuset.Set            `json:"offline"`
	Isolated         cpuset.Set            `json:"isolated"`
	Packages         []cpuset.Set          `json:"packages"`
	Cores            []cpuset.Set          `json:"cores"`
	LastLevelCaches  []cpuset.Set          `json:"lastLevelCaches"`
	NUMANodes        []nodeJSON            `json:"numaNodes"`
	LeftOutNUMANodes []leftOutJSON         `json:"leftOutNUMANodes,omitempty"`
	PCIDevices       map[string]deviceJSON `json:"pciDevices"`
}

type nodeJSON struct {
	ID        int               `json:"id"`
	CPUs      cpuset.Set        `json:"cpus"`
	MemoryKiB uint64            `json:"memoryKiB"`
	HugePages map[string]uint64 `json:"hugePages"`
	Distances []int             `json:"distances,omitempty"`
}

type leftOutJSON struct {
	ID     int    `json:"id"`
	Reason string `json:"reason"`
}

type deviceJSON struct {
	Class     string     `json:"class"`
	NUMANode  int        `json:"numaNode"`
	LocalCPUs cpuset.Set `json:"localCPUs"`
}

// MarshalJSON writes the machine as `nri-cpuset topology --output json` does. Sizes of huge pages of which there are none are left out.
func (m *Machine) MarshalJSON() ([]byte, error) {
	out := machineJSON{
		Name:            m.Name,
		CPUs:            m.Online,
		Offline:         m.Offline,
		Isolated:        m.Isolated,
		Packages:        make([]cpuset.Set, 0, len(m.Packages)),
		Cores:           make([]cpuset.Set, 0, len(m.Cores)),
		LastLevelCaches: make([]cpuset.Set, 0, len(m.Caches)),
		NUMANodes:       make([]nodeJSON, 0, len(m.Nodes)),
		PCIDevices:      make(map[string]deviceJSON, len(m.PCIDevices)),
	}
	for _, p := range m.Packages {
		out.Packages = append(out.Packages, p.CPUs)
	}
	for _, c := range m.Cores {
		out.Cores = append(out.Cores, c.CPUs)
	}
	for _, c := range m.Caches {
		out.LastLevelCaches = append(out.LastLevelCaches, c.CPUs)
	}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		node := nodeJSON{ID: n.ID, CPUs: n.CPUs, MemoryKiB: n.MemoryKiB, HugePages: map[string]uint64{}, Distances: n.Distances}
		for kib, count := range n.HugePages {
			if count > 0 {
				node.HugePages[strconv.FormatUint(kib, 10)] = count
			}
		}
		out.NUMANodes = append(out.NUMANodes, node)
	}
	for _, l := range m.LeftOut {
		out.LeftOutNUMANodes = append(out.LeftOutNUMANodes, leftOutJSON{ID: l.Node, Reason: l.Reason})
	}
	for _, d := range m.PCIDevices {
		out.PCIDevices[d.Address] = deviceJSON{Class: fmt.Sprintf("0x%06x", d.Class), NUMANode: d.Node, LocalCPUs: d.LocalCPUs}
	}
	return json.Marshal(out)
}
