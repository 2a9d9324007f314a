package allocator

import (
	"fmt"

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

	usable        cpuset.Set // all but the isolated CPUs that nobody gets
	reserved      cpuset.Set
	reservedCores cpuset.Set // all threads of the cores that hold a reserved CPU
	withheld      cpuset.Set
	assignable    cpuset.Set
	shareable     cpuset.Set

	allNodes  nodeMask
	cpuNodes  nodeMask // those that have CPUs
	distances [][]int  // between NUMA nodes, by index; nil without prefer-closest-numa-nodes
}

// New prepares a machine for a policy. The error is a policy that contradicts itself or does not fit the machine.
func New(m *topology.Machine, p Policy) (*Allocator, error) {
	if err := p.validate(m); err != nil {
		return nil, err
	}
	a := &Allocator{machine: m, policy: p, layout: newLayout(m), steps: packedSteps(p.Options)}
	a.usable = m.Online
	if p.Isolated == IsolatedExclude || p.Isolated == "" {
		a.usable = a.usable.Difference(m.Isolated)
	}
	a.setNodes()
	if err := a.setMemory(); err != nil {
		return nil, err
	}
	if p.CPUManager == CPUManagerStatic {
		var err error
		if a.reserved, err = a.reserve(); err != nil {
			return nil, err
		}
	}
	a.setSets()
	if a.shareable.IsEmpty() {
		return nil, fmt.Errorf("no CPU is left for the shared pool: all of %s are isolated, or reserved under strict-cpu-reservation", m.Online)
	}
	return a, nil
}

// Machine returns the machine that the allocator places on.
func (a *Allocator) Machine() *topology.Machine { return a.machine }

// Policy returns the policy that the allocator places by.
func (a *Allocator) Policy() Policy { return a.policy }

// Place decides what the container of r gets while u is taken. It changes nothing. The error is a [*Refusal].
func (a *Allocator) Place(u *Usage, r Request) (Placement, error) {
	needs := a.memoryNeeds(r.Memory)
	if a.policy.CPUManager != CPUManagerStatic {
		r.CPUs, r.Held.CPUs = 0, cpuset.Set{}
	}
	r.Reusable.CPUs = r.Reusable.CPUs.Intersect(a.assignable)
	if r.keepsAll(needs) {
		return r.Held, nil
	}
	h, err := a.align(u, &r)
	if err != nil {
		return Placement{}, err
	}
	p := Placement{Affinity: a.affinity(h), Blocks: r.Held.Blocks}
	if p.CPUs, err = a.changeCPUs(u, &r, h.mask); err != nil {
		return Placement{}, err
	}
	if len(p.Blocks) == 0 && len(needs) > 0 {
		if p.Blocks, err = a.placeMemory(u, needs, r.Reusable.Blocks, h); err != nil {
			return Placement{}, err
		}
	}
	p.Why = a.why(&r, &p)
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

func (a *Allocator) setMemory() error {
	var reserved []ReservedMemory
	if a.policy.MemoryManager == MemoryManagerStatic {
		reserved = a.policy.ReservedMemory
	}
	var err error
	a.memory, err = newMemoryTable(a.machine, reserved)
	return err
}

func (a *Allocator) setNodes() {
	nodes := a.machine.Nodes
	a.allNodes = below(len(nodes))
	for i := range nodes {
		if !nodes[i].CPUs.IsEmpty() {
			a.cpuNodes |= nodeBit(i)
		}
	}
	if !a.policy.PreferClosestNUMANodes || a.policy.TopologyManager == TopologyManagerSingleNUMANode {
		return
	}
	for i := range nodes {
		if len(nodes[i].Distances) != len(nodes) {
			a.distances = nil // the kernel does not say
			return
		}
		a.distances = append(a.distances, nodes[i].Distances)
	}
}
