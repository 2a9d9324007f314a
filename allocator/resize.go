package allocator

import "nri-cpuset/topology/cpuset"

// keepsAll tells whether there is nothing to decide, because the container has all it asks for: it starts again in place.
func (r *Request) keepsAll(needs []memoryNeed) bool {
	something := !r.Held.CPUs.IsEmpty() || len(r.Held.Blocks) > 0
	return something && r.Held.CPUs.Len() == r.CPUs && (len(needs) == 0 || len(r.Held.Blocks) > 0)
}

// changeCPUs decides what becomes of the exclusive CPUs that a container has, if any. The same number stays as it is, more grow next to these,
// and fewer are a part of them.
func (a *Allocator) changeCPUs(u *Usage, r *Request, affinity nodeMask) (cpuset.Set, error) {
	held := r.Held.CPUs
	switch {
	case r.CPUs <= 0:
		return cpuset.Set{}, a.checkPool(u, r)
	case r.CPUs > held.Len():
		return a.placeCPUs(u, r, affinity)
	case r.CPUs == held.Len():
		return held, nil
	default:
		return a.shrink(held, r.CPUs)
	}
}

// shrink picks those CPUs that a container keeps.
func (a *Allocator) shrink(held cpuset.Set, n int) (cpuset.Set, error) {
	if err := a.checkGrain(n); err != nil {
		return cpuset.Set{}, err
	}
	if a.coreSums() && !a.layout.count(held).addUpTo(n) {
		return cpuset.Set{}, a.refuse(SMTAlignmentError, "full-pcpus-only: %s asked, which the cores it has (%s) do not add up to",
			cpusText(n), brief(held))
	}
	return a.pick(held, n), nil
}
