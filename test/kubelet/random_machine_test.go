package kubelet

import (
	"fmt"
	"math/rand/v2"
)

// shape is a regular machine: every package, node, cache and core has the same inside, for on others the kubelet reckons with averages. Where
// there are more packages than nodes, the one node spans them all.
type shape struct {
	packages, nodes, caches, cores, threads int // nodes in all; caches per node, cores per cache

	numbering  numbering
	socketLLC  bool // one last-level cache a package, also where it has several nodes
	emptyNodes int  // further nodes with memory and no CPUs
	sparse     bool // node numbers 0, 2, 4, ...

	memoryMiB uint64            // per node
	hugePages map[string]uint64 // per node, count by size in KiB
}

// numbering is how firmware hands out CPU numbers.
type numbering int

const (
	siblingsApart    numbering = iota // all first threads, node by node, then all second threads
	siblingsAdjacent                  // thread by thread, core by core
	nodesInTurn                       // one core of each node in turn, then the second threads
	numberings
)

func randomShape(random *rand.Rand) shape {
	s := shape{
		packages:  pick(random, 1, 1, 2, 2, 2, 4),
		caches:    pick(random, 1, 1, 2, 3, 4),
		cores:     pick(random, 1, 2, 3, 4, 4, 6, 8),
		threads:   pick(random, 1, 2, 2, 2, 4),
		numbering: numbering(random.IntN(int(numberings))),
		socketLLC: random.IntN(8) == 0,
		sparse:    random.IntN(10) == 0,
		memoryMiB: pick[uint64](random, 8, 8, 16, 24, 32) << 10,
		hugePages: map[string]uint64{},
	}
	s.nodes = s.packages * pick(random, 1, 1, 2, 2, 3, 4)
	if random.IntN(6) == 0 { // as virtual machines are
		s.nodes = 1
		s.caches = s.packages
	}
	if s.nodes > 8 {
		s.nodes = 8
	}
	if random.IntN(8) == 0 && s.nodes < 6 {
		s.emptyNodes = 1 + random.IntN(2)
	}
	// The kubelet tries all combinations of all its resources' masks: with three of them and eight nodes that is seconds a pod.
	if random.IntN(2) == 0 && s.nodes+s.emptyNodes <= 4 {
		s.hugePages["2048"] = pick[uint64](random, 0, 64, 256, 512)
	}
	if random.IntN(2) == 0 && s.nodes+s.emptyNodes <= 6 {
		s.hugePages["1048576"] = pick[uint64](random, 0, 1, 2, 3)
	}
	return s
}

func pick[T any](random *rand.Rand, choices ...T) T { return choices[random.IntN(len(choices))] }

func (s *shape) name() string {
	n := fmt.Sprintf("%dp-%dn-%dllc-%dc-%dt", s.packages, s.nodes, s.nodes*s.caches, s.nodes*s.caches*s.cores, s.nodes*s.caches*s.cores*s.threads)
	n += []string{"-apart", "-adjacent", "-inturn"}[s.numbering]
	if s.socketLLC {
		n += "-socketllc"
	}
	if s.emptyNodes > 0 {
		n += fmt.Sprintf("-%dempty", s.emptyNodes)
	}
	if s.sparse {
		n += "-sparse"
	}
	return n
}

// machine builds the shape. Cores are counted through all nodes; a package is an equal share of the nodes, or of the one node's cores.
func (s *shape) machine(random *rand.Rand) *Machine {
	m := &Machine{Name: s.name()}
	coresPerNode := s.caches * s.cores
	for core := range s.nodes * coresPerNode {
		node := core / coresPerNode
		socket := node * s.packages / s.nodes
		if s.packages > s.nodes {
			socket = core * s.packages / coresPerNode
		}
		llc := core / s.cores
		if s.socketLLC {
			llc = socket
		}
		for thread := range s.threads {
			m.CPUs = append(m.CPUs, CPU{ID: s.number(core, thread), Core: core, Socket: socket, NUMA: s.nodeID(node), LLC: llc})
		}
	}
	for i := range s.nodes + s.emptyNodes {
		n := NUMANode{ID: s.nodeID(i), MemoryKiB: s.memoryMiB << 10, HugePages: s.hugePages}
		for j := range s.nodes + s.emptyNodes {
			n.Distances = append(n.Distances, s.distance(i, j, random))
		}
		m.Nodes = append(m.Nodes, n)
	}
	return m
}

func (s *shape) number(core, thread int) int {
	cores := s.nodes * s.caches * s.cores
	switch s.numbering {
	case siblingsAdjacent:
		return core*s.threads + thread
	case nodesInTurn:
		perNode := s.caches * s.cores
		return core%perNode*s.nodes + core/perNode + thread*cores
	default:
		return core + thread*cores
	}
}

func (s *shape) nodeID(i int) int {
	if s.sparse {
		return 2 * i
	}
	return i
}

// distance is 10 to itself, little in a package and more across packages; now and then not the same from everywhere, as on glued machines.
func (s *shape) distance(i, j int, random *rand.Rand) uint64 {
	switch {
	case i == j:
		return 10
	case i >= s.nodes || j >= s.nodes:
		return 40
	case i*s.packages/s.nodes == j*s.packages/s.nodes:
		return 12
	}
	return pick[uint64](random, 21, 21, 21, 32)
}
