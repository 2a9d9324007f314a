package allocator

import (
	"iter"
	"math/bits"

	"nri-cpuset/topology/cpuset"
)

// nodeMask is a set of NUMA nodes by their index in the machine's Nodes. These are ordered by the kernel's number, so of two masks of equal
// size the smaller integer is the one that the kubelet calls narrower.
type nodeMask uint64

// maxMaskNodes is how many NUMA nodes a mask can hold.
const maxMaskNodes = 64

func nodeBit(i int) nodeMask { return 1 << i }

// below returns the mask of the nodes with an index lower than i.
func below(i int) nodeMask {
	if i >= maxMaskNodes {
		return ^nodeMask(0)
	}
	return nodeBit(i) - 1
}

func (m nodeMask) size() int                { return bits.OnesCount64(uint64(m)) }
func (m nodeMask) has(i int) bool           { return m&nodeBit(i) != 0 }
func (m nodeMask) contains(n nodeMask) bool { return n&^m == 0 }

// nodes yields the indexes in m, ascending.
func (m nodeMask) nodes() iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; m != 0; m &= m - 1 {
			if !yield(bits.TrailingZeros64(uint64(m))) {
				return
			}
		}
	}
}

// maskOf returns the mask of the nodes with the kernel's numbers given. Those that the machine does not have are left out.
func (a *Allocator) maskOf(numbers cpuset.Set) nodeMask {
	var m nodeMask
	for i := range min(len(a.machine.Nodes), maxMaskNodes) {
		if numbers.Contains(a.machine.Nodes[i].ID) {
			m |= nodeBit(i)
		}
	}
	return m
}

// numbersOf returns the kernel's numbers of the nodes in m.
func (a *Allocator) numbersOf(m nodeMask) cpuset.Set {
	var numbers cpuset.Set
	for i := range m.nodes() {
		numbers.Add(a.machine.Nodes[i].ID)
	}
	return numbers
}

// nodesOf returns the nodes that some of the CPUs are on.
func (a *Allocator) nodesOf(cpus cpuset.Set) nodeMask {
	var m nodeMask
	for i := range min(len(a.machine.Nodes), maxMaskNodes) {
		if a.machine.Nodes[i].CPUs.Overlaps(cpus) {
			m |= nodeBit(i)
		}
	}
	return m
}

// cpusOn returns the CPUs of the nodes in m.
func (a *Allocator) cpusOn(m nodeMask) cpuset.Set {
	var cpus cpuset.Set
	for i := range m.nodes() {
		cpus = cpus.Union(a.machine.Nodes[i].CPUs)
	}
	return cpus
}
