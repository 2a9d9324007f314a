package topology

import (
	"cmp"
	"fmt"
	"slices"

	"nri-cpuset/topology/cpuset"
)

// place is where one online CPU sits, in the numbers of whoever describes it: what sysfs and a description have in common.
type place struct {
	cpu       int
	coreID    int // unique within packageID
	packageID int
	cacheID   int // unique in the machine; -1 for none
	nodeID    int
}

// assemble builds a Machine of places and nodes. The nodes come without CPUs and in any order, their Distances in the order they are given.
// It fills in everything else, and fails on what contradicts itself.
func assemble(places []place, nodes []Node) (*Machine, error) {
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.cpu, b.cpu) })
	m := &Machine{Nodes: sortNodes(nodes)}
	if len(places) > 0 {
		m.cpus = make([]CPU, places[len(places)-1].cpu+1)
	}
	type coreKey struct{ packageID, coreID int }
	cores := map[coreKey]int{}
	packages := map[int]int{}
	caches := map[int]int{}
	for _, p := range places {
		if m.Online.Contains(p.cpu) {
			return nil, fmt.Errorf("CPU %d is described twice", p.cpu)
		}
		m.Online.Add(p.cpu)
		c := CPU{ID: p.cpu, Cache: -1, Node: m.NodeIndex(p.nodeID)}
		if c.Node < 0 {
			return nil, fmt.Errorf("CPU %d is on NUMA node %d, which is not there", p.cpu, p.nodeID)
		}
		m.Nodes[c.Node].CPUs.Add(p.cpu)

		var seen bool
		if c.Package, seen = packages[p.packageID]; !seen {
			c.Package = len(m.Packages)
			packages[p.packageID] = c.Package
			m.Packages = append(m.Packages, Package{ID: p.packageID})
		}
		m.Packages[c.Package].CPUs.Add(p.cpu)

		key := coreKey{p.packageID, p.coreID}
		if c.Core, seen = cores[key]; !seen {
			c.Core = len(m.Cores)
			cores[key] = c.Core
			m.Cores = append(m.Cores, Core{ID: p.coreID, Package: c.Package, Node: c.Node})
		}
		core := &m.Cores[c.Core]
		if core.Node != c.Node {
			return nil, fmt.Errorf("core %d of package %d has CPUs on NUMA nodes %d and %d (CPUs %s and %d)",
				p.coreID, p.packageID, m.Nodes[core.Node].ID, p.nodeID, core.CPUs, p.cpu)
		}
		core.CPUs.Add(p.cpu)

		if p.cacheID >= 0 {
			if c.Cache, seen = caches[p.cacheID]; !seen {
				c.Cache = len(m.Caches)
				caches[p.cacheID] = c.Cache
				m.Caches = append(m.Caches, Cache{})
			}
			m.Caches[c.Cache].CPUs.Add(p.cpu)
		}
		m.cpus[p.cpu] = c
	}
	if m.Online.IsEmpty() {
		return nil, fmt.Errorf("no CPU is online")
	}
	return m, nil
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
		if len(nodes[from].Distances) != len(nodes) {
			continue
		}
		sorted[i].Distances = make([]int, len(nodes))
		for j, to := range order {
			sorted[i].Distances[j] = nodes[from].Distances[to]
		}
	}
	return sorted
}
