package allocator

import (
	"cmp"
	"slices"

	"nri-cpuset/topology/cpuset"
)

// pool is the CPUs that a placement may take from, and those that it has taken so far.
type pool struct {
	layout *layout
	free   cpuset.Set
	taken  cpuset.Set

	coreSums bool // what is left to take has to be a sum of free cores
}

// step is one stage of a placement: it takes up to need CPUs from the pool, and returns how many are still needed.
type step func(p *pool, need int) int

// take moves CPUs from free to taken.
func (p *pool) take(cpus cpuset.Set) {
	p.free = p.free.Difference(cpus)
	p.taken = p.taken.Union(cpus)
}

// takeWhole takes, one after the other, the units that are free from end to end and that need is enough for.
func (p *pool) takeWhole(units []*unit, need int) int {
	for _, u := range units {
		if need >= u.size && u.cpus.IsSubsetOf(p.free) && p.mayTake(u, need) {
			p.take(u.cpus)
			need -= u.size
		}
	}
	return need
}

// byFree orders units by how many of their CPUs are free, ascending, and those that have as many as they come. Those that have none are left
// out.
func (p *pool) byFree(units []*unit) []*unit {
	type counted struct {
		unit *unit
		free int
	}
	list := make([]counted, 0, len(units))
	for _, u := range units {
		if free := u.cpus.IntersectLen(p.free); free > 0 {
			list = append(list, counted{u, free})
		}
	}
	slices.SortStableFunc(list, func(a, b counted) int { return cmp.Compare(a.free, b.free) })
	ordered := make([]*unit, len(list))
	for i := range list {
		ordered[i] = list[i].unit
	}
	return ordered
}

func (p *pool) outerByFree() []*unit { return p.byFree(p.layout.outer) }

// innerByFree returns the inner units; those of one outer unit after those of another.
func (p *pool) innerByFree() []*unit {
	var all []*unit
	for _, o := range p.outerByFree() {
		all = append(all, p.byFree(o.inner)...)
	}
	return all
}

// coresByFree returns the cores, inner unit by inner unit.
func (p *pool) coresByFree() []*unit {
	var all []*unit
	for _, in := range p.innerByFree() {
		all = append(all, p.byFree(in.cores)...)
	}
	return all
}

// cachesByFree returns the last-level caches, NUMA node by NUMA node.
func (p *pool) cachesByFree() []*unit {
	var all []*unit
	for _, node := range p.nodesByFree() {
		all = append(all, p.byFree(node.caches)...)
	}
	return all
}

func (p *pool) nodesByFree() []*unit {
	if p.layout.numaFirst {
		return p.outerByFree()
	}
	return p.innerByFree()
}

func (p *pool) packagesByFree() []*unit {
	if p.layout.numaFirst {
		return p.innerByFree()
	}
	return p.outerByFree()
}
