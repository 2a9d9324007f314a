package allocator

import (
	"math/big"

	"nri-cpuset/topology/cpuset"
)

// full-pcpus-only on machines whose cores have different numbers of threads: hybrid parts, or threads that are offline. There a number of CPUs
// can be given in whole cores if some of the free cores add up to it, and placement must not start on cores whose rest does not add up.

// coreSums tells whether CPUs can only be given as sums of cores of different sizes.
func (a *Allocator) coreSums() bool { return a.policy.Options.FullPCPUsOnly && a.layout.uneven }

// sums returns a function that tells whether a number of CPUs is the sum of some of the whole cores in a set.
func (l *layout) sums(cpus cpuset.Set) func(n int) bool {
	reach := big.NewInt(1) // bit n: some cores come to n CPUs
	var shifted big.Int
	for _, c := range l.cores {
		if c.cpus.IsSubsetOf(cpus) {
			reach.Or(reach, shifted.Lsh(reach, uint(c.size)))
		}
	}
	return func(n int) bool { return n >= 0 && reach.Bit(n) == 1 }
}

// shareInCores returns how many of the CPUs needed to take here, so that the others have the rest: as many as can be.
func (l *layout) shareInCores(here, others cpuset.Set, need int) int {
	inHere, inOthers := l.sums(here), l.sums(others)
	share := min(need, here.Len())
	for share > 0 && (!inHere(share) || !inOthers(need-share)) {
		share--
	}
	return share
}

// mayTake tells whether what is needed still adds up after a unit is taken whole.
func (p *pool) mayTake(u *unit, need int) bool {
	return !p.coreSums || p.layout.sums(p.free.Difference(u.cpus))(need-u.size)
}

// addsUp returns a function that tells whether some of the free cores of a mask's nodes come to n CPUs.
func (a *Allocator) addsUp(free cpuset.Set, n int) func(nodeMask) bool {
	return func(m nodeMask) bool { return a.layout.sums(free.Intersect(a.cpusOn(m)))(n) }
}

// fewestInCores returns how many NUMA nodes n CPUs in whole cores need when nothing is taken.
func (a *Allocator) fewestInCores(n int) (int, bool) {
	h := hints{universe: a.cpuNodes, accept: a.addsUp(a.usable, n)}
	m, ok := h.narrowest(1, maxMaskNodes, 0)
	return m.size(), ok
}
