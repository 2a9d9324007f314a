package allocator

import "slices"

// deviceHints says on which NUMA nodes a container's devices are. They are given to it already, so a mask fits that has a node of each, and
// the smallest such masks are preferred. A device that is on no node the machine has does not count.
func (a *Allocator) deviceHints(devices []Device) hints {
	h := hints{opinion: true, universe: a.allNodes, least: 1, times: 1}
	var seen []nodeMask
	for _, d := range devices {
		at := a.maskOf(d.Nodes)
		if at == 0 || slices.Contains(seen, at) {
			continue
		}
		seen = append(seen, at)
		n := need{amount: 1, at: make([]uint64, len(a.machine.Nodes))}
		for i := range at.nodes() {
			n.at[i] = 1
		}
		h.needs = append(h.needs, n)
	}
	if len(seen) == 0 {
		return hints{}
	}
	h.preferred = h.fewest()
	return h
}
