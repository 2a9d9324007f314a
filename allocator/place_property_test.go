package allocator

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"testing"

	"nri-cpuset/topology/cpuset"
)

// TestPlaceOnSmallMachines places containers on random machines of up to 12 CPUs and 3 NUMA nodes, hybrid, offline and uneven ones included,
// and looks at each answer beside every answer there could be.
func TestPlaceOnSmallMachines(t *testing.T) {
	random := rand.New(rand.NewPCG(42, 1))
	placed, refused := 0, map[Reason]int{}
	for range 3000 {
		a, ok := randomAllocator(t, random)
		if !ok {
			continue
		}
		u := a.NewUsage()
		var all []Placement
		for range 12 {
			if len(all) > 0 && random.IntN(4) == 0 {
				i := random.IntN(len(all))
				u.Give(all[i])
				all = append(all[:i], all[i+1:]...)
			}
			r := Request{Amount: randomAmount(random, a.machine, 2), KeepShared: random.IntN(2) == 0}
			got, err := a.Place(u, r)
			if err != nil {
				var refusal *Refusal
				if !errors.As(err, &refusal) {
					t.Fatalf("%v is no refusal", err)
				}
				refused[refusal.Reason]++
				checkRefused(t, a, u, &r, refusal)
				continue
			}
			placed++
			checkPlaced(t, a, u, &r, &got)
			u.Take(got)
			all = append(all, got)
			checkBooks(t, a, u, all)
		}
		for _, p := range all {
			u.Give(p)
		}
		checkBooks(t, a, u, nil)
	}
	t.Logf("%d placed, refused: %v", placed, refused)
	if placed < 3000 || refused[TopologyAffinityError] < 100 || refused[SMTAlignmentError] < 100 || refused[UnexpectedAdmissionError] < 100 {
		t.Errorf("%d placed, refused %v: the cases are too much alike", placed, refused)
	}
}

// randomAllocator makes up a machine and a policy; not every policy fits.
func randomAllocator(t *testing.T, random *rand.Rand) (*Allocator, bool) {
	t.Helper()
	m := randomMachine(t, random, 1+random.IntN(3))
	if m.Online.Len() > 12 {
		return nil, false
	}
	flip := func() bool { return random.IntN(3) == 0 }
	p := Policy{
		CPUManager:    CPUManagerStatic,
		ReservedCount: 1 + random.IntN(2),
		Isolated:      []IsolatedCPUs{IsolatedExclude, IsolatedExclusive, IsolatedIgnore}[random.IntN(3)],
		Options: Options{
			FullPCPUsOnly: flip(), DistributeCPUsAcrossNUMA: flip(), AlignBySocket: flip(), DistributeCPUsAcrossCores: flip(),
			StrictCPUReservation: flip(), PreferAlignCPUsByUncoreCache: flip(),
		},
		TopologyManager: []TopologyManager{
			TopologyManagerNone, TopologyManagerBestEffort, TopologyManagerRestricted, TopologyManagerSingleNUMANode,
		}[random.IntN(4)],
		PreferClosestNUMANodes: flip(),
	}
	if flip() {
		p.ReservedCPUs = cpuset.New(m.Online.First(), m.Online.Last())
	}
	if flip() {
		p.MemoryManager = MemoryManagerStatic
		p.ReservedMemory = []ReservedMemory{{Node: m.Nodes[0].ID, Type: memoryType, Bytes: 1 << 20}}
	}
	a, err := New(m, p)
	return a, err == nil
}

func checkPlaced(t *testing.T, a *Allocator, u *Usage, r *Request, got *Placement) {
	t.Helper()
	cpus := got.CPUs
	switch {
	case cpus.Len() != r.CPUs:
		t.Fatalf("%d CPUs asked, got %s", r.CPUs, cpus)
	case !cpus.IsSubsetOf(a.machine.Online), cpus.Overlaps(u.exclusive), cpus.Overlaps(a.reserved), !cpus.IsSubsetOf(a.assignable):
		t.Fatalf("got %s, of which some are not to be had: online %s, taken %s, reserved %s", cpus, a.machine.Online, u.exclusive, a.reserved)
	case got.Why == "":
		t.Fatal("there is no reason")
	}
	if err := a.Keeps(*got); err != nil {
		t.Fatalf("got %s, which may not be kept: %v; %+v", cpus, err, a.policy)
	}
	if a.coreSums() {
		if parts := cpus.Difference(a.layout.wholeCores(cpus)); !parts.IsEmpty() {
			t.Fatalf("full-pcpus-only: got %s, of which %s are parts of cores", cpus, parts)
		}
	}
	if left := a.Shared(u).Difference(cpus); r.KeepShared && r.CPUs > 0 && left.IsEmpty() && a.Shared(u).Overlaps(cpus) {
		t.Fatalf("got %s, which empties the shared pool", cpus)
	}
	checkNodes(t, a, u, r, got)
	for _, b := range got.Blocks {
		var sum uint64
		for node, bytes := range b.Bytes {
			sum += bytes
			if !b.Nodes.Contains(node) {
				t.Fatalf("node %d gave bytes and is not in the mask %s", node, b.Nodes)
			}
		}
		if sum != r.Memory[b.Type] {
			t.Fatalf("%d bytes of %s asked, got %v", r.Memory[b.Type], b.Type, b)
		}
	}
	if a.policy.MemoryManager == MemoryManagerStatic && len(got.Blocks) != len(r.Memory) {
		t.Fatalf("%v asked, got %v", r.Memory, got.Blocks)
	}
}

// checkNodes holds the number of NUMA nodes against the fewest there could be.
func checkNodes(t *testing.T, a *Allocator, u *Usage, r *Request, got *Placement) {
	t.Helper()
	if !a.policy.aligns() || r.CPUs == 0 || a.policy.Options.AlignBySocket {
		return
	}
	free := a.freeFor(u, r)
	used := a.nodesOf(got.CPUs)
	switch fewest := fewestNodesWith(a, a.usable, r.CPUs); {
	case a.policy.TopologyManager == TopologyManagerSingleNUMANode && used.size() != 1,
		a.policy.TopologyManager == TopologyManagerRestricted && used.size() > fewest && fewest > 0:
		t.Fatalf("%s: got %s on %d NUMA nodes, the fewest are %d", a.policy.TopologyManager, got.CPUs, used.size(), fewest)
	}
	// With nothing but CPUs asked for even best-effort finds the fewest nodes that have them free.
	if len(got.Blocks) == 0 && used.size() > fewestNodesWith(a, free, r.CPUs) {
		t.Fatalf("got %s on %d NUMA nodes, and %d have %d CPUs free", got.CPUs, used.size(), fewestNodesWith(a, free, r.CPUs), r.CPUs)
	}
}

// fewestNodesWith returns the fewest NUMA nodes with so many of the CPUs, in whole cores where these differ and have to be; 0 if there are
// none.
func fewestNodesWith(a *Allocator, cpus cpuset.Set, n int) int {
	fewest := 0
	for m := nodeMask(1); m <= a.allNodes; m++ {
		here := a.cpusOn(m).Intersect(cpus)
		if enough := here.Len() >= n && (!a.coreSums() || inWholeCores(a, here, n)); enough && (fewest == 0 || m.size() < fewest) {
			fewest = m.size()
		}
	}
	return fewest
}

// checkRefused looks for an answer that there would have been.
func checkRefused(t *testing.T, a *Allocator, u *Usage, r *Request, refusal *Refusal) {
	t.Helper()
	if needs := a.memoryNeeds(r.Memory); len(needs) > 0 {
		if !a.policy.aligns() && r.CPUs == 0 && !a.Shared(u).IsEmpty() && len(listMemory(a, u, needs)) > 0 {
			t.Fatalf("%v fits somewhere: %v", r.Memory, refusal)
		}
		return
	}
	if r.CPUs == 0 {
		if !a.Shared(u).IsEmpty() {
			t.Fatalf("the shared pool is %s: %v", a.Shared(u), refusal)
		}
		return
	}
	free := a.freeFor(u, r)
	fits := free.Len() >= r.CPUs
	if r.KeepShared && free.Len() == r.CPUs {
		fits = fits && !a.Shared(u).IsSubsetOf(free)
	}
	switch refusal.Reason {
	case UnexpectedAdmissionError:
		if fits && !r.KeepShared {
			t.Fatalf("%d CPUs are free, %s: %v", free.Len(), free, refusal)
		}
	case SMTAlignmentError:
		if !a.policy.Options.FullPCPUsOnly || inWholeCores(a, free.Difference(a.reservedCores), r.CPUs) {
			t.Fatalf("whole cores of %s come to %d CPUs: %v", free, r.CPUs, refusal)
		}
	case TopologyAffinityError:
		size := fewestNodesWith(a, a.usable, r.CPUs)
		if a.policy.TopologyManager == TopologyManagerSingleNUMANode {
			size = 1
		}
		if size > 0 && fewestNodesWith(a, free, r.CPUs) == size {
			t.Fatalf("%d CPUs are free on %d NUMA nodes: %v", r.CPUs, size, refusal)
		}
	}
}

// inWholeCores tries all sets of cores.
func inWholeCores(a *Allocator, free cpuset.Set, n int) bool {
	for set := range uint(1) << len(a.layout.cores) {
		sum := 0
		for i := range a.layout.cores {
			if set&(1<<i) == 0 {
				continue
			}
			sum += a.layout.cores[i].size
			if !a.layout.cores[i].cpus.IsSubsetOf(free) {
				sum = -1
				break
			}
		}
		if sum == n && bits.OnesCount(set) > 0 {
			return true
		}
	}
	return false
}

// checkBooks adds up what everybody has.
func checkBooks(t *testing.T, a *Allocator, u *Usage, all []Placement) {
	t.Helper()
	var exclusive cpuset.Set
	used := make([]uint64, len(u.used))
	blocks := make([]int, len(u.nodes))
	group := make([]nodeMask, len(u.nodes))
	for i := range group {
		group[i] = nodeBit(i)
	}
	for _, p := range all {
		if exclusive.Overlaps(p.CPUs) {
			t.Fatalf("%s is given twice", exclusive.Intersect(p.CPUs))
		}
		exclusive = exclusive.Union(p.CPUs)
		for _, b := range p.Blocks {
			m := a.maskOf(b.Nodes)
			for i := range m.nodes() {
				if blocks[i]++; blocks[i] > 1 && group[i] != m {
					t.Fatalf("node %d is in groups %b and %b", i, group[i], m)
				}
				group[i] = m
				used[i*len(a.memory.types)+a.memory.kind(b.Type)] += b.Bytes[a.machine.Nodes[i].ID]
			}
		}
	}
	if !u.exclusive.Equal(exclusive) {
		t.Fatalf("the books say %s is exclusive, it is %s", u.exclusive, exclusive)
	}
	for i := range used {
		if u.used[i] != used[i] || used[i] > a.memory.allocatable[i] {
			t.Fatalf("memory %d: the books say %d is used, it is %d of %d", i, u.used[i], used[i], a.memory.allocatable[i])
		}
	}
	for i := range blocks {
		if u.nodes[i].blocks != blocks[i] || u.nodes[i].group != group[i] {
			t.Fatalf("node %d: the books say %+v, it is %d blocks of group %b", i, u.nodes[i], blocks[i], group[i])
		}
	}
}

// TestLivesOfPods lets containers exit and leave what they have to the next ones of their pod, start again, grow and shrink, and looks at what
// they get and at the books.
func TestLivesOfPods(t *testing.T) {
	random := rand.New(rand.NewPCG(42, 2))
	grown, shrunk, reused := 0, 0, 0
	for range 2000 {
		a, ok := randomAllocator(t, random)
		if !ok {
			continue
		}
		u := a.NewUsage()
		var all []Placement // of one pod; those at even places have exited
		for range 10 {
			r := Request{Amount: randomAmount(random, a.machine, 2)}
			var held *Placement
			if len(all) > 0 && random.IntN(2) == 0 {
				held = &all[random.IntN(len(all))]
				r.Held = *held
				r.Memory = nil
			} else {
				for i := 0; i < len(all); i += 2 {
					r.Reusable.CPUs = r.Reusable.CPUs.Union(all[i].CPUs)
					r.Reusable.Blocks = append(r.Reusable.Blocks, all[i].Blocks...)
				}
			}
			got, err := a.Place(u, r)
			if err != nil {
				continue
			}
			if held != nil {
				checkResized(t, a, u, &r, &got)
				switch d := got.CPUs.Len() - held.CPUs.Len(); {
				case d > 0 && !held.CPUs.IsEmpty():
					grown++
				case d < 0:
					shrunk++
				}
				u.Give(*held)
				*held = got
				u.Take(got)
				checkBooks(t, a, u, all)
				continue
			}
			if got.CPUs.Overlaps(r.Reusable.CPUs) {
				reused++
			}
			for i := 0; i < len(all); i += 2 {
				u.Give(all[i])
				all[i] = Transfer(all[i], got)
				u.Take(all[i])
			}
			u.Take(got)
			all = append(all, got)
			checkBooks(t, a, u, all)
		}
	}
	t.Logf("%d grown, %d shrunk, %d reused", grown, shrunk, reused)
	if min(grown, shrunk, reused) < 300 {
		t.Error("the cases are too much alike")
	}
}

func checkResized(t *testing.T, a *Allocator, u *Usage, r *Request, got *Placement) {
	t.Helper()
	held := r.Held.CPUs
	switch {
	case got.CPUs.Len() != r.CPUs:
		t.Fatalf("%d CPUs asked, got %s", r.CPUs, got.CPUs)
	case r.CPUs >= held.Len() && !held.IsSubsetOf(got.CPUs), r.CPUs < held.Len() && !got.CPUs.IsSubsetOf(held):
		t.Fatalf("%d CPUs asked by one that has %s, got %s", r.CPUs, held, got.CPUs)
	case len(got.Blocks) != len(r.Held.Blocks):
		t.Fatalf("memory went from %v to %v", r.Held.Blocks, got.Blocks)
	}
	if a.policy.Options.FullPCPUsOnly || held.IsEmpty() {
		return
	}
	siblings := around(held, a.layout.cores).Intersect(a.freeFor(u, r)).Difference(held)
	if added := got.CPUs.Difference(held); !siblings.IsSubsetOf(added) && !added.IsSubsetOf(siblings) {
		t.Fatalf("%s was added to %s while %s are free on the same cores", added, held, siblings)
	}
}
