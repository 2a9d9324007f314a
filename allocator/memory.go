package allocator

import (
	"cmp"
	"fmt"
	"slices"

	"nri-cpuset/topology"
)

// memoryType is the Kubernetes resource of memory that is not in huge pages.
const memoryType = "memory"

// memoryTable is what the machine has of each type of memory, for containers to have.
type memoryTable struct {
	types       []string // ascending
	allocatable []uint64 // bytes, at [node*len(types)+type]
	nodes       nodeMask // NUMA nodes that have memory at all
}

// newMemoryTable works out a machine's memory as the kubelet does: huge pages are there for themselves only, and what is reserved for the
// system nobody gets.
func newMemoryTable(m *topology.Machine, reserved []ReservedMemory) (memoryTable, error) {
	t := memoryTable{types: []string{memoryType}}
	for i := range m.Nodes {
		for pageKiB := range m.Nodes[i].HugePages {
			if kind := hugePagesType(pageKiB); !slices.Contains(t.types, kind) {
				t.types = append(t.types, kind)
			}
		}
	}
	slices.Sort(t.types)
	t.allocatable = make([]uint64, len(m.Nodes)*len(t.types))
	for i := range m.Nodes {
		t.fill(i, &m.Nodes[i])
	}
	for _, r := range reserved {
		if err := t.reserve(m, r); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (t *memoryTable) fill(i int, node *topology.Node) {
	if node.MemoryKiB > 0 && i < maxMaskNodes {
		t.nodes |= nodeBit(i)
	}
	var inHugePages uint64
	for pageKiB, pages := range node.HugePages {
		*t.at(i, t.kind(hugePagesType(pageKiB))) = pageKiB * pages << 10
		inHugePages += pageKiB * pages << 10
	}
	total := node.MemoryKiB << 10
	*t.at(i, t.kind(memoryType)) = total - min(total, inHugePages)
}

func (t *memoryTable) reserve(m *topology.Machine, r ReservedMemory) error {
	i := m.NodeIndex(r.Node)
	if i < 0 {
		return fmt.Errorf("reservedMemory: NUMA node %d is not there (nodes: %s)", r.Node, m.NodeIDs())
	}
	kind := t.kind(r.Type)
	if kind < 0 {
		return fmt.Errorf("reservedMemory: NUMA node %d has no %s (types: %s)", r.Node, r.Type, t.types)
	}
	have := t.at(i, kind)
	if r.Bytes > *have {
		return fmt.Errorf("reservedMemory: %s of %s are to be reserved on NUMA node %d, which has %s beside its huge pages",
			bytesText(r.Bytes), r.Type, r.Node, bytesText(*have))
	}
	*have -= r.Bytes
	return nil
}

func (t *memoryTable) at(node, kind int) *uint64 { return &t.allocatable[node*len(t.types)+kind] }

// kind returns the index of a type, or -1.
func (t *memoryTable) kind(name string) int { return slices.Index(t.types, name) }

// hugePagesType names huge pages of a size as Kubernetes does: hugepages-2Mi.
func hugePagesType(kib uint64) string {
	unit := 0
	for kib%1024 == 0 && unit < 2 {
		kib /= 1024
		unit++
	}
	return fmt.Sprintf("hugepages-%d%ci", kib, "KMG"[unit])
}

// memoryNeed is one type of memory that a container asks for.
type memoryNeed struct {
	kind  string
	index int // in memoryTable.types; -1 where the machine has none of it
	bytes uint64
}

// memoryNeeds lists what is asked for, by type.
func (a *Allocator) memoryNeeds(m Memory) []memoryNeed {
	if a.policy.MemoryManager != MemoryManagerStatic {
		return nil
	}
	var needs []memoryNeed
	for kind, bytes := range m {
		if bytes > 0 {
			needs = append(needs, memoryNeed{kind: kind, index: a.memory.kind(kind), bytes: bytes})
		}
	}
	slices.SortFunc(needs, func(x, y memoryNeed) int { return cmp.Compare(x.kind, y.kind) })
	return needs
}

// heldMemoryHints is what memory says of a container that has some: it stays.
func (a *Allocator) heldMemoryHints(held *Placement) hints {
	m := a.maskOf(held.Mems())
	if m == 0 || a.policy.MemoryManager != MemoryManagerStatic {
		return hints{}
	}
	return hints{opinion: true, least: maxMaskNodes + 1, exact: []nodeMask{m}, preferred: m.size(), times: 1}
}

// memoryHints says on which NUMA nodes memory is free. A node is either used alone or in one group with others, never both: so a mask of
// one node needs a node that is in no larger group, and a larger mask is made of unused nodes, or is a group that is there already. No
// opinion where it fits nowhere.
func (a *Allocator) memoryHints(u *Usage, needs []memoryNeed, reusable []Block) hints {
	if len(needs) == 0 {
		return hints{}
	}
	h := hints{opinion: true, least: 2, times: len(needs)}
	for i := range a.memory.nodes.nodes() {
		if u.nodes[i].blocks == 0 {
			h.universe |= nodeBit(i)
		}
		if group := u.nodes[i].group; group != nodeBit(i) {
			if !slices.Contains(h.exact, group) && a.fitsGroup(u, group, needs, reusable) {
				h.exact = append(h.exact, group)
			}
		} else if a.coversMemory(u, nodeBit(i), needs, reusable) {
			h.exact = append(h.exact, nodeBit(i))
		}
	}
	total := hints{universe: a.memory.nodes}
	for _, n := range needs {
		free := need{amount: n.bytes, at: make([]uint64, len(u.nodes))}
		all := need{amount: n.bytes, at: make([]uint64, len(u.nodes))}
		if n.index >= 0 {
			for i := range u.nodes {
				free.at[i] = u.free(i, n.index)
				all.at[i] = *a.memory.at(i, n.index)
			}
		}
		h.needs = append(h.needs, free)
		total.needs = append(total.needs, all)
	}
	if h.isEmpty() {
		return hints{}
	}
	h.preferred = total.fewest()
	return h
}

// fitsGroup tells whether a group of nodes that is in use has the memory, and is the group of all its nodes.
func (a *Allocator) fitsGroup(u *Usage, group nodeMask, needs []memoryNeed, reusable []Block) bool {
	for i := range group.nodes() {
		if u.nodes[i].blocks > 0 && u.nodes[i].group != group {
			return false
		}
	}
	return a.coversMemory(u, group, needs, reusable)
}

// coversMemory tells whether a mask has enough of every type free. Blocks that may be reused count where they are on just this mask.
func (a *Allocator) coversMemory(u *Usage, m nodeMask, needs []memoryNeed, reusable []Block) bool {
	for _, n := range needs {
		if n.index < 0 {
			return false
		}
		var have uint64
		for i := range m.nodes() {
			have += u.free(i, n.index) + a.reusableOn(reusable, m, i, n.kind)
		}
		if have < n.bytes {
			return false
		}
	}
	return true
}

// reusableOn returns how many bytes of a type blocks on just this mask have on one of its nodes.
func (a *Allocator) reusableOn(blocks []Block, m nodeMask, node int, kind string) uint64 {
	var bytes uint64
	for i := range blocks {
		if b := &blocks[i]; b.Type == kind && a.maskOf(b.Nodes) == m {
			bytes += b.Bytes[a.machine.Nodes[node].ID]
		}
	}
	return bytes
}

// placeMemory decides which NUMA nodes a container's memory comes from, one block a type, all on one mask.
func (a *Allocator) placeMemory(u *Usage, needs []memoryNeed, reusable []Block, affinity hint) ([]Block, error) {
	mask := affinity.mask & a.memory.nodes
	if mask == 0 || !a.coversMemory(u, mask, needs, reusable) {
		h := a.memoryHints(u, needs, reusable)
		fit, ok := h.fittest(mask)
		switch {
		case !ok && mask == 0:
			return nil, a.refuseMemory(u, needs, "which no NUMA nodes have free together")
		case !ok:
			return nil, a.refuseMemory(u, needs, fmt.Sprintf("which no NUMA nodes that include %s have free together", a.numbersOf(mask)))
		case affinity.preferred && !h.prefers(fit):
			return nil, a.refuseMemory(u, needs, fmt.Sprintf("which takes NUMA nodes %s now, and fits on %d where nothing is taken",
				a.numbersOf(fit), h.preferred))
		}
		mask = fit
	}
	for i := range mask.nodes() {
		if used := &u.nodes[i]; used.blocks > 0 && used.group != mask {
			return nil, a.refuseMemory(u, needs, fmt.Sprintf("and NUMA node %d is in use for memory of nodes %s together, so not of %s",
				a.machine.Nodes[i].ID, a.numbersOf(used.group), a.numbersOf(mask)))
		}
	}
	return a.blocks(u, needs, reusable, mask), nil
}

// fittest returns the memory manager's own choice of the masks that contain a given one: a preferred mask before others, then the narrowest.
func (h *hints) fittest(with nodeMask) (nodeMask, bool) {
	if !h.opinion {
		return 0, false
	}
	if m, ok := h.narrowest(h.preferred, h.preferred, with); ok {
		return m, true
	}
	return h.narrowest(1, maxMaskNodes, with)
}

// blocks takes the memory from the mask's nodes, in ascending order: what may be reused first.
func (a *Allocator) blocks(u *Usage, needs []memoryNeed, reusable []Block, mask nodeMask) []Block {
	blocks := make([]Block, 0, len(needs))
	for _, n := range needs {
		b := Block{Type: n.kind, Nodes: a.numbersOf(mask), Bytes: map[int]uint64{}}
		left := n.bytes
		take := func(node int, have uint64) {
			if bytes := min(left, have); bytes > 0 {
				b.Bytes[a.machine.Nodes[node].ID] += bytes
				left -= bytes
			}
		}
		for i := range mask.nodes() {
			take(i, a.reusableOn(reusable, mask, i, n.kind))
		}
		for i := range mask.nodes() {
			take(i, u.free(i, n.index))
		}
		blocks = append(blocks, b)
	}
	return blocks
}
