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
func takeWhole[U any](p *pool, units []*U, as func(*U) *unit, need int) int {
	for i := range units {
		u := as(units[i])
		if need >= u.size && u.cpus.IsSubsetOf(p.free) && p.mayTake(u, need) {
			p.take(u.cpus)
			need -= u.size
		}
	}
	return need
}

func (p *pool) outerByFree() []*outer {
	return byFree(p, pointers(p.layout.outer), outerUnit)
}

func (p *pool) innerByFree() []*inner {
	var all []*inner
	for _, o := range p.outerByFree() {
		all = append(all, byFree(p, pointers(o.inner), innerUnit)...)
	}
	return all
}

func (p *pool) coresByFree() []*unit {
	var all []*unit
	for _, in := range p.innerByFree() {
		all = append(all, byFree(p, picked(p.layout.cores, in.cores), sameUnit)...)
	}
	return all
}

// cachesByFree goes NUMA node by NUMA node.
func (p *pool) cachesByFree() []*unit {
	var all []*unit
	for _, o := range p.outerByFree() {
		if !p.layout.numaFirst {
			for _, in := range byFree(p, pointers(o.inner), innerUnit) {
				all = append(all, byFree(p, picked(p.layout.caches, in.caches), sameUnit)...)
			}
			continue
		}
		var here []*unit
		for i := range p.layout.caches {
			if c := &p.layout.caches[i]; c.cpus.Overlaps(o.cpus) {
				here = append(here, c)
			}
		}
		all = append(all, byFree(p, here, sameUnit)...)
	}
	return all
}

// nodesByFree returns the NUMA nodes; where packages come first, those of one package after those of another.
func (p *pool) nodesByFree() []*unit {
	var all []*unit
	if !p.layout.numaFirst {
		for _, in := range p.innerByFree() {
			all = append(all, &in.unit)
		}
		return all
	}
	for _, o := range p.outerByFree() {
		all = append(all, &o.unit)
	}
	return all
}

// packagesByFree returns the packages; where NUMA nodes come first, those of one node after those of another.
func (p *pool) packagesByFree() []*unit {
	var all []*unit
	if p.layout.numaFirst {
		for _, in := range p.innerByFree() {
			all = append(all, &in.unit)
		}
		return all
	}
	for _, o := range p.outerByFree() {
		all = append(all, &o.unit)
	}
	return all
}

// byFree orders units by how many of their CPUs are free, ascending, and those that have as many as they come. Those that have none are left
// out.
func byFree[U any](p *pool, units []*U, as func(*U) *unit) []*U {
	type counted struct {
		u    *U
		free int
	}
	list := make([]counted, 0, len(units))
	for _, u := range units {
		if free := as(u).cpus.IntersectLen(p.free); free > 0 {
			list = append(list, counted{u, free})
		}
	}
	slices.SortStableFunc(list, func(a, b counted) int { return cmp.Compare(a.free, b.free) })
	ordered := units[:0]
	for _, c := range list {
		ordered = append(ordered, c.u)
	}
	return ordered
}

func outerUnit(o *outer) *unit { return &o.unit }
func innerUnit(i *inner) *unit { return &i.unit }
func sameUnit(u *unit) *unit   { return u }

func pointers[T any](all []T) []*T {
	p := make([]*T, len(all))
	for i := range all {
		p[i] = &all[i]
	}
	return p
}

func picked[T any](all []T, indexes []int) []*T {
	p := make([]*T, len(indexes))
	for i, index := range indexes {
		p[i] = &all[index]
	}
	return p
}
