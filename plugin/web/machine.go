package web

import (
	"encoding/json"
	"fmt"

	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// Machine is a machine whose JSON, which `nri-cpuset topology --output json` prints too, can be read back. What is read back has no PCI
// devices and no numbers of the kernel's for packages and cores, which a picture does not need.
type Machine struct {
	*topology.Machine
}

// MarshalJSON writes what `nri-cpuset topology --output json` prints; null where there is no machine.
func (m Machine) MarshalJSON() ([]byte, error) {
	if m.Machine == nil {
		return []byte("null"), nil
	}
	return m.Machine.MarshalJSON()
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Machine) UnmarshalJSON(text []byte) error {
	var shape *machineShape
	if err := json.Unmarshal(text, &shape); err != nil {
		return fmt.Errorf("reading a machine: %w", err)
	}
	if shape == nil {
		m.Machine = nil
		return nil
	}
	description, err := shape.describe()
	if err != nil {
		return fmt.Errorf("reading a machine: %w", err)
	}
	if text, err = json.Marshal(description); err != nil {
		return fmt.Errorf("reading a machine: %w", err)
	}
	machine, err := topology.ParseDescription(text)
	if err != nil {
		return fmt.Errorf("reading a machine: %w", err)
	}
	if len(machine.Cores) != len(shape.Cores) {
		return fmt.Errorf("reading a machine: %d cores become %d, as threads of one core are in several packages", len(shape.Cores), len(machine.Cores))
	}
	m.Machine = machine
	m.Offline = shape.Offline
	return nil
}

// machineShape is a machine as sets of CPUs.
type machineShape struct {
	Name            string       `json:"name"`
	CPUs            cpuset.Set   `json:"cpus"`
	Offline         cpuset.Set   `json:"offline"`
	Isolated        cpuset.Set   `json:"isolated"`
	Packages        []cpuset.Set `json:"packages"`
	Cores           []cpuset.Set `json:"cores"`
	LastLevelCaches []cpuset.Set `json:"lastLevelCaches"`
	NUMANodes       []nodeShape  `json:"numaNodes"`
}

type nodeShape struct {
	ID        int               `json:"id"`
	CPUs      cpuset.Set        `json:"cpus,omitzero"`
	MemoryKiB uint64            `json:"memoryKiB"`
	HugePages map[string]uint64 `json:"hugePages"`
	Distances []int             `json:"distances,omitempty"`
}

// description is a machine CPU by CPU, as [topology.ParseDescription] reads it.
type description struct {
	Name      string           `json:"name"`
	CPUs      []descriptionCPU `json:"cpus"`
	NUMANodes []nodeShape      `json:"numaNodes"`
	Isolated  cpuset.Set       `json:"isolated"`
}

type descriptionCPU struct {
	ID     int  `json:"id"`
	Core   int  `json:"core"`
	Socket int  `json:"socket"`
	NUMA   int  `json:"numa"`
	LLC    *int `json:"llc,omitempty"`
}

// describe tells of each CPU in which of the sets it is. It has to be in a core, a package and a node; it may be at no cache.
func (s *machineShape) describe() (*description, error) {
	d := &description{Name: printable(s.Name, maxName, ' '), Isolated: s.Isolated, CPUs: make([]descriptionCPU, 0, s.CPUs.Len())}
	cores, packages, caches := whereabouts(s.Cores), whereabouts(s.Packages), whereabouts(s.LastLevelCaches)
	nodes := map[int]int{}
	for _, n := range s.NUMANodes {
		for id := range n.CPUs.All() {
			nodes[id] = n.ID
		}
		n.CPUs = cpuset.Set{}
		d.NUMANodes = append(d.NUMANodes, n)
	}
	for id := range s.CPUs.All() {
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
