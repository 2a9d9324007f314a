package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"nri-cpuset/topology/cpuset"
)

// place is where one online CPU sits: what sysfs and a description have in common. CPUs with the same core are threads of one core, those
// with the same pkg are in one package, and those with the same cache share it; these numbers mean nothing else.
type place struct {
	cpu  int
	core int
	pkg  int

	cache     int // or none
	node      int // the kernel's number, or none
	coreID    int // the kernel's number
	packageID int // the kernel's number
	from      source
}

// source is where each part of a place is written, for errors.
type source struct {
	pkg, cache, node string
}

// assemble builds a Machine of places and nodes. The nodes come without CPUs and in any order, their Distances in the order they are given.
// It fills in everything else, and fails on what contradicts itself.
func assemble(places []place, nodes []Node) (*Machine, error) {
	if len(places) == 0 {
		return nil, errors.New("no CPU is online")
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.cpu, b.cpu) })
	m := &Machine{Nodes: sortNodes(nodes)}
	for i := 1; i < len(m.Nodes); i++ {
		if m.Nodes[i].ID == m.Nodes[i-1].ID {
			return nil, fmt.Errorf("NUMA node %d is described twice", m.Nodes[i].ID)
		}
	}
	m.cpus = make([]CPU, places[len(places)-1].cpu+1)
	cores, packages, caches := map[int]int{}, map[int]int{}, map[int]int{}
	for _, p := range places {
		if m.Online.Contains(p.cpu) {
			return nil, fmt.Errorf("CPU %d is described twice", p.cpu)
		}
		m.Online.Add(p.cpu)
		c := CPU{ID: p.cpu, Cache: none, Node: none}
		if p.node != none {
			if c.Node = m.NodeIndex(p.node); c.Node < 0 {
				return nil, fmt.Errorf("%s: CPU %d is on NUMA node %d, which is not there", p.from.node, p.cpu, p.node)
			}
			m.Nodes[c.Node].CPUs.Add(p.cpu)
		}
		var isNew bool
		if c.Package, isNew = index(packages, p.pkg); isNew {
			m.Packages = append(m.Packages, Package{ID: p.packageID})
		}
		m.Packages[c.Package].CPUs.Add(p.cpu)
		if p.cache != none {
			if c.Cache, isNew = index(caches, p.cache); isNew {
				m.Caches = append(m.Caches, Cache{})
			}
			m.Caches[c.Cache].CPUs.Add(p.cpu)
		}
		if c.Core, isNew = index(cores, p.core); isNew {
			m.Cores = append(m.Cores, Core{ID: p.coreID, Package: c.Package, Node: c.Node})
		}
		m.cpus[p.cpu] = c
		if err := m.addThread(c, p.from); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// addThread puts a CPU into its core, all of which has to be in one place.
func (m *Machine) addThread(c CPU, from source) error {
	core := &m.Cores[c.Core]
	if !core.CPUs.IsEmpty() {
		sibling := m.cpus[core.CPUs.First()]
		const text = "%s: CPUs %d and %d are threads of one core, but not %s"
		switch {
		case sibling.Package != c.Package:
			return fmt.Errorf(text, from.pkg, sibling.ID, c.ID, "in one package")
		case sibling.Node != c.Node:
			return fmt.Errorf(text, from.node, sibling.ID, c.ID, "on one NUMA node")
		case sibling.Cache != c.Cache:
			return fmt.Errorf(text, from.cache, sibling.ID, c.ID, "at one last-level cache")
		}
	}
	core.CPUs.Add(c.ID)
	return nil
}

// index numbers keys in the order in which they are first seen.
func index(seen map[int]int, key int) (i int, isNew bool) {
	if i, ok := seen[key]; ok {
		return i, false
	}
	seen[key] = len(seen)
	return len(seen) - 1, true
}

// sortNodes orders nodes by id, and each one's distances with them.
func sortNodes(nodes []Node) []Node {
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(nodes[a].ID, nodes[b].ID) })
	sorted := make([]Node, len(nodes))
	for i, from := range order {
		sorted[i] = nodes[from]
		sorted[i].CPUs = cpuset.Set{}
		if nodes[from].Distances == nil {
			continue
		}
		sorted[i].Distances = make([]int, len(nodes))
		for j, to := range order {
			sorted[i].Distances[j] = nodes[from].Distances[to]
		}
	}
	return sorted
}
