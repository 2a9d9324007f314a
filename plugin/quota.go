package plugin

import (
	"path"
	"strings"

	"nri-cpuset/state"
)

// The kubelet gives the pod's cgroup a CFS quota too, the sum of its containers'. Lifting an exclusive container's own quota alone would leave
// it throttled by the pod's, so that is lifted as well, where all that it limits is exclusive; and put back when that is no longer so. No runtime
// knows this file: it is written directly, or not at all.

// notePodQuota reads the quota of the pod's cgroup before we change it, so that it can be put back.
func (c *changer) notePodQuota(ctr *state.Container) {
	for _, sibling := range c.node.Pod(ctr.PodUID) {
		if sibling.PodQuota > 0 {
			ctr.PodQuota, ctr.PodPeriod = sibling.PodQuota, sibling.PodPeriod
			return
		}
	}
	dir := c.podDir(ctr.CgroupsPath)
	if dir == "" {
		return
	}
	if quota, period, err := c.cgroups.quota(dir); err == nil && quota > 0 {
		ctr.PodQuota, ctr.PodPeriod = quota, period
	}
}

// settlePodQuota lifts the quota of a container's pod, or puts it back.
func (c *changer) settlePodQuota(id string) {
	ctr, known := c.node.Container(id)
	if !known || ctr.PodQuota <= 0 {
		return
	}
	dir := c.podDir(ctr.CgroupsPath)
	if dir == "" {
		return
	}
	has, period, err := c.cgroups.quota(dir)
	if err != nil {
		return
	}
	if has > 0 && has != ctr.PodQuota { // the kubelet has resized the pod
		c.node.SetPodQuota(ctr.PodUID, has, period)
		ctr.PodQuota, ctr.PodPeriod = has, period
	}
	lift := c.liftsPodQuota(&ctr)
	switch {
	case lift && has > 0:
		err = c.cgroups.setQuota(dir, -1, 0)
	case !lift && has < 0:
		err = c.cgroups.setQuota(dir, ctr.PodQuota, ctr.PodPeriod)
	}
	if err != nil {
		c.log.WithError(err).WithField("pod", ctr.Namespace+"/"+ctr.Pod).Warn("the pod's CPU quota stays as it is")
	}
}

// liftsPodQuota tells whether all that a pod's quota limits is exclusive: what the exclusive containers ask for then adds up to it.
func (c *changer) liftsPodQuota(ctr *state.Container) bool {
	exclusive := 0
	for _, sibling := range c.node.Pod(ctr.PodUID) {
		if w, wanted := c.node.Wanted(sibling.ID); wanted && w.Unlimited {
			exclusive += sibling.Demand.WholeCPUs() // which it may have fewer of while one is offline
		}
	}
	return ctr.PodPeriod > 0 && int64(exclusive)*1000 >= milliCPUOfQuota(ctr.PodQuota, ctr.PodPeriod) && exclusive > 0
}

// podDir is the cgroup of the pod that a container's lies in; empty where cgroups are not written, or the path is not understood.
func (c *changer) podDir(cgroupsPath string) string {
	dir := c.dir(cgroupsPath)
	parent := path.Dir(dir)
	if dir == "" || parent == "." || !isPodCgroup(path.Base(parent)) {
		return ""
	}
	return parent
}

// isPodCgroup tells a pod's cgroup, pod1234 or kubepods-burstable-pod1234.slice, from those above it, which are other pods' too.
func isPodCgroup(name string) bool {
	return strings.HasPrefix(name, "pod") || strings.Contains(name, "-pod")
}
