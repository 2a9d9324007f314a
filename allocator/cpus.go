package allocator

import "nri-cpuset/topology/cpuset"

// placeCPUs decides which exclusive CPUs a container gets that has none yet, or fewer than it asks for now.
func (a *Allocator) placeCPUs(u *Usage, r *Request, affinity nodeMask) (cpuset.Set, error) {
	n, held := r.CPUs, r.Held.CPUs
	free := a.freeFor(u, r)
	if err := a.checkCores(free, held, n); err != nil {
		return cpuset.Set{}, err
	}
	if n > free.Len() {
		return cpuset.Set{}, a.refuse(UnexpectedAdmissionError, "cpuManagerPolicy static: %s asked, %d free (%s)",
			cpusText(n), free.Len(), a.freeOn(nil, free, nil))
	}
	cpus := a.takeTiers(held, free, n, a.tiers(r, free.Difference(held), affinity))
	if err := a.checkShared(u, r, cpus); err != nil {
		return cpuset.Set{}, err
	}
	return cpus, nil
}

// freeFor returns the CPUs that the container may be given, those included that it or its pod has already.
func (a *Allocator) freeFor(u *Usage, r *Request) cpuset.Set {
	free := a.assignable.Difference(u.exclusive).Union(r.Reusable.CPUs)
	if a.coreSums() {
		free = a.layout.wholeCores(free.Difference(a.reservedCores))
	}
	return free.Union(r.Held.CPUs)
}

// tiers returns from where CPUs are taken, as long as some are needed: first from what the pod has left, and next to that and to what the
// container has, then from the nodes that the topology manager chose, then from anywhere. Isolated CPUs come before others where only
// exclusive containers get them.
func (a *Allocator) tiers(r *Request, free cpuset.Set, affinity nodeMask) []cpuset.Set {
	aligned := free
	if affinity != 0 {
		aligned = free.Intersect(a.aligned(affinity))
	}
	var tiers []cpuset.Set
	if reusable := r.Reusable.CPUs; !reusable.IsEmpty() {
		tiers = append(tiers, a.unbroken(reusable.Intersect(aligned)))
	}
	if base := r.Held.CPUs.Union(r.Reusable.CPUs); !base.IsEmpty() {
		near := aligned.Union(around(base, a.layout.nodes).Intersect(free))
		for _, units := range a.layout.surroundings() {
			tiers = append(tiers, a.unbroken(around(base, units).Intersect(near)))
		}
	}
	if a.policy.Isolated == IsolatedExclusive && a.machine.Isolated.Overlaps(free) {
		isolated := a.machine.Isolated
		return append(tiers, a.unbroken(isolated.Intersect(aligned)), a.unbroken(aligned), a.unbroken(isolated.Intersect(free)), free)
	}
	return append(tiers, aligned, free)
}

// unbroken leaves out parts of cores under full-pcpus-only.
func (a *Allocator) unbroken(cpus cpuset.Set) cpuset.Set {
	if !a.policy.Options.FullPCPUsOnly {
		return cpus
	}
	return a.layout.wholeCores(cpus)
}

// takeTiers adds CPUs to those held until they are n. The last tier has everything free that the others have.
func (a *Allocator) takeTiers(held, free cpuset.Set, n int, tiers []cpuset.Set) cpuset.Set {
	cpus := held
	for _, tier := range tiers {
		need := n - cpus.Len()
		if need == 0 {
			break
		}
		here := tier.Difference(cpus)
		share := min(need, here.Len())
		if a.coreSums() {
			share = a.layout.shareInCores(here, free.Difference(here).Difference(cpus), need)
		}
		cpus = cpus.Union(a.pick(here, share))
	}
	return cpus
}

// aligned returns the CPUs of the nodes in m or, under align-by-socket, of the packages that these nodes are on.
func (a *Allocator) aligned(m nodeMask) cpuset.Set {
	cpus := a.cpusOn(m)
	if a.policy.Options.AlignBySocket {
		return around(cpus, a.layout.packages)
	}
	return cpus
}

// pick places n CPUs, of which the set has enough, by the policy's own strategy.
func (a *Allocator) pick(from cpuset.Set, n int) cpuset.Set {
	if n == 0 {
		return cpuset.Set{}
	}
	p := pool{layout: a.layout, free: from, coreSums: a.coreSums()}
	a.place(&p, n)
	return p.taken
}

// checkCores is full-pcpus-only: nobody shares a core with anybody else, the system included. Where reservedSystemCPUs names some threads of a
// core only, the others can be given out all the same, as the kubelet does.
func (a *Allocator) checkCores(free, held cpuset.Set, n int) error {
	if !a.policy.Options.FullPCPUsOnly {
		return nil
	}
	if err := a.checkGrain(n); err != nil {
		return err
	}
	if whole := free.Difference(a.reservedCores); n > whole.Len() {
		return a.refuse(SMTAlignmentError, "full-pcpus-only: %s asked, %d free in cores that hold no reserved CPU (%s)",
			cpusText(n), whole.Len(), a.freeOn(nil, whole, nil))
	}
	if a.coreSums() && !a.layout.count(free.Difference(held)).addUpTo(n-held.Len()) {
		return a.refuse(SMTAlignmentError, "full-pcpus-only: %s asked, which the free cores, of different sizes, do not add up to (%s)",
			cpusText(n), a.freeOn(nil, free, nil))
	}
	return nil
}

// checkGrain is the part of full-pcpus-only that does not depend on what is free.
func (a *Allocator) checkGrain(n int) error {
	grain := a.layout.grain
	if !a.policy.Options.FullPCPUsOnly || n%grain == 0 {
		return nil
	}
	return a.refuse(SMTAlignmentError, "full-pcpus-only: %s asked, and a core has %d: ask for a multiple", cpusText(n), grain)
}

// checkShared keeps the shared pool from becoming empty while somebody runs in it: an empty cpuset means "no change" to a runtime, which
// would leave these containers where they are, on CPUs that are exclusive now.
func (a *Allocator) checkShared(u *Usage, r *Request, cpus cpuset.Set) error {
	before := a.Shared(u)
	after := before.Union(r.Held.CPUs.Intersect(a.shareable)).Difference(cpus)
	if r.KeepShared && after.IsEmpty() && before.Overlaps(cpus) {
		return a.refuse(UnexpectedAdmissionError,
			"cpuManagerPolicy static: %s asked, which leaves none to the containers that run in the shared pool (%s): ask for fewer",
			cpusText(cpus.Len()), brief(before))
	}
	return nil
}

// checkPool refuses a container that would run in a shared pool without CPUs.
func (a *Allocator) checkPool(u *Usage, r *Request) error {
	if a.policy.CPUManager == CPUManagerStatic && a.Shared(u).Union(r.Held.CPUs.Intersect(a.shareable)).IsEmpty() {
		return a.refuse(UnexpectedAdmissionError,
			"cpuManagerPolicy static: the shared pool is empty: all CPUs are exclusive (%s) or withheld (%s)", brief(u.exclusive), brief(a.withheld))
	}
	return nil
}
