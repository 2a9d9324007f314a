package allocator

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"nri-cpuset/topology/cpuset"
)

// shareListed is the distribution spelled out: all sets of NUMA nodes, all subsets for what remains. It returns the best for the first number
// of nodes that works, in the terms of sharing, or false.
func shareListed(s *sharing, fewest int) (share, bool) {
	for size := fewest; size <= min(s.need/s.group, len(s.nodes)); size++ {
		var best share
		for _, nodes := range subsetsOf(len(s.nodes), size) {
			each := s.need / size / s.group * s.group
			groups, least := 0, math.MaxInt
			for _, i := range nodes {
				groups += s.free[i] / s.group
				least = min(least, s.free[i])
			}
			if s.bySocket {
				each = min(each, least/s.group*s.group)
			}
			if groups*s.group < s.need || least < each {
				continue
			}
			for _, extra := range extras(s, nodes, each) {
				score, ok := play(s, nodes, extra, each)
				c := share{nodes: nodes, each: each, extra: extra, score: score, inPackage: s.bySocket && s.onePackage(nodes)}
				better := best.nodes == nil || c.inPackage && !best.inPackage || c.inPackage == best.inPackage && c.score < best.score
				// The kubelet stops at a score of 0: what comes later is not looked at, even if it is in one socket.
				done := best.nodes != nil && best.score == 0 && (best.inPackage || !s.bySocket)
				if ok && better && !done {
					best = c
				}
			}
		}
		if best.nodes != nil {
			return best, true
		}
	}
	return share{}, false
}

// extras lists what the rest may be taken from, the largest subsets first; one empty subset where there is no rest.
func extras(s *sharing, nodes []int, each int) [][]int {
	if s.need == each*len(nodes) {
		return [][]int{nil}
	}
	var more []int
	for _, i := range nodes {
		if s.free[i]-each >= s.group {
			more = append(more, i)
		}
	}
	var all [][]int
	for size := len(more); size > 0; size-- {
		for _, indexes := range subsetsOf(len(more), size) {
			var subset []int
			for _, i := range indexes {
				subset = append(subset, more[i])
			}
			all = append(all, subset)
		}
	}
	return all
}

// play hands the CPUs out and returns the deviation of what is left.
func play(s *sharing, nodes, extra []int, each int) (float64, bool) {
	left := append([]int(nil), s.free...)
	for _, i := range nodes {
		left[i] -= each
	}
	for rest := s.need - each*len(nodes); rest > 0; {
		before := rest
		for _, i := range extra {
			if rest > 0 && left[i] >= s.group {
				left[i] -= s.group
				rest -= s.group
			}
		}
		if rest == before {
			return 0, false
		}
	}
	sum := 0
	for _, n := range left {
		sum += n
	}
	mean := math.Round(float64(sum)/float64(len(left))*1000) / 1000
	variance := 0.0
	for _, n := range left {
		variance += math.Pow(float64(n)-mean, 2)
	}
	return math.Round(math.Sqrt(variance/float64(len(left)))*1000) / 1000, true
}

// subsetsOf lists the subsets of 0..n-1 with k elements in lexicographic order.
func subsetsOf(n, k int) [][]int {
	var all [][]int
	for reversed := 1<<n - 1; reversed >= 0; reversed-- { // node 0 is the highest bit
		if bits.OnesCount(uint(reversed)) != k {
			continue
		}
		var subset []int
		for i := range n {
			if reversed&(1<<(n-1-i)) != 0 {
				subset = append(subset, i)
			}
		}
		all = append(all, subset)
	}
	return all
}

func TestDistributionAgainstAllSubsets(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 2))
	over, packed := 0, 0
	for round := range 4000 {
		a, free, n := randomSharing(t, random, 1+random.IntN(6))
		s, ok := a.share(&pool{layout: a.layout, free: free}, n)
		if s == nil {
			s = &sharing{}
		}
		want, wantOK := listedFor(a, free, n)
		if ok != wantOK || ok && (!equal(s.best.nodes, want.nodes) || s.best.each != want.each || !equal(s.best.extra, want.extra)) {
			t.Fatalf("round %d: %d CPUs of %s, options %+v: got %+v %v, want %+v %v", round, n, free, a.policy.Options, s.best, ok, want, wantOK)
		}
		if ok {
			over++
		} else {
			packed++
		}
	}
	if min(over, packed) < 500 {
		t.Errorf("%d distributed, %d packed: the cases are too much alike", over, packed)
	}
}

// Beyond exactNodes nodes ties go elsewhere, but no set of nodes may be fewer or more even than the one found.
func TestDistributionOverManyNodes(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 3))
	for round := range 60 {
		a, free, n := randomSharing(t, random, exactNodes+1+random.IntN(2))
		s, ok := a.share(&pool{layout: a.layout, free: free}, n)
		want, wantOK := listedFor(a, free, n)
		if ok != wantOK || ok && (len(s.best.nodes) != len(want.nodes) || s.best.score > want.score || s.best.inPackage != want.inPackage) {
			t.Fatalf("round %d: %d CPUs of %s, options %+v: got %+v %v, want %+v %v", round, n, free, a.policy.Options, s.best, ok, want, wantOK)
		}
	}
}

func listedFor(a *Allocator, free cpuset.Set, n int) (share, bool) {
	s := sharing{need: n, group: 1, bySocket: a.policy.Options.AlignBySocket}
	if a.policy.Options.FullPCPUsOnly {
		s.group = a.layout.threads
	}
	if n%s.group != 0 || a.coreSums() {
		return share{}, false
	}
	s.nodes = (&pool{layout: a.layout, free: free}).nodesByFree()
	for _, node := range s.nodes {
		s.free = append(s.free, node.cpus.IntersectLen(free))
		s.packages = append(s.packages, around(node.cpus, a.layout.packages))
	}
	fewest, groups := 0, 0
	for best := s.need / s.group; groups < best && fewest < len(a.layout.nodes); {
		fewest++
		groups = mostGroups(a, s.group, fewest)
	}
	return shareListed(&s, fewest)
}

// mostGroups returns how many groups so many NUMA nodes can have.
func mostGroups(a *Allocator, group, nodes int) int {
	most := 0
	for _, subset := range subsetsOf(len(a.layout.nodes), nodes) {
		groups := 0
		for _, i := range subset {
			groups += a.layout.nodes[i].size / group
		}
		most = max(most, groups)
	}
	return most
}

func randomSharing(t *testing.T, random *rand.Rand, nodes int) (a *Allocator, free cpuset.Set, n int) {
	t.Helper()
	m := randomMachine(t, random, nodes)
	p := Policy{CPUManager: CPUManagerStatic, ReservedCount: 1, Isolated: IsolatedIgnore}
	p.Options = Options{DistributeCPUsAcrossNUMA: true, FullPCPUsOnly: random.IntN(2) == 0}
	p.Options.AlignBySocket = random.IntN(3) == 0 && len(m.Packages) <= len(nodeSets(m))
	a, err := New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	for cpu := range m.Online.All() {
		if random.IntN(4) > 0 {
			free.Add(cpu)
		}
	}
	free.Add(m.Online.First())
	return a, free, 1 + random.IntN(free.Len())
}

func equal(x, y []int) bool {
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] {
			return false
		}
	}
	return true
}
