package topology

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

// UnmarshalJSON reads what MarshalJSON writes. The kernel's numbers of packages and cores are not in it: they are counted instead.
func (m *Machine) UnmarshalJSON(text []byte) error {
	var in machineJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("reading a machine: %w", err)
	}
	d, err := in.describe()
	if err != nil {
		return fmt.Errorf("reading a machine: %w", err)
	}
	read, err := d.machine()
	if err != nil {
		return fmt.Errorf("reading a machine: %w", err)
	}
	if len(read.Cores) != len(in.Cores) {
		return fmt.Errorf("reading a machine: %d cores become %d, as threads of one core are in several packages", len(in.Cores), len(read.Cores))
	}
	read.Offline = in.Offline
	for _, l := range in.LeftOutNUMANodes {
		read.LeftOut = append(read.LeftOut, LeftOut{Node: l.ID, Reason: l.Reason})
	}
	for _, address := range slices.Sorted(maps.Keys(in.PCIDevices)) {
		device := in.PCIDevices[address]
		class, err := strconv.ParseUint(device.Class, 0, 32)
		if err != nil {
			return fmt.Errorf("reading a machine: PCI device %s: class %q is no number", clip(address), clip(device.Class))
		}
		read.PCIDevices = append(read.PCIDevices, PCIDevice{
			Address: address, Class: uint32(class), Node: device.NUMANode, LocalCPUs: device.LocalCPUs,
		})
	}
	*m = *read
	return nil
}

// describe tells of each CPU in which of the sets it is. It has to be in a core, a package and a node; it may be at no cache.
func (in *machineJSON) describe() (*description, error) {
	d := &description{Name: in.Name, Isolated: in.Isolated, CPUs: make([]descriptionCPU, 0, in.CPUs.Len())}
	cores, packages, caches := whereabouts(in.Cores), whereabouts(in.Packages), whereabouts(in.LastLevelCaches)
	nodes := map[int]int{}
	for _, n := range in.NUMANodes {
		for id := range n.CPUs.All() {
			nodes[id] = n.ID
		}
		d.NUMANodes = append(d.NUMANodes, descriptionNode{ID: n.ID, MemoryKiB: n.MemoryKiB, HugePages: n.HugePages, Distances: n.Distances})
	}
	for id := range in.CPUs.All() {
		core, inCore := cores[id]
		socket, inPackage := packages[id]
		node, onNode := nodes[id]
		if !inCore || !inPackage || !onNode {
			return nil, fmt.Errorf("CPU %d is in no core, in no package or on no NUMA node", id)
		}
		c := descriptionCPU{ID: id, Core: core, Socket: socket, NUMA: node}
		if cache, ok := caches[id]; ok {
			c.LLC = &cache
		}
		d.CPUs = append(d.CPUs, c)
	}
	return d, nil
}

// whereabouts tells of each CPU in which of the sets it is.
func whereabouts(sets []cpuset.Set) map[int]int {
	of := map[int]int{}
	for i, set := range sets {
		for id := range set.All() {
			of[id] = i
		}
	}
	return of
}
