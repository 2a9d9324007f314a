package allocator

import "nri-cpuset/topology/cpuset"

// full-pcpus-only on machines whose cores have different numbers of threads: hybrid parts, or threads that are offline. There a number of CPUs
// can be given in whole cores if some of the free cores add up to it, and placement must not start on cores whose rest does not add up.

// coreSums tells whether CPUs can only be given as sums of cores of different sizes.
func (a *Allocator) coreSums() bool { return a.policy.Options.FullPCPUsOnly && a.layout.uneven }

// coreCounts is how many cores there are of each size, by size.
type coreCounts []int

// count counts the cores that are all in a set.
func (l *layout) count(cpus cpuset.Set) coreCounts {
	counts := make(coreCounts, l.threads+1)
	for _, c := range l.cores {
		if c.cpus.IsSubsetOf(cpus) {
			counts[c.size]++
		}
	}
	return counts
}

// addUpTo tells whether some of the cores come to n CPUs.
func (counts coreCounts) addUpTo(n int) bool {
	total := 0
	for size, count := range counts {
		total += size * count
	}
	if n < 0 || n > total {
		return false
	}
	const never = -1
	used := make([]int, n+1) // for each sum, how many cores of the size at hand it takes
	for sum := range used[1:] {
		used[sum+1] = never
	}
	for size, count := range counts {
		for sum := range used {
			switch {
			case used[sum] != never:
				used[sum] = 0
			case size > 0 && sum >= size && used[sum-size] != never && used[sum-size] < count:
				used[sum] = used[sum-size] + 1
			}
		}
	}
	return used[n] != never
}

// shareInCores returns how many of the CPUs needed to take here, so that the others have the rest: as many as can be.
func (l *layout) shareInCores(here, others cpuset.Set, need int) int {
	inHere, inOthers := l.count(here), l.count(others)
	share := min(need, here.Len())
	for share > 0 && (!inHere.addUpTo(share) || !inOthers.addUpTo(need-share)) {
		share--
	}
	return share
}

// mayTake tells whether what is needed still adds up after a unit is taken whole.
func (p *pool) mayTake(u *unit, need int) bool {
	return !p.coreSums || p.layout.count(p.free.Difference(u.cpus)).addUpTo(need-u.size)
}

// coresAddUp returns a function that tells whether some of the free cores of a mask's nodes come to n CPUs.
func (a *Allocator) coresAddUp(free cpuset.Set, n int) func(nodeMask) bool {
	onNode := make([]coreCounts, len(a.machine.Nodes))
	for i := range onNode {
		onNode[i] = a.layout.count(free.Intersect(a.machine.Nodes[i].CPUs))
	}
	return func(m nodeMask) bool {
		all := make(coreCounts, a.layout.threads+1)
		for i := range m.nodes() {
			for size, count := range onNode[i] {
				all[size] += count
			}
		}
		return all.addUpTo(n)
	}
}

// fewestInCores returns how many NUMA nodes n CPUs in whole cores need when nothing is taken, or how many there are if that is not enough.
func (a *Allocator) fewestInCores(n int) int {
	h := hints{universe: a.cpuNodes, accept: a.coresAddUp(a.usable, n)}
	return h.fewest()
}
