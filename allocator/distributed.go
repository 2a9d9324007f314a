package allocator

import (
	"cmp"
	"math"
	"slices"

	"nri-cpuset/topology/cpuset"
)

// Distributed placement (distribute-cpus-across-numa): where one NUMA node is not enough, the same number of CPUs from each of as few as will
// do, so that no part of the container waits for one that has less. Of all ways to do so, that one which leaves the machine the most even.

// distributed takes n CPUs from the pool evenly, or packed where they cannot be shared out.
func (a *Allocator) distributed(p *pool, n int) {
	s, ok := a.share(p, n)
	if !ok {
		a.packed(p, n)
		return
	}
	take := func(at, n int) {
		here := pool{layout: p.layout, free: s.nodes[at].cpus.Intersect(p.free), coreSums: p.coreSums}
		a.packed(&here, n)
		p.take(here.taken)
	}
	for _, at := range s.best.nodes {
		take(at, s.best.each)
	}
	for rest := n - s.best.each*len(s.best.nodes); rest > 0; {
		for _, at := range s.best.extra {
			if rest > 0 && s.nodes[at].cpus.IntersectLen(p.free) >= s.group {
				take(at, s.group)
				rest -= s.group
			}
		}
	}
}

// sharing is the search for the NUMA nodes to distribute over.
type sharing struct {
	nodes    []*unit // those with free CPUs, as packed placement orders them; all int slices here are indexes of it
	free     []int
	packages []cpuset.Set // that the node's CPUs are on
	need     int
	group    int // CPUs that are handed out together

	bySocket bool
	best     share
	left     []int // scratch
}

// share is one way to hand out CPUs: so many from each node, and what remains, group by group, round and round from those in extra.
type share struct {
	nodes     []int
	each      int
	extra     []int
	score     float64 // how uneven the nodes' free CPUs are afterwards
	inPackage bool    // counts under align-by-socket only
}

// share looks for the fewest NUMA nodes that n CPUs can be distributed over, and for the best of these. It is false if there are none.
func (a *Allocator) share(p *pool, n int) (*sharing, bool) {
	s := &sharing{need: n, group: 1, bySocket: a.policy.Options.AlignBySocket}
	if a.policy.Options.FullPCPUsOnly {
		s.group = a.layout.threads
	}
	if n%s.group != 0 || a.coreSums() {
		return nil, false // there are no groups of that size
	}
	s.nodes = p.nodesByFree()
	for _, node := range s.nodes {
		s.free = append(s.free, node.cpus.IntersectLen(p.free))
		s.packages = append(s.packages, around(node.cpus, a.layout.packages))
	}
	s.left = make([]int, len(s.nodes))
	for size := a.fewestNodes(n/s.group, s.group); size <= min(n/s.group, len(s.nodes)); size++ {
		if s.over(size); s.best.nodes != nil {
			return s, true
		}
	}
	return nil, false
}

// over tries the combinations of so many nodes. With up to exactNodes nodes these are all of them, in the order that the kubelet goes
// through them, which settles ties. With more it is one combination, and one a package under align-by-socket: that of the nodes with the
// most free CPUs. No other is more even: each takes the same from every node, and the sum of the squares of what is left is the smaller the
// more the nodes had.
func (s *sharing) over(size int) {
	if len(s.nodes) <= exactNodes {
		choose(len(s.nodes), size, func(nodes []int) bool {
			s.try(nodes)
			return s.best.nodes != nil && s.best.score == 0 && (s.best.inPackage || !s.bySocket)
		})
		return
	}
	all := make([]int, len(s.nodes))
	for i := range all {
		all[i] = i
	}
	s.try(mostOf(all, s.free, size))
	for at := range s.nodes {
		if !s.bySocket || slices.ContainsFunc(s.packages[:at], s.packages[at].Equal) {
			continue
		}
		here := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return !s.packages[i].Equal(s.packages[at]) })
		s.try(mostOf(here, s.free, size))
	}
}

// try keeps a combination of nodes if the CPUs can be distributed over it and it is better than the best so far.
func (s *sharing) try(nodes []int) {
	c, ok := s.handOut(nodes)
	if !ok {
		return
	}
	c.inPackage = s.bySocket && s.onePackage(nodes)
	if s.best.nodes == nil || c.inPackage && !s.best.inPackage || c.inPackage == s.best.inPackage && c.score < s.best.score {
		c.nodes = slices.Clone(nodes)
		s.best = c
	}
}

// handOut shares the CPUs out to the nodes.
func (s *sharing) handOut(nodes []int) (share, bool) {
	groups, least := 0, math.MaxInt
	for _, at := range nodes {
		groups += s.free[at] / s.group
		least = min(least, s.free[at])
	}
	c := share{each: s.need / max(len(nodes), 1) / s.group * s.group}
	if s.bySocket {
		c.each = min(c.each, least/s.group*s.group)
	}
	if len(nodes) == 0 || groups*s.group < s.need || least < c.each {
		return c, false
	}
	rest := s.need - c.each*len(nodes)
	left := slices.Clone(s.free)
	var more []int // nodes that have something left for the rest
	for _, at := range nodes {
		if left[at] -= c.each; left[at] >= s.group {
			more = append(more, at)
		}
	}
	if rest == 0 {
		c.score = unevenness(left)
		return c, true
	}
	c.score = math.Inf(1)
	for size := len(more); size > 0; size-- {
		s.subsets(more, left, size, func(extra []int) {
			if score, ok := s.scoreOf(left, extra, rest); ok && score < c.score {
				c.score, c.extra = score, slices.Clone(extra)
			}
		})
	}
	return c, c.extra != nil
}

// subsets yields the subsets of so many nodes that the rest may come from: all of them, or with more than exactNodes nodes the one that has
// the most left.
func (s *sharing) subsets(more, left []int, size int, yield func([]int)) {
	if len(s.nodes) > exactNodes {
		yield(mostOf(more, left, size))
		return
	}
	subset := make([]int, size)
	choose(len(more), size, func(indexes []int) bool {
		for i, index := range indexes {
			subset[i] = more[index]
		}
		yield(subset)
		return false
	})
}

// scoreOf returns how uneven the nodes are once the rest is taken from those in extra. It is false if they do not have it.
func (s *sharing) scoreOf(left, extra []int, rest int) (float64, bool) {
	have := 0
	for _, at := range extra {
		have += left[at] / s.group * s.group
	}
	if have < rest {
		return 0, false
	}
	copy(s.left, left)
	for rest > 0 {
		for _, at := range extra {
			if rest > 0 && s.left[at] >= s.group {
				s.left[at] -= s.group
				rest -= s.group
			}
		}
	}
	return unevenness(s.left), true
}

func (s *sharing) onePackage(nodes []int) bool {
	var packages cpuset.Set
	for _, at := range nodes {
		packages = packages.Union(s.packages[at])
	}
	return packages.Equal(s.packages[nodes[0]])
}

// mostOf returns those of some nodes, in their order, that have the most; of equal ones the first. It is nil if there are not so many.
func mostOf(nodes, have []int, size int) []int {
	if len(nodes) < size {
		return nil
	}
	most := slices.Clone(nodes)
	slices.SortStableFunc(most, func(i, j int) int { return cmp.Compare(have[j], have[i]) })
	most = most[:size]
	slices.Sort(most)
	return most
}

// choose yields the combinations of k of the numbers 0 to n-1 in lexicographic order, until yield says that it is enough. The slice is used
// again.
func choose(n, k int, yield func([]int) bool) {
	c := make([]int, k)
	for i := range c {
		c[i] = i
	}
	for k <= n && !yield(c) {
		i := k - 1
		for i >= 0 && c[i] == n-k+i {
			i--
		}
		if i < 0 {
			return
		}
		c[i]++
		for j := i + 1; j < k; j++ {
			c[j] = c[j-1] + 1
		}
	}
}

// unevenness is the population standard deviation, to 3 decimals as the kubelet has it, which decides what counts as a tie.
func unevenness(have []int) float64 {
	sum := 0
	for _, n := range have {
		sum += n
	}
	mean := round3(float64(sum) / float64(len(have)))
	squares := 0.0
	for _, n := range have {
		squares += (float64(n) - mean) * (float64(n) - mean)
	}
	return round3(math.Sqrt(squares / float64(len(have))))
}

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }
