package allocator

import (
	"fmt"

	"nri-cpuset/topology/cpuset"
)

// reserve returns the CPUs kept for the system: those that the operator names, or as many as kubeReserved and systemReserved come to, picked
// by the same placement that containers get.
func (a *Allocator) reserve() (cpuset.Set, error) {
	online := a.machine.Online
	if named := a.policy.ReservedCPUs; !named.IsEmpty() {
		if missing := named.Difference(online); !missing.IsEmpty() {
			return cpuset.Set{}, fmt.Errorf("reservedSystemCPUs names %s, of which %s is not online (online: %s)", named, missing, online)
		}
		return named, nil
	}
	n, from := a.policy.ReservedCount, online
	if a.policy.Isolated != IsolatedIgnore {
		from = from.Difference(a.machine.Isolated)
	}
	if n > from.Len() {
		return cpuset.Set{}, fmt.Errorf("%d CPUs are to be reserved (kubeReserved.cpu + systemReserved.cpu), and the machine has %d (%s)",
			n, from.Len(), from)
	}
	return a.pick(from, n), nil
}
