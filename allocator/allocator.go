package allocator

import (
	"cmp"
	"slices"

	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// Allocator is one machine under one policy. It is immutable.
type Allocator struct {
	machine *topology.Machine
	policy  Policy
	layout  *layout
	memory  memoryTable
	steps   []step // of packed placement

	reserved      cpuset.Set
	reservedCores cpuset.Set // all threads of the cores that hold a reserved CPU
	withheld      cpuset.Set
	assignable    cpuset.Set
	shareable     cpuset.Set

	allNodes     nodeMask
	cpuNodes     nodeMask // those that have CPUs
	largestNodes []int    // how many CPUs the NUMA nodes have together that have the most: the first, the first two, ...
	distances    [][]int  // between NUMA nodes, by index; nil without prefer-closest-numa-nodes
}

// New prepares a machine for a policy. The error is a policy that contradicts itself or does not fit the machine.
func New(m *topology.Machine, p Policy) (*Allocator, error) {
	a := &Allocator{machine: m, policy: p, layout: newLayout(m), steps: packedSteps(p.Options)}
	if err := a.setMemory(); err != nil {
		return nil, err
	}
	if err := a.setNodes(); err != nil {
		return nil, err
	}
	if p.CPUManager == CPUManagerStatic {
		var err error
		if a.reserved, err = a.reserve(); err != nil {
			return nil, err
		}
	}
	a.setSets()
	return a, nil
}

// Machine returns the machine that the allocator places on.
func (a *Allocator) Machine() *topology.Machine { return a.machine }

// Policy returns the policy that the allocator places by.
func (a *Allocator) Policy() Policy { return a.policy }

// Place decides what the container of r gets while u is taken. It changes nothing. The error is a [*Refusal].
func (a *Allocator) Place(u *Usage, r Request) (Placement, error) {
	h, err := a.align(u, &r)
	if err != nil {
		return Placement{}, err
	}
	p := Placement{Affinity: a.affinity(h)}
	if a.policy.CPUManager == CPUManagerStatic && r.CPUs > 0 {
		if p.CPUs, err = a.placeCPUs(u, &r, h.mask); err != nil {
			return Placement{}, err
		}
	}
	if needs := a.memoryNeeds(r.Memory); len(needs) > 0 {
		if p.Blocks, err = a.placeMemory(u, needs, r.Reusable.Blocks, h); err != nil {
			return Placement{}, err
		}
	}
	return p, nil
}

// place takes n CPUs from a pool that has them, by the policy's strategy.
func (a *Allocator) place(p *pool, n int) {
	if a.policy.Options.DistributeCPUsAcrossNUMA {
		a.distributed(p, n)
		return
	}
	a.packed(p, n)
}

// Keeps tells whether a container may keep a placement that was made elsewhere: under another policy, or before a CPU went. The error
// says what speaks against it: CPUs that are offline or reserved now, a core that would be split.
func (a *Allocator) Keeps(p Placement) error { return nil }

func (a *Allocator) setMemory() error {
	var reserved []ReservedMemory
	if a.policy.MemoryManager == MemoryManagerStatic {
		reserved = a.policy.ReservedMemory
	}
	var err error
	a.memory, err = newMemoryTable(a.machine, reserved)
	return err
}

func (a *Allocator) setNodes() error {
	nodes := a.machine.Nodes
	a.allNodes = below(len(nodes))
	var totals []int
	for i := range nodes {
		if n := nodes[i].CPUs.Len(); n > 0 {
			a.cpuNodes |= nodeBit(i)
			totals = append(totals, n)
		}
	}
	slices.SortFunc(totals, func(x, y int) int { return cmp.Compare(y, x) })
	sum := 0
	for _, n := range totals {
		sum += n
		a.largestNodes = append(a.largestNodes, sum)
	}
	if !a.policy.PreferClosestNUMANodes || a.policy.TopologyManager == TopologyManagerSingleNUMANode {
		return nil
	}
	for i := range nodes {
		if len(nodes[i].Distances) != len(nodes) {
			a.distances = nil // the kernel does not say
			return nil
		}
		a.distances = append(a.distances, nodes[i].Distances)
	}
	return nil
}
