package allocator

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// The kubelet's way to hints and their merge, spelled out: list every mask that fits for every resource, go through every combination, and
// let the better of two replace the other, one after the other. It is slow and it is meant to be read beside SPEC, not beside merge.go.

type listedHint struct {
	mask      nodeMask // 0: any
	preferred bool
}

// listCPUs lists the masks for n CPUs, narrowest first.
func listCPUs(a *Allocator, free, reusable cpuset.Set, n int) []listedHint {
	return list(a, func(m nodeMask) bool { return a.cpuNodes.contains(m) },
		func(m nodeMask) bool { return a.cpusOn(m).Len() >= n },
		func(m nodeMask) bool {
			return reusable.IsSubsetOf(a.cpusOn(m)) && a.cpusOn(m).IntersectLen(free.Union(reusable)) >= n
		},
		func(m nodeMask, fewest int) bool {
			if !a.policy.Options.AlignBySocket {
				return false
			}
			perSocket := a.cpuNodes.size() / len(a.machine.Packages)
			if perSocket == 0 {
				return false
			}
			sockets := map[int]bool{}
			for cpu := range a.cpusOn(m).All() {
				c, _ := a.machine.CPU(cpu)
				sockets[c.Package] = true
			}
			return len(sockets) == (fewest+perSocket-1)/perSocket
		})
}

// listMemory lists the masks for a container's memory.
func listMemory(a *Allocator, u *Usage, needs []memoryNeed) []listedHint {
	sum := func(m nodeMask, n memoryNeed, of func(node int) uint64) bool {
		var have uint64
		for i := range a.machine.Nodes {
			if m.has(i) && n.index >= 0 {
				have += of(i)
			}
		}
		return have >= n.bytes
	}
	covers := func(m nodeMask, free bool) bool {
		for _, n := range needs {
			if !sum(m, n, func(i int) uint64 {
				if free {
					return u.free(i, n.index)
				}
				return *a.memory.at(i, n.index)
			}) {
				return false
			}
		}
		return true
	}
	return list(a, func(m nodeMask) bool { return a.memory.nodes.contains(m) },
		func(m nodeMask) bool { return covers(m, false) },
		func(m nodeMask) bool {
			for i := range a.machine.Nodes {
				if !m.has(i) {
					continue
				}
				node := u.nodes[i]
				if m.size() == 1 && node.group.size() > 1 || m.size() > 1 && node.blocks > 0 && node.group != m {
					return false
				}
			}
			return covers(m, true)
		},
		func(nodeMask, int) bool { return false })
}

// listDevices lists the masks that have a node of every device.
func listDevices(a *Allocator, devices []Device) []listedHint {
	hit := func(m nodeMask) bool {
		for _, d := range devices {
			if at := a.maskOf(d.Nodes); at != 0 && at&m == 0 {
				return false
			}
		}
		return true
	}
	return list(a, func(nodeMask) bool { return true }, hit, hit, func(nodeMask, int) bool { return false })
}

func list(a *Allocator, allowed, covers, fits func(nodeMask) bool, also func(m nodeMask, fewest int) bool) []listedHint {
	fewest := 0
	for i := range a.machine.Nodes {
		if allowed(nodeBit(i)) {
			fewest++
		}
	}
	hints := []listedHint{}
	for size := 1; size <= len(a.machine.Nodes); size++ {
		for m := nodeMask(1); m < nodeBit(len(a.machine.Nodes)); m++ {
			if m.size() != size || !allowed(m) {
				continue
			}
			if covers(m) {
				fewest = min(fewest, size)
			}
			if covers(m) && fits(m) {
				hints = append(hints, listedHint{mask: m})
			}
		}
	}
	for i := range hints {
		hints[i].preferred = hints[i].mask.size() == fewest || also(hints[i].mask, fewest)
	}
	return hints
}

// mergeListed goes through all combinations. An opinion is a list, nil for none.
func mergeListed(a *Allocator, lists [][]listedHint) listedHint {
	target := 0
	for i := range lists {
		switch {
		case lists[i] == nil:
			lists[i] = []listedHint{{preferred: true}}
		case len(lists[i]) == 0:
			lists[i] = []listedHint{{}}
		default:
			narrowest := 64
			for _, h := range lists[i] {
				narrowest = min(narrowest, h.mask.size())
			}
			target = max(target, narrowest)
		}
	}
	var best *listedHint
	var combine func(i int, mask, first nodeMask, preferred bool)
	combine = func(i int, mask, first nodeMask, preferred bool) {
		if i == len(lists) {
			if mask != 0 {
				best = better(a, best, &listedHint{mask, preferred}, target)
			}
			return
		}
		for _, h := range lists[i] {
			m, f, p := mask, first, preferred && h.preferred
			if h.mask != 0 {
				m &= h.mask
				if f == 0 {
					f = h.mask
				}
				p = p && f == h.mask
			}
			combine(i+1, m, f, p)
		}
	}
	combine(0, a.allNodes, 0, true)
	if best == nil {
		return listedHint{mask: a.allNodes}
	}
	return *best
}

func better(a *Allocator, current, candidate *listedHint, target int) *listedHint {
	if current == nil {
		return candidate
	}
	if current.preferred != candidate.preferred {
		if candidate.preferred {
			return candidate
		}
		return current
	}
	fit := current
	if fitsBetter(a, candidate.mask, current.mask) {
		fit = candidate
	}
	if current.preferred {
		return fit
	}
	have, offered := current.mask.size(), candidate.mask.size()
	switch {
	case have > target:
		return fit
	case have == target && offered != target, have < target && offered > target, offered < have:
		return current
	case offered > have:
		return candidate
	default:
		return fit
	}
}

// fitsBetter tells whether m is the better fit.
func fitsBetter(a *Allocator, m, than nodeMask) bool {
	if m.size() != than.size() {
		return m.size() < than.size()
	}
	if a.policy.PreferClosestNUMANodes && a.distances != nil {
		average := func(m nodeMask) float64 {
			sum, n := 0.0, 0.0
			for i := range a.machine.Nodes {
				for j := range a.machine.Nodes {
					if m.has(i) && m.has(j) {
						sum += float64(a.machine.Nodes[i].Distances[j])
						n++
					}
				}
			}
			return sum / n
		}
		if average(m) != average(than) {
			return average(m) < average(than)
		}
	}
	return m < than
}

// mergeListedSingle is single-numa-node.
func mergeListedSingle(a *Allocator, lists [][]listedHint) (listedHint, bool) {
	for i, l := range lists {
		if l == nil {
			continue
		}
		lists[i] = []listedHint{}
		for _, h := range l {
			if h.mask.size() == 1 && h.preferred {
				lists[i] = append(lists[i], h)
			}
		}
		if len(lists[i]) == 0 {
			return listedHint{}, false
		}
	}
	best := mergeListed(a, lists)
	if best.mask == a.allNodes {
		best.mask = 0
	}
	return best, best.preferred
}

// TestMergeAgainstReference compares decisions of the topology manager on random machines in random states.
func TestMergeAgainstReference(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 1))
	preferred, others, refused := 0, 0, 0
	for round := range 2500 {
		c := randomTrial(t, random, 1+random.IntN(exactNodes))
		all := c.a.hints(c.u, &c.r, &c.r.Amount)
		lists := c.lists()
		if c.a.policy.TopologyManager == TopologyManagerSingleNUMANode {
			want, ok := mergeListedSingle(c.a, lists)
			got, gotOK := c.a.mergeSingle(all[:])
			if gotOK != ok || ok && (got.mask != want.mask || got.preferred != want.preferred) {
				t.Fatalf("round %d: got %+v %v, want %+v %v for %s", round, got, gotOK, want, ok, c)
			}
			if !ok {
				refused++
			}
			continue
		}
		want := mergeListed(c.a, lists)
		got := c.a.merge(all[:])
		if got.mask != want.mask || got.preferred != want.preferred {
			t.Fatalf("round %d: got %+v, want %+v for %s", round, got, want, c)
		}
		if want.preferred {
			preferred++
		} else {
			others++
		}
	}
	t.Logf("%d preferred, %d not, %d refused by single-numa-node", preferred, others, refused)
	if min(preferred, others, refused) < 200 {
		t.Error("the cases are too much alike to show anything")
	}
}

// Beyond exactNodes nodes a preferred mask has to be the kubelet's all the same, and so has the mask of one resource alone. Of several that do
// not agree it has to be what a combination of theirs has in common.
func TestMergeOverManyNodes(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 3))
	preferred, alone, others := 0, 0, 0
	for round := range 150 {
		c := randomTrial(t, random, exactNodes+1+random.IntN(2))
		if c.a.policy.TopologyManager == TopologyManagerSingleNUMANode {
			continue
		}
		all := c.a.hints(c.u, &c.r, &c.r.Amount)
		lists := c.lists()
		opinions := 0
		for _, l := range lists {
			if len(l) > 0 {
				opinions++
			}
		}
		got, want := c.a.merge(all[:]), mergeListed(c.a, lists)
		switch {
		case want.preferred || opinions < 2:
			if got.mask != want.mask || got.preferred != want.preferred {
				t.Fatalf("round %d: got %+v, want %+v for %s", round, got, want, c)
			}
			if want.preferred {
				preferred++
			} else {
				alone++
			}
		default:
			if got.preferred || !isCombination(got.mask, c.a.allNodes, lists) {
				t.Fatalf("round %d: got %+v, which nothing has in common, for %s", round, got, c)
			}
			others++
		}
	}
	if min(preferred, alone, others) < 5 {
		t.Errorf("%d preferred, %d alone, %d others: the cases are too much alike", preferred, alone, others)
	}
}

// isCombination tells whether one hint of each list can be taken so that the mask is what they have in common with the rest.
func isCombination(mask, rest nodeMask, lists [][]listedHint) bool {
	if len(lists) == 0 {
		return mask == rest
	}
	for _, h := range lists[0] {
		m := rest
		if h.mask != 0 {
			m &= h.mask
		}
		if m.contains(mask) && isCombination(mask, m, lists[1:]) {
			return true
		}
	}
	return false
}

// trial is one machine, in some state, and a request.
type trial struct {
	a *Allocator
	u *Usage
	r Request
}

func (c *trial) String() string {
	return fmt.Sprintf("%d nodes, policy %+v, request %+v", len(c.a.machine.Nodes), c.a.policy, c.r)
}

func (c *trial) lists() [][]listedHint {
	lists := [][]listedHint{nil, nil}
	if c.r.CPUs > 0 {
		lists[0] = listCPUs(c.a, c.a.freeFor(c.u, &c.r), c.r.Reusable.CPUs, c.r.CPUs)
	}
	if len(c.r.Devices) > 0 {
		lists[1] = listDevices(c.a, c.r.Devices)
	}
	if needs := c.a.memoryNeeds(c.r.Memory); len(needs) > 0 {
		masks := listMemory(c.a, c.u, needs)
		for range needs {
			if len(masks) > 0 {
				lists = append(lists, append([]listedHint(nil), masks...))
			}
		}
	}
	return lists
}

func randomTrial(t *testing.T, random *rand.Rand, nodes int) *trial {
	t.Helper()
	m := randomMachine(t, random, nodes)
	p := Policy{
		CPUManager:             CPUManagerStatic,
		ReservedCount:          1,
		Isolated:               IsolatedIgnore,
		MemoryManager:          MemoryManagerStatic,
		ReservedMemory:         []ReservedMemory{{Node: m.Nodes[0].ID, Type: memoryType, Bytes: 1}},
		TopologyManager:        []TopologyManager{TopologyManagerBestEffort, TopologyManagerRestricted, TopologyManagerSingleNUMANode}[random.IntN(3)],
		PreferClosestNUMANodes: random.IntN(2) == 0,
	}
	p.Options.AlignBySocket = random.IntN(3) == 0 && p.TopologyManager != TopologyManagerSingleNUMANode && len(m.Packages) <= len(nodeSets(m))
	a, err := New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	c := &trial{a: a, u: a.NewUsage()}
	for range random.IntN(10) {
		if got, err := a.Place(c.u, Request{Amount: randomAmount(random, m, 2)}); err == nil {
			c.u.Take(got)
		}
	}
	types := 2
	if nodes > 5 {
		types = 1 // three lists of 255 masks have 16 million combinations
	}
	c.r.Amount = randomAmount(random, m, types)
	if random.IntN(4) == 0 && nodes <= 5 {
		for range 1 + random.IntN(2) {
			var at cpuset.Set
			for range 1 + random.IntN(2) {
				at.Add(m.Nodes[random.IntN(nodes)].ID)
			}
			c.r.Devices = append(c.r.Devices, Device{Nodes: at})
		}
	}
	if free := a.assignable.Difference(c.u.exclusive); random.IntN(4) == 0 && !free.IsEmpty() {
		c.r.Reusable.CPUs = cpuset.New(free.First(), free.Last()).Lowest(1 + random.IntN(2))
	}
	return c
}

func randomAmount(random *rand.Rand, m *topology.Machine, types int) Amount {
	amount := Amount{CPUs: random.IntN(1 + m.Online.Len()*2/3)}
	if random.IntN(3) > 0 {
		amount.Memory = Memory{memoryType: uint64(1+random.IntN(8+2*len(m.Nodes))) << 20}
		if types > 1 && random.IntN(2) == 0 {
			amount.Memory["hugepages-2Mi"] = uint64(1+random.IntN(6)) << 21
		}
	}
	return amount
}
