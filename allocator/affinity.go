package allocator

import (
	"nri-cpuset/topology/cpuset"
)

// align is the topology manager: it asks every resource for its hints, merges them, and says whether the container may run by what comes out.
func (a *Allocator) align(u *Usage, r *Request) (hint, error) {
	if a.policy.TopologyManager == TopologyManagerNone || a.policy.TopologyManager == "" {
		return hint{}, nil
	}
	if r.Affinity != nil {
		return hint{a.maskOf(r.Affinity.Nodes), r.Affinity.Preferred}, nil
	}
	asked := &r.Amount
	if r.Pod != nil {
		asked = r.Pod
	}
	all := a.hints(u, r, asked)
	switch a.policy.TopologyManager {
	case TopologyManagerBestEffort:
		return a.merge(all[:]), nil
	case TopologyManagerRestricted:
		merged := a.merge(all[:])
		if !merged.preferred {
			return hint{}, a.refuseAlignment(u, r, asked, all[:])
		}
		return merged, nil
	default:
		merged, ok := a.mergeSingle(all[:])
		if !ok {
			return hint{}, a.refuseAlignment(u, r, asked, all[:])
		}
		return merged, nil
	}
}

// hints asks the resources: CPUs, memory, devices.
func (a *Allocator) hints(u *Usage, r *Request, asked *Amount) [3]hints {
	var cpus hints
	if a.policy.CPUManager == CPUManagerStatic {
		cpus = a.cpuHints(a.freeFor(u, r), r.Reusable.CPUs, asked.CPUs)
	}
	return [3]hints{cpus, a.memoryHints(u, a.memoryNeeds(asked.Memory), r.Reusable.Blocks), a.deviceHints(r.Devices)}
}

// freeFor returns the CPUs that the container may be given.
func (a *Allocator) freeFor(u *Usage, r *Request) cpuset.Set {
	return a.assignable.Difference(u.exclusive).Union(r.Reusable.CPUs)
}

// affinity returns the placement's form of a hint.
func (a *Allocator) affinity(h hint) Affinity {
	return Affinity{Nodes: a.numbersOf(h.mask), Preferred: h.preferred}
}
