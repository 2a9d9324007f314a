package allocator

import "nri-cpuset/topology/cpuset"

// Withheld returns the online CPUs that the shared pool never has: isolated ones, unless isolatedCPUs is `ignore`, and reserved ones under
// strict-cpu-reservation.
func (a *Allocator) Withheld() cpuset.Set {
	var withheld cpuset.Set
	if a.policy.Isolated != IsolatedIgnore {
		withheld = a.machine.Isolated.Intersect(a.machine.Online)
	}
	if a.policy.Options.StrictCPUReservation {
		withheld = withheld.Union(a.Reserved())
	}
	return withheld
}

// Assignable returns the CPUs that exclusive containers may have where nothing is taken.
func (a *Allocator) Assignable() cpuset.Set {
	assignable := a.machine.Online.Difference(a.Reserved())
	if a.policy.Isolated != IsolatedExclude && a.policy.Isolated != "" {
		return assignable
	}
	return assignable.Difference(a.machine.Isolated)
}
