package allocator

import (
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// Allocator is one machine under one policy. It is immutable.
type Allocator struct {
	machine *topology.Machine
	policy  Policy
}

// New prepares a machine for a policy. The error is a policy that contradicts itself or does not fit the machine.
func New(m *topology.Machine, p Policy) (*Allocator, error) {
	return &Allocator{machine: m, policy: p}, nil
}

// Machine returns the machine that the allocator places on.
func (a *Allocator) Machine() *topology.Machine { return a.machine }

// Policy returns the policy that the allocator places by.
func (a *Allocator) Policy() Policy { return a.policy }

// Reserved returns the CPUs kept for the system: named by the operator, or picked.
func (a *Allocator) Reserved() cpuset.Set { return cpuset.Set{} }

// NewUsage returns the books of a machine on which nothing is taken.
func (a *Allocator) NewUsage() *Usage { return &Usage{} }

// Shared returns the shared pool: the CPUs on which everybody runs who has no exclusive ones.
func (a *Allocator) Shared(u *Usage) cpuset.Set { return a.machine.Online.Difference(u.exclusive) }

// Place decides what the container of r gets while u is taken. It changes nothing. The error is a [*Refusal].
func (a *Allocator) Place(u *Usage, r Request) (Placement, error) { panic("being written") }

// Keeps tells whether a container may keep a placement that was made elsewhere: under another policy, or before a CPU went. The error
// says what speaks against it: CPUs that are offline or reserved now, a core that would be split.
func (a *Allocator) Keeps(p Placement) error { return nil }

// Usage is what is taken of a machine. Its methods keep the books and decide nothing.
type Usage struct {
	exclusive cpuset.Set
}

// Exclusive returns the CPUs that exclusive containers have.
func (u *Usage) Exclusive() cpuset.Set { return u.exclusive }

// Take books p as taken. It panics, for the caller has a bug, on CPUs that are taken already.
func (u *Usage) Take(p Placement) { u.exclusive = u.exclusive.Union(p.CPUs) }

// Give gives p back: exactly what Take booked.
func (u *Usage) Give(p Placement) { u.exclusive = u.exclusive.Difference(p.CPUs) }

// Transfer returns what is left of a placement when another container of its pod has taken over what it could use of it.
func Transfer(left, taken Placement) Placement { return left }
