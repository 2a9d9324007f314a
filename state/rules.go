package state

import "nri-cpuset/allocator"

// Rules are what is in force on the node: the allocator, which is a policy on a machine, and what the configuration says beside it.
type Rules struct {
	Allocator *allocator.Allocator
	// ByContainer lets a container of a Burstable pod be exclusive too, where its own request is its limit (exclusiveScope: container).
	ByContainer bool
	// Ignores names the pods whose containers are never exclusive and never refused (ignoredPods); nil for none.
	Ignores func(namespace string, labels map[string]string) bool
	// LiftQuota lifts the CFS quota of exclusive containers (disableCPUQuotaWithExclusiveCPUs).
	LiftQuota bool
}

// amount is what the allocator is asked for to meet a container's demand.
func (r *Rules) amount(c *Container) allocator.Amount {
	var a allocator.Amount
	if r.ignores(c) {
		return a
	}
	if c.Demand.Guaranteed || r.ByContainer {
		a.CPUs = c.Demand.WholeCPUs()
	}
	if c.Demand.Guaranteed {
		a.Memory = c.Demand.Memory
	}
	return a
}

func (r *Rules) ignores(c *Container) bool {
	return r.Ignores != nil && r.Ignores(c.Namespace, c.Labels)
}

// pins tells whether the rules set cpusets at all.
func (r *Rules) pins() bool { return r.Allocator.Policy().CPUManager == allocator.CPUManagerStatic }
