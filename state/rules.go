package state

import "nri-cpuset/allocator"

// Rules are what is in force on the node: the allocator, which is a policy on a machine, and what the configuration says beside it.
type Rules struct {
	Allocator *allocator.Allocator
	// ByContainer lets a container of a Burstable pod be exclusive too, where its own request is its limit (exclusiveScope: container).
	ByContainer bool
	// LiftQuota lifts the CFS quota of exclusive containers (disableCPUQuotaWithExclusiveCPUs).
	LiftQuota bool
}

// amount is what the allocator is asked for to meet a demand.
func (r *Rules) amount(d *Demand) allocator.Amount {
	var a allocator.Amount
	if d.Ignored {
		return a
	}
	if d.Guaranteed || r.ByContainer {
		a.CPUs = d.WholeCPUs()
	}
	if d.Guaranteed {
		a.Memory = d.Memory
	}
	return a
}

// pins tells whether the rules set cpusets at all.
func (r *Rules) pins() bool { return r.Allocator.Policy().CPUManager == allocator.CPUManagerStatic }
