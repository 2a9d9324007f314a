package allocator

import "nri-cpuset/topology/cpuset"

// Reserved returns the CPUs kept for the system: named by the operator, or picked.
func (a *Allocator) Reserved() cpuset.Set { return a.reserved }

// Withheld returns the online CPUs that the shared pool never has: isolated ones, unless isolatedCPUs is `ignore`, and reserved ones under
// strict-cpu-reservation.
func (a *Allocator) Withheld() cpuset.Set { return a.withheld }

// Assignable returns the CPUs that exclusive containers may have where nothing is taken.
func (a *Allocator) Assignable() cpuset.Set { return a.assignable }

// Shared returns the shared pool: the CPUs on which everybody runs who has no exclusive ones.
func (a *Allocator) Shared(u *Usage) cpuset.Set { return a.shareable.Difference(u.exclusive) }

// setSets works out what the reservation and the isolated CPUs leave.
func (a *Allocator) setSets() {
	online := a.machine.Online
	a.shareable = online
	if a.policy.CPUManager != CPUManagerStatic {
		return
	}
	a.assignable = a.usable.Difference(a.reserved)
	if a.policy.Isolated != IsolatedIgnore {
		a.withheld = a.machine.Isolated.Intersect(online)
	}
	if a.policy.Options.StrictCPUReservation {
		a.withheld = a.withheld.Union(a.reserved)
	}
	a.shareable = online.Difference(a.withheld)
	a.reservedCores = around(a.reserved, a.layout.cores)
}
