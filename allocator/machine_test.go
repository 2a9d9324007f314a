package allocator_test

import (
	"encoding/json"
	"testing"

	"nri-cpuset/topology"
)

// shape describes a regular machine: how many of each there are in one of what comes before it.
type shape struct {
	packages, nodes, caches, cores, threads int
	memoryGiB                               uint64 // of each NUMA node
}

// machine builds a machine whose threads are numbered as most BIOSes do: first the first threads of all cores, then the second.
func (s shape) machine(t testing.TB) *topology.Machine {
	t.Helper()
	type cpu struct {
		ID     int `json:"id"`
		Core   int `json:"core"`
		Socket int `json:"socket"`
		NUMA   int `json:"numa"`
		LLC    int `json:"llc"`
	}
	type node struct {
		ID        int    `json:"id"`
		MemoryKiB uint64 `json:"memoryKiB"`
		Distances []int  `json:"distances"`
	}
	var d struct {
		Name      string `json:"name"`
		CPUs      []cpu  `json:"cpus"`
		NUMANodes []node `json:"numaNodes"`
	}
	perNode := s.caches * s.cores
	perPackage := s.nodes * perNode
	cores := s.packages * perPackage
	for id := range cores * s.threads {
		core := id % cores
		d.CPUs = append(d.CPUs, cpu{id, core % perPackage, core / perPackage, core / perNode, core / s.cores})
	}
	for i := range s.packages * s.nodes {
		n := node{ID: i, MemoryKiB: s.memoryGiB << 20}
		for j := range s.packages * s.nodes {
			switch {
			case i == j:
				n.Distances = append(n.Distances, 10)
			case i/s.nodes == j/s.nodes:
				n.Distances = append(n.Distances, 12)
			default:
				n.Distances = append(n.Distances, 20)
			}
		}
		d.NUMANodes = append(d.NUMANodes, n)
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	m, err := topology.ParseDescription(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
