package allocator

import "fmt"

// Keeps tells whether a container may keep a placement that was made elsewhere: under another policy, or before a CPU went. The error
// says what speaks against it.
func (a *Allocator) Keeps(p Placement) error {
	online := a.machine.Online
	switch {
	case p.CPUs.IsEmpty():
	case a.policy.CPUManager != CPUManagerStatic:
		return fmt.Errorf("cpuManagerPolicy %s gives no exclusive CPUs, and it has %s", a.policy.CPUManager, p.CPUs)
	case !p.CPUs.IsSubsetOf(online):
		return fmt.Errorf("CPUs %s are not online", p.CPUs.Difference(online))
	case p.CPUs.Overlaps(a.reserved):
		return fmt.Errorf("CPUs %s are reserved for the system", p.CPUs.Intersect(a.reserved))
	case !p.CPUs.IsSubsetOf(a.assignable):
		return fmt.Errorf("CPUs %s are isolated, and isolatedCPUs is %s", p.CPUs.Difference(a.assignable), IsolatedExclude)
	}
	if a.policy.Options.FullPCPUsOnly {
		if err := a.keepsCores(p); err != nil {
			return err
		}
	}
	if gone := p.Mems().Difference(a.machine.NodeIDs()); !gone.IsEmpty() {
		return fmt.Errorf("its memory is on NUMA nodes %s, which are not there (nodes: %s)", gone, a.machine.NodeIDs())
	}
	return nil
}

// keepsCores tells whether full-pcpus-only could have made p. Where the operator reserves parts of cores the other parts are given out, and
// other cores may be split to make up the number.
func (a *Allocator) keepsCores(p Placement) error {
	if err := a.checkGrain(p.CPUs.Len()); err != nil {
		return err
	}
	if parts := p.CPUs.Difference(a.layout.wholeCores(p.CPUs)); !parts.IsEmpty() && !parts.Overlaps(a.reservedCores) {
		return fmt.Errorf("full-pcpus-only: CPUs %s are parts of cores", parts)
	}
	return nil
}
