package allocator

// hint is what the topology manager decides on: a mask of NUMA nodes, 0 for any, and whether all resources prefer it.
type hint struct {
	mask      nodeMask
	preferred bool
}

// exactNodes is up to how many NUMA nodes masks that nobody prefers are merged over all combinations, as the kubelet does, which has no more
// by default (max-allowable-numa-nodes).
const exactNodes = 8

// merge finds the best mask that comes out when one mask of each resource is taken and only the nodes in all of them are kept. It is
// preferred if they are all the same mask, and each resource prefers it.
func (a *Allocator) merge(all []hints) hint {
	var opinions []*hints
	content := true // nobody who has an opinion is without a mask
	for i := range all {
		switch h := &all[i]; {
		case !h.opinion:
		case h.isEmpty():
			content = false
		default:
			opinions = append(opinions, h)
		}
	}
	if len(opinions) == 0 {
		return hint{a.allNodes, content}
	}
	if content {
		if m, ok := a.mergePreferred(opinions); ok {
			return hint{m, true}
		}
	}
	if m := a.mergeOthers(opinions); m != 0 {
		return hint{m, false}
	}
	return hint{a.allNodes, false}
}

// mergeSingle is merge under single-numa-node, which looks at preferred masks of one node only. It is false if they have none in common.
func (a *Allocator) mergeSingle(all []hints) (hint, bool) {
	var opinions []*hints
	for i := range all {
		if h := &all[i]; h.opinion {
			if h.preferred != 1 || h.isEmpty() {
				return hint{}, false
			}
			opinions = append(opinions, h)
		}
	}
	if len(opinions) == 0 {
		return hint{preferred: true}, true
	}
	m, ok := a.common(opinions, 1, 1, nil)
	if m == a.allNodes {
		m = 0
	}
	return hint{m, true}, ok
}

// mergePreferred finds the narrowest mask that all resources prefer.
func (a *Allocator) mergePreferred(all []*hints) (nodeMask, bool) {
	size, bySocket := 0, (*socketRule)(nil)
	for _, h := range all {
		if h.sockets != nil {
			bySocket = h.sockets
			continue
		}
		if size != 0 && size != h.preferred {
			return 0, false
		}
		size = h.preferred
	}
	if size != 0 {
		return a.common(all, size, size, bySocket)
	}
	return a.common(all, 1, max(bySocket.size, bySocket.mostNodes), bySocket)
}

// common finds the fittest mask that fits every resource, is preferred by a rule if there is one, and has first to last nodes.
func (a *Allocator) common(all []*hints, first, last int, rule *socketRule) (nodeMask, bool) {
	s := search{universe: a.allNodes, sockets: rule, distances: a.distances}
	least := first
	for _, h := range all {
		s.universe &= h.universe
		s.must |= h.must
		s.needs = append(s.needs, h.needs...)
		if h.accept != nil {
			s.accept = h.accept // CPUs are the only ones that have it
		}
		least = max(least, h.least)
	}
	best, found := s.narrowest(least, last)
	for _, h := range all {
		for _, m := range h.exact {
			if size := m.size(); size < first || size > last || rule != nil && !rule.prefers(m) || !fitsAll(all, m) {
				continue
			}
			if !found || a.fitter(m, best) {
				best, found = m, true
			}
		}
	}
	return best, found
}

func fitsAll(all []*hints, m nodeMask) bool {
	for _, h := range all {
		if !h.fits(m) {
			return false
		}
	}
	return true
}

// mergeOthers finds the best mask that comes out of a combination when none is preferred by all. 0: none has a node left. With more than
// exactNodes nodes it looks at those combinations only in which all masks are the same, or all but one are as wide as they can be.
func (a *Allocator) mergeOthers(all []*hints) nodeMask {
	target := 0 // the most that any resource needs by itself
	for _, h := range all {
		m, _ := h.narrowest(1, len(a.machine.Nodes), 0)
		target = max(target, m.size())
	}
	var best nodeMask
	consider := func(m nodeMask) {
		if m != 0 && (best == 0 || a.nearer(m, best, target)) {
			best = m
		}
	}
	if len(a.machine.Nodes) <= exactNodes {
		for m, possible := range combinations(all) {
			if possible {
				consider(nodeMask(m))
			}
		}
		return best
	}
	if m, ok := a.common(all, 1, len(a.machine.Nodes), nil); ok {
		consider(m)
	}
	for i, h := range all {
		m, _ := h.narrowest(1, len(a.machine.Nodes), 0)
		for j, other := range all {
			if j != i {
				m &= other.widest(m)
			}
		}
		consider(m)
	}
	return best
}

// nearer is the topology manager's order of masks that not all prefer: one of the target size is the best, then a smaller one, the larger the
// better, then a larger one, the smaller the better.
func (a *Allocator) nearer(m, than nodeMask, target int) bool {
	if d, e := offTarget(m.size(), target), offTarget(than.size(), target); d != e {
		return d < e
	}
	return a.fitter(m, than)
}

func offTarget(size, target int) int {
	if size <= target {
		return target - size
	}
	return maxMaskNodes + size - target
}

// widest returns a mask that fits and has as many of the given nodes as there are in one.
func (h *hints) widest(of nodeMask) nodeMask {
	var best nodeMask
	if h.fitsOpen(h.universe) {
		best = h.universe
	}
	for _, m := range h.exact {
		if (m & of).size() > (best & of).size() {
			best = m
		}
	}
	return best
}

// lattice has something for every mask of up to exactNodes nodes.
type lattice [1 << exactNodes]uint32

// combinations tells for each mask whether it is what a combination of one mask of each resource has in common.
//
// How many pairs of two lists have just a mask in common is hard to count. How many have at least that mask in common is not: the number
// of masks in one list that contain it times the number in the other. So both lists are turned into such numbers, multiplied, and
// turned back.
func combinations(all []*hints) *[1 << exactNodes]bool {
	var sum lattice
	for i := range sum {
		sum[i] = 1 // as if there were one list already, of the mask of all nodes
	}
	for _, h := range all {
		var list lattice
		for m := range list {
			if h.fits(nodeMask(m)) {
				list[m] = 1
			}
		}
		list.addSupersets()
		for range h.times {
			for m := range sum {
				sum[m] *= list[m]
			}
			sum.subtractSupersets()
			for m := range sum {
				sum[m] = min(sum[m], 1)
			}
			sum.addSupersets()
		}
	}
	sum.subtractSupersets()
	var possible [1 << exactNodes]bool
	for m := range sum {
		possible[m] = sum[m] != 0
	}
	return &possible
}

// addSupersets adds to every mask what the masks have that contain it.
func (l *lattice) addSupersets() {
	for bit := 1; bit < len(l); bit <<= 1 {
		for m := range l {
			if m&bit == 0 {
				l[m] += l[m|bit]
			}
		}
	}
}

// subtractSupersets undoes addSupersets.
func (l *lattice) subtractSupersets() {
	for bit := 1; bit < len(l); bit <<= 1 {
		for m := range l {
			if m&bit == 0 {
				l[m] -= l[m|bit]
			}
		}
	}
}

// fitter is the topology manager's order of masks: by size, under prefer-closest-numa-nodes by the distances between their nodes, and by
// integer.
func (a *Allocator) fitter(m, than nodeMask) bool {
	if a.distances != nil && m.size() == than.size() {
		if d, e := a.distanceIn(m), a.distanceIn(than); d != e {
			return d < e
		}
	}
	return narrower(m, than)
}

// distanceIn adds up the distances between all nodes of a mask, each to itself included.
func (a *Allocator) distanceIn(m nodeMask) int {
	sum := 0
	for i := range m.nodes() {
		for j := range m.nodes() {
			sum += a.distances[i][j]
		}
	}
	return sum
}
