package allocator

// align is the topology manager: it asks every resource for its hints, merges them, and says whether the container may run with what comes
// out. It is not asked about a container that keeps its CPUs, or a part of them.
func (a *Allocator) align(u *Usage, r *Request) (hint, error) {
	switch keeps := !r.Held.CPUs.IsEmpty() && r.CPUs <= r.Held.CPUs.Len(); {
	case !a.policy.aligns():
		return hint{}, nil
	case keeps:
		return hint{a.maskOf(r.Held.Affinity.Nodes), r.Held.Affinity.Preferred}, nil
	case r.Affinity != nil:
		return hint{a.maskOf(r.Affinity.Nodes), r.Affinity.Preferred}, nil
	}
	asked := &r.Amount
	if r.Pod != nil {
		asked = r.Pod
	}
	all := a.hints(u, r, asked)
	if a.policy.TopologyManager == TopologyManagerSingleNUMANode {
		merged, ok := a.mergeSingle(all[:])
		if !ok {
			return hint{}, a.refuseSingle(u, r, asked)
		}
		return merged, nil
	}
	merged := a.merge(all[:])
	if a.policy.TopologyManager == TopologyManagerRestricted && !merged.preferred {
		return hint{}, a.refuseRestricted(u, r, asked, &all)
	}
	return merged, nil
}

// The resources that give hints.
const (
	fromCPUs = iota
	fromMemory
	fromDevices
	resources
)

// hints asks all resources.
func (a *Allocator) hints(u *Usage, r *Request, asked *Amount) [resources]hints {
	var all [resources]hints
	if a.policy.CPUManager == CPUManagerStatic {
		all[fromCPUs] = a.cpuHints(a.freeFor(u, r), r.Held.CPUs.Union(r.Reusable.CPUs), asked.CPUs)
	}
	if len(r.Held.Blocks) > 0 {
		all[fromMemory] = a.heldMemoryHints(&r.Held)
	} else {
		all[fromMemory] = a.memoryHints(u, a.memoryNeeds(asked.Memory), r.Reusable.Blocks)
	}
	all[fromDevices] = a.deviceHints(r.Devices)
	return all
}

// affinity returns a hint as a placement has it.
func (a *Allocator) affinity(h hint) Affinity {
	return Affinity{Nodes: a.numbersOf(h.mask), Preferred: h.preferred}
}
