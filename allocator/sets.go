package allocator

import "nri-cpuset/topology/cpuset"

// Withheld returns the CPUs that are online and that neither an exclusive container nor the shared pool may have: isolated CPUs that are
// excluded, and reserved ones under strict-cpu-reservation. (Isolated CPUs for exclusive containers only are withheld from the shared pool
// alone, and are not among these.)
func (a *Allocator) Withheld() cpuset.Set {
	var withheld cpuset.Set
	if a.policy.Isolated == IsolatedExclude {
		withheld = a.machine.Isolated.Intersect(a.machine.Online)
	}
	if a.policy.Options.StrictCPUReservation {
		withheld = withheld.Union(a.Reserved())
	}
	return withheld
}

// Assignable returns the CPUs that exclusive containers may have where nothing is taken.
func (a *Allocator) Assignable() cpuset.Set {
	return a.machine.Online.Difference(a.Reserved()).Difference(a.Withheld())
}
