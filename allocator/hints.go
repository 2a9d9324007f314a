package allocator

import (
	"slices"

	"nri-cpuset/topology/cpuset"
)

// hints are what one resource says of the NUMA nodes that it can come from. The kubelet lists every mask that fits; here the list is described
// instead: a mask fits if it is one of exact, or if it is made of nodes of the universe, has all of must and no fewer nodes than least, and
// its nodes together have what is needed.
type hints struct {
	opinion  bool // false: the resource can come from anywhere
	universe nodeMask
	must     nodeMask
	least    int
	needs    []need
	accept   func(nodeMask) bool // what else is asked of such a mask, and of all that contain it; nil for nothing
	exact    []nodeMask

	preferred int         // a mask of this size is preferred
	sockets   *socketRule // align-by-socket: what is preferred instead; or nil
	times     int         // how many resources say the very same
}

// socketRule prefers masks of a size, and all that span just so many packages.
type socketRule struct {
	size      int
	packages  int
	ofNode    []nodeMask // on which packages a NUMA node is, by their indexes
	mostNodes int        // that so many packages have
}

func (r *socketRule) prefers(m nodeMask) bool { return m.size() == r.size || r.span(m) == r.packages }

// span returns how many packages the nodes of a mask are on.
func (r *socketRule) span(m nodeMask) int {
	var packages nodeMask
	for i := range m.nodes() {
		packages |= r.ofNode[i]
	}
	return packages.size()
}

func (h *hints) fits(m nodeMask) bool {
	return slices.Contains(h.exact, m) || h.fitsOpen(m)
}

func (h *hints) fitsOpen(m nodeMask) bool {
	if !h.universe.contains(m) || !m.contains(h.must) || m.size() < h.least {
		return false
	}
	for _, n := range h.needs {
		var sum uint64
		for i := range m.nodes() {
			sum += n.at[i]
		}
		if sum < n.amount {
			return false
		}
	}
	return h.accept == nil || h.accept(m)
}

// isEmpty tells whether no mask fits. The universe fits if anything made of it does.
func (h *hints) isEmpty() bool { return len(h.exact) == 0 && !h.fitsOpen(h.universe) }

func (h *hints) prefers(m nodeMask) bool {
	if h.sockets != nil {
		return h.sockets.prefers(m)
	}
	return m.size() == h.preferred
}

// narrowest returns the smallest mask that fits, contains the given one and has first to last nodes; of equal sizes the smaller integer.
func (h *hints) narrowest(first, last int, with nodeMask) (nodeMask, bool) {
	s := search{universe: h.universe, must: h.must | with, needs: h.needs, accept: h.accept}
	best, found := s.narrowest(max(first, h.least, 1), last)
	for _, m := range h.exact {
		if size := m.size(); size < first || size > last || !m.contains(with) {
			continue
		}
		if !found || narrower(m, best) {
			best, found = m, true
		}
	}
	return best, found
}

// fewest returns how many nodes the smallest mask has that fits, or how many there are if none is found.
func (h *hints) fewest() int {
	if m, ok := h.narrowest(1, maxMaskNodes, 0); ok {
		return m.size()
	}
	return h.universe.size()
}

// narrower is the kubelet's order of masks: by size, then by integer.
func narrower(m, than nodeMask) bool {
	if m.size() != than.size() {
		return m.size() < than.size()
	}
	return m < than
}

// cpuHints says on which NUMA nodes n exclusive CPUs are free. Those in reusable are, and its nodes have to be in every mask.
func (a *Allocator) cpuHints(free, reusable cpuset.Set, n int) hints {
	if n <= 0 {
		return hints{}
	}
	at := make([]uint64, len(a.machine.Nodes))
	for i := range at {
		at[i] = uint64(a.machine.Nodes[i].CPUs.IntersectLen(free)) //nolint:gosec // a count
	}
	h := hints{
		opinion:   true,
		universe:  a.cpuNodes,
		must:      a.nodesOf(reusable),
		least:     1,
		needs:     []need{{amount: uint64(n), at: at}},
		preferred: a.fewestNodes(n, 1),
		times:     1,
	}
	if a.coreSums() {
		h.accept = a.coresAddUp(free, n)
		h.preferred = a.fewestInCores(n)
	}
	if a.policy.Options.AlignBySocket {
		h.sockets = a.socketRule(h.preferred)
	}
	return h
}

// fewestNodes returns how many NUMA nodes it takes for so many groups of CPUs, each of so many and on one node, when nothing is taken; or how
// many there are if that is not enough.
func (a *Allocator) fewestNodes(groups, size int) int {
	have := make([]int, len(a.layout.nodes))
	for i := range have {
		have[i] = a.layout.nodes[i].cpus.IntersectLen(a.usable) / size
	}
	slices.Sort(have)
	for i, n := range slices.Backward(have) {
		if groups -= n; groups <= 0 {
			return len(have) - i
		}
	}
	return len(have)
}

// socketRule prefers masks on as few packages as so many NUMA nodes can be on.
func (a *Allocator) socketRule(nodes int) *socketRule {
	perPackage := a.cpuNodes.size() / len(a.layout.packages)
	if perPackage == 0 {
		return nil
	}
	r := &socketRule{size: nodes, packages: (nodes + perPackage - 1) / perPackage, ofNode: make([]nodeMask, len(a.machine.Nodes))}
	onPackage := make([]int, len(a.layout.packages))
	for i := range a.machine.Nodes {
		for p, pkg := range a.layout.packages {
			if pkg.cpus.Overlaps(a.machine.Nodes[i].CPUs) {
				r.ofNode[i] |= nodeBit(p)
				onPackage[p]++
			}
		}
	}
	slices.Sort(onPackage)
	for _, n := range onPackage[max(0, len(onPackage)-r.packages):] {
		r.mostNodes += n
	}
	return r
}
