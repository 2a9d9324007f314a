package allocator

import "nri-cpuset/topology/cpuset"

// Packed placement, the static policy's default: fill up what is started before anything new is started. Its steps go from large units to
// small ones. Within a step those units come first that have the fewest free CPUs.

// packedSteps returns the steps of packed placement under the given options.
func packedSteps(o Options) []step {
	steps := []step{takeOuter, takeInner}
	if o.PreferAlignCPUsByUncoreCache {
		steps = append(steps, takeCaches)
	}
	if o.DistributeCPUsAcrossCores {
		return append(steps, takeCPUsSpread)
	}
	return append(steps, takeCores, takeCPUs)
}

// packed takes n CPUs from the pool step by step. The pool has to have as many.
func (a *Allocator) packed(p *pool, n int) {
	for _, s := range a.steps {
		if n == 0 {
			return
		}
		n = s(p, n)
	}
}

// takeOuter takes whole NUMA nodes, or whole packages where these are the larger ones.
func takeOuter(p *pool, need int) int { return p.takeWhole(p.outerByFree(), need) }

// takeInner takes whole packages, or whole NUMA nodes where packages are the larger ones.
func takeInner(p *pool, need int) int { return p.takeWhole(p.innerByFree(), need) }

// takeCores takes whole cores.
func takeCores(p *pool, need int) int { return p.takeWhole(p.coresByFree(), need) }

// takeCPUs takes single CPUs, core by core.
func takeCPUs(p *pool, need int) int { return p.takeSingle(p.coresByFree(), need) }

// takeCPUsSpread takes single CPUs of a package by their number, which the kernel gives so that neighbours are on different cores
// (distribute-cpus-across-cores).
func takeCPUsSpread(p *pool, need int) int { return p.takeSingle(p.packagesByFree(), need) }

func (p *pool) takeSingle(units []*unit, need int) int {
	var single cpuset.Set
	for _, u := range units {
		if need == 0 {
			break
		}
		here := u.cpus.Intersect(p.free).Lowest(need)
		single = single.Union(here)
		need -= here.Len()
	}
	p.take(single)
	return need
}
