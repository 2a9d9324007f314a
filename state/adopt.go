package state

import (
	"cmp"
	"slices"

	"nri-cpuset/topology/cpuset"
)

// Found is one container that the runtime shows when it synchronizes.
type Found struct {
	// Container carries identity, demand, phase and, in Placement, what we wrote into the container's annotation when it was created; the
	// placement is empty where there is no annotation.
	Container
	// Reported is the cpuset that the runtime has for it, our later updates included; empty where it has none.
	Reported cpuset.Set
	// Kernel is the cpuset that the kernel has for it; empty where nobody knows. It speaks for a container of which the file does not tell: the
	// runtime's record may be behind, and is that of the creation after some runtimes' restart.
	Kernel cpuset.Set
	// AsCreated says that the demand is that with which the container was created, according to its annotation.
	AsCreated bool
	// MayBeOld says that the runtime may show the demand of the creation although the container has been resized since: it forgets when it is
	// restarted.
	MayBeOld bool
	// Annotated says that the container carries our annotation: it was created with us.
	Annotated bool
	// CreatedAt orders containers for ties, in nanoseconds.
	CreatedAt int64
}

// Adopt makes the books agree with what runs. found are all containers that the runtime shows, sandboxes the IDs of all pod sandboxes it
// shows. Assignments are kept as they are; for what exists the runtime's word goes before the file's, which fills in what the runtime
// cannot say: containers that have exited and whose pod still holds their CPUs.
func (n *Node) Adopt(found []Found, sandboxes map[string]bool) Rebuilt {
	n.mu.Lock()
	defer n.mu.Unlock()

	slices.SortStableFunc(found, func(a, b Found) int {
		return cmp.Or(cmp.Compare(exclusiveFirst(&a), exclusiveFirst(&b)), cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	newest := map[Key]*Found{}
	for i := range found {
		f := &found[i]
		if other := newest[f.Key]; other == nil || f.CreatedAt > other.CreatedAt {
			newest[f.Key] = f
		}
	}
	var containers []*Container
	exists := map[Key]bool{}
	var late []string
	for i := range found {
		f := &found[i]
		if newest[f.Key] != f {
			continue // an attempt that was created and never started, and has been given up
		}
		c := f.Container
		if !f.Annotated && n.byID[c.ID] == nil && n.rules.pins() {
			late = append(late, c.ID)
		}
		n.recall(&c, f)
		containers = append(containers, &c)
		exists[c.Key] = true
	}
	var released []Container
	for _, old := range n.sorted() {
		if exists[old.Key] {
			continue
		}
		if !sandboxes[old.Sandbox] {
			released = append(released, *old)
			continue
		}
		held := *old
		held.Phase = Exited
		containers = append(containers, &held)
	}
	r := n.rebuild(containers)
	r.Released = released
	for _, id := range late {
		if c := n.byID[id]; c != nil && !c.Exclusive() {
			r.Late = append(r.Late, *c)
		}
	}
	n.save()
	return r
}

// recall completes what the runtime says of a container by what the books say of the same attempt.
func (n *Node) recall(c *Container, f *Found) {
	reported := f.Reported
	annotated := c.Placement
	c.Since = n.now()
	c.CreatedMilliCPU = c.Demand.MilliCPU
	known := n.byID[c.ID]
	if known == nil && !f.Kernel.IsEmpty() {
		reported = f.Kernel
	}
	if before := n.containers[c.Key]; known == nil && before != nil && c.Placement.CPUs.IsEmpty() {
		c.Placement.CPUs = before.Placement.CPUs // a restart in place that we have not seen
		c.Since = before.Since
	}
	if known != nil {
		c.Placement = known.Placement
		c.Since = known.Since
		c.Managed = c.Managed || known.Managed
		c.Demand.Devices = known.Demand.Devices
		if c.PodQuota == 0 {
			c.PodQuota, c.PodPeriod = known.PodQuota, known.PodPeriod
		}
		c.CreatedMilliCPU = known.CreatedMilliCPU
		asCreated := f.AsCreated || c.Demand.MilliCPU == known.CreatedMilliCPU
		if f.MayBeOld && asCreated && c.Demand.MilliCPU != known.Demand.MilliCPU {
			c.Demand = known.Demand
		}
		if c.Demand.Quota <= 0 && c.Demand.MilliCPU == known.Demand.MilliCPU { // the runtime shows the quota as we adjusted it
			c.Demand.Quota, c.Demand.Period = known.Demand.Quota, known.Demand.Period
			c.Demand.LimitMilliCPU = known.Demand.LimitMilliCPU
		}
	}
	// A container was moved or resized after it was created, and the file does not know of it, if the runtime's set is neither the annotation's
	// nor the file's but could be an assignment of this container. One that the file knows as exclusive and its annotation does not was resized, and
	// a runtime that has been restarted may show the shared pool of its creation.
	could := !reported.IsEmpty() && reported.Len() == n.rules.amount(c).CPUs && (known == nil || !annotated.CPUs.IsEmpty())
	if could && !reported.Equal(annotated.CPUs) && !reported.Equal(c.Placement.CPUs) {
		c.Placement.CPUs = reported
	}
	if len(c.Placement.Blocks) == 0 {
		c.Placement.Blocks = slices.Clone(annotated.Blocks)
	}
}

func exclusiveFirst(f *Found) int {
	if f.Exclusive() {
		return 0
	}
	return 1
}

// Restore takes over what a state file says, before the runtime has been heard. Nothing of it is trusted beyond what [Node.Adopt] confirms.
func (n *Node) Restore(containers []Container) Rebuilt {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]*Container, len(containers))
	for i := range containers {
		list[i] = &containers[i]
	}
	return n.rebuild(list)
}
