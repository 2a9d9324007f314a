package allocator

import (
	"nri-cpuset/topology/cpuset"
)

// placeCPUs decides which exclusive CPUs a container gets: those on the nodes that the topology manager chose first.
func (a *Allocator) placeCPUs(u *Usage, r *Request, affinity nodeMask) (cpuset.Set, error) {
	n := r.CPUs
	free := a.freeFor(u, r)
	if err := a.checkCores(free, n); err != nil {
		return cpuset.Set{}, err
	}
	if n > free.Len() {
		return cpuset.Set{}, a.refuse(UnexpectedAdmissionError, "%d CPUs asked, %d free (%s)", n, free.Len(), a.byNode(free))
	}
	var cpus cpuset.Set
	for _, tier := range []cpuset.Set{free.Intersect(a.aligned(affinity)), free} {
		here := tier.Difference(cpus)
		cpus = cpus.Union(a.pick(here, min(n-cpus.Len(), here.Len())))
	}
	if shared := a.Shared(u); r.KeepShared && shared.Overlaps(cpus) && shared.IsSubsetOf(cpus) {
		return cpuset.Set{}, a.refuse(UnexpectedAdmissionError,
			"%d CPUs asked, which would leave none to the containers of the shared pool (%s): reserve CPUs that stay in it", n, shared)
	}
	return cpus, nil
}

// aligned returns the CPUs of the nodes in m or, under align-by-socket, of the packages that these nodes are on.
func (a *Allocator) aligned(m nodeMask) cpuset.Set {
	cpus := a.cpusOn(m)
	if !a.policy.Options.AlignBySocket {
		return cpus
	}
	var packages cpuset.Set
	for i := range a.machine.Packages {
		if a.machine.Packages[i].CPUs.Overlaps(cpus) {
			packages = packages.Union(a.machine.Packages[i].CPUs)
		}
	}
	return packages
}

// checkCores is full-pcpus-only: nobody shares a core with anybody else, the system included.
func (a *Allocator) checkCores(free cpuset.Set, n int) error {
	if !a.policy.Options.FullPCPUsOnly {
		return nil
	}
	if grain := a.layout.grain; n%grain != 0 {
		return a.refuse(SMTAlignmentError, "%d CPUs asked, which is not a multiple of %d, the CPUs of a core", n, grain)
	}
	if whole := free.Difference(a.reservedCores); n > whole.Len() {
		return a.refuse(SMTAlignmentError, "%d CPUs asked, %d free in whole cores that hold no reserved CPU (%s)", n, whole.Len(), a.byNode(whole))
	}
	return nil
}
