package allocator

import (
	"maps"

	"nri-cpuset/topology/cpuset"
)

// Usage is what is taken of a machine. Its methods keep the books and decide nothing; they take what they are told, even if it overlaps,
// which the caller finds by checks of its own. It may not be used from several goroutines at once.
type Usage struct {
	allocator *Allocator
	exclusive cpuset.Set
	nodes     []nodeUsage // by index, like the machine's Nodes
	used      []uint64    // bytes, at [node*types+type]
}

// nodeUsage is how memory placement uses one NUMA node.
type nodeUsage struct {
	blocks int      // how many blocks have the node in their mask
	group  nodeMask // their mask; the node itself while there are none
}

// NewUsage returns the books of a machine on which nothing is taken.
func (a *Allocator) NewUsage() *Usage {
	u := &Usage{allocator: a, nodes: make([]nodeUsage, len(a.machine.Nodes)), used: make([]uint64, len(a.memory.allocatable))}
	for i := range u.nodes {
		u.nodes[i].group = nodeBit(i)
	}
	return u
}

// Exclusive returns the CPUs that exclusive containers have.
func (u *Usage) Exclusive() cpuset.Set { return u.exclusive }

// Take books p as taken.
func (u *Usage) Take(p Placement) {
	u.exclusive = u.exclusive.Union(p.CPUs)
	for i := range p.Blocks {
		b := &p.Blocks[i]
		group := u.allocator.maskOf(b.Nodes)
		for node := range group.nodes() {
			u.nodes[node].blocks++
			u.nodes[node].group = group
		}
		u.book(b, func(have *uint64, bytes uint64) { *have += bytes })
	}
}

// Give gives p back: exactly what Take booked.
func (u *Usage) Give(p Placement) {
	u.exclusive = u.exclusive.Difference(p.CPUs)
	for i := range p.Blocks {
		b := &p.Blocks[i]
		for node := range u.allocator.maskOf(b.Nodes).nodes() {
			if u.nodes[node].blocks--; u.nodes[node].blocks == 0 {
				u.nodes[node].group = nodeBit(node)
			}
		}
		u.book(b, func(have *uint64, bytes uint64) { *have -= bytes })
	}
}

// book changes the bytes that a block has of each node. Nodes and types that the machine does not have, because the block was made on
// another, do not count.
func (u *Usage) book(b *Block, change func(have *uint64, bytes uint64)) {
	kind := u.allocator.memory.kind(b.Type)
	if kind < 0 {
		return
	}
	for number, bytes := range b.Bytes {
		if node := u.allocator.machine.NodeIndex(number); node >= 0 {
			change(&u.used[node*len(u.allocator.memory.types)+kind], bytes)
		}
	}
}

// free returns how many bytes of a type of memory, by its index, containers may still have of a node.
func (u *Usage) free(node, kind int) uint64 {
	at := node*len(u.allocator.memory.types) + kind
	allocatable := u.allocator.memory.allocatable[at]
	return allocatable - min(allocatable, u.used[at])
}

// Transfer returns what is left of a placement when another container of its pod has taken over what it could use of it: its CPUs, and its
// memory where that is a block of the same type on the same nodes. A block of which nothing is left is gone, and with it its hold on the
// nodes' group.
func Transfer(left, taken Placement) Placement {
	left.CPUs = left.CPUs.Difference(taken.CPUs)
	var blocks []Block
	for _, b := range left.Blocks {
		if b = b.without(taken.Blocks); len(b.Bytes) > 0 {
			blocks = append(blocks, b)
		}
	}
	left.Blocks = blocks
	return left
}

// without returns what is left of b when as much of it as the blocks of its kind have is taken over.
func (b Block) without(blocks []Block) Block {
	for i := range blocks {
		if blocks[i].Type != b.Type || !blocks[i].Nodes.Equal(b.Nodes) {
			continue
		}
		b.Bytes = maps.Clone(b.Bytes)
		for node, bytes := range blocks[i].Bytes {
			if b.Bytes[node] <= bytes {
				delete(b.Bytes, node)
			} else {
				b.Bytes[node] -= bytes
			}
		}
	}
	return b
}
