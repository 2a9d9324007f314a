package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"nri-cpuset/allocator"
	"nri-cpuset/state"
)

// The NRI events. Each translates, has the books decide, brings the running containers to what they say now, and answers. None of them calls
// the runtime: that would wait for the very lock that the runtime holds while it waits for us.

// CreateContainer places a container that is about to be created. The reply takes effect before the container exists, and so do the updates
// to others in it. An error refuses the container, and the kubelet shows its text.
func (p *Plugin) CreateContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) (
	adjust *api.ContainerAdjustment, updates []*api.ContainerUpdate, err error,
) {
	c := containerOf(pod, ctr)
	if c.Demand.Guaranteed {
		c.Demand.Devices = p.devices.of(ctx, pod, ctr)
	}
	err = p.handle(ctx, "CreateContainer", func() error {
		if c.Demand.WholeCPUs() > 0 {
			p.changer.notePodQuota(&c)
		}
		placed, err := p.node.Place(c, podTotal(pod, p.config.PodAnnotations))
		if err != nil {
			p.refused("create", &c, err)
			return fmt.Errorf("nri-cpuset refuses container %s of pod %s/%s: %w", c.Name, c.Namespace, c.Pod, err)
		}
		if adjust, err = p.adjustment(&placed); err != nil {
			return err
		}
		if placed.Exclusive() {
			updates = p.changer.settle(shrinkOnly)
			p.background.grow() // those behind a fence follow
		}
		updates = oneEach(append(updates, p.corrections()...))
		for _, u := range updates {
			p.background.verify(u.GetContainerId()) // runtimes report an update as done that is lost
		}
		p.placed(&placed, len(updates))
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return adjust, updates, nil
}

// adjustment is the reply to CreateContainer for a container that has been placed; nil where the policy touches nobody.
func (p *Plugin) adjustment(c *state.Container) (*api.ContainerAdjustment, error) {
	mems := c.Placement.Mems()
	w, pinned := p.node.Wanted(c.ID)
	if !pinned && mems.IsEmpty() {
		return nil, nil
	}
	if stays := w.CPUs.Difference(p.changer.leaving()); !c.Exclusive() && !stays.IsEmpty() {
		w.CPUs = stays // the rest follows when those who have lost it have left
	}
	a := assignment{Placement: c.Placement, MilliCPU: c.Demand.MilliCPU}
	adjust := &api.ContainerAdjustment{}
	if pinned {
		adjust.SetLinuxCPUSetCPUs(w.CPUs.String())
		p.changer.created(c.ID, c.CgroupsPath, w, c.Exclusive())
	}
	if w.Unlimited {
		a.Quota, a.Period = c.Demand.Quota, c.Demand.Period
		a.PodQuota, a.PodPeriod = c.PodQuota, c.PodPeriod
		adjust.SetLinuxCPUQuota(-1)
	}
	if !mems.IsEmpty() {
		adjust.SetLinuxCPUSetMems(mems.String())
	}
	text, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encoding the assignment: %w", err)
	}
	adjust.AddAnnotation(assignmentAnnotation, string(text))
	return adjust, nil
}

// PostCreateContainer tells that the runtime now knows the container. What was decided for it between our reply and this moment is lost on
// some runtimes, so it is looked at again.
func (p *Plugin) PostCreateContainer(ctx context.Context, _ *api.PodSandbox, ctr *api.Container) error {
	return p.handle(ctx, "PostCreateContainer", func() error {
		p.node.SetPhase(ctr.GetId(), state.Created)
		p.background.verify(ctr.GetId())
		return nil
	})
}

// StartContainer comes when the container's cgroup is there and its first instruction has not run. It is the last moment to make sure that
// nobody will run where it should not.
func (p *Plugin) StartContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	err := p.startContainer(ctx, ctr)
	if inFlight, ok := errors.AsType[*inFlightError](err); ok {
		// The runtime serves one request at a time, so the update has been made; it is only the answer that has not reached us.
		select {
		case <-inFlight.arrived:
		case <-time.After(arrivalLimit):
		}
		err = p.startContainer(ctx, ctr)
	}
	if err != nil {
		p.background.convergeNow()
		return fmt.Errorf("nri-cpuset does not let container %s of pod %s/%s start yet: %w", ctr.GetName(), pod.GetNamespace(), pod.GetName(), err)
	}
	return nil
}

// arrivalLimit is how long a start waits for the answer to an update.
const arrivalLimit = handlerBudget / 4

func (p *Plugin) startContainer(ctx context.Context, ctr *api.Container) error {
	return p.handle(ctx, "StartContainer", func() error {
		p.node.SetPhase(ctr.GetId(), state.Created)
		c, known := p.node.Container(ctr.GetId())
		if !known {
			return nil
		}
		p.repair(c.ID, "start")
		if !c.Exclusive() {
			return nil
		}
		p.changer.settlePodQuota(c.ID)
		return p.changer.clear(c.ID, c.Placement.CPUs)
	})
}

// PostStartContainer tells that the container runs. What the runtime was told to change while it was being started is lost on containerd.
func (p *Plugin) PostStartContainer(ctx context.Context, _ *api.PodSandbox, ctr *api.Container) error {
	return p.handle(ctx, "PostStartContainer", func() error {
		p.node.SetPhase(ctr.GetId(), state.Running)
		p.background.verify(ctr.GetId())
		return nil
	})
}

// UpdateContainer is a container's resources being changed while it runs: an in-place resize. Our reply goes over the kubelet's values, so
// that cpuset and quota change together, or the whole resize is refused.
func (p *Plugin) UpdateContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container, r *api.LinuxResources) (
	updates []*api.ContainerUpdate, err error,
) {
	err = p.handle(ctx, "UpdateContainer", func() error {
		old, known := p.node.Container(ctr.GetId())
		if !known {
			return nil
		}
		c, err := p.node.Resize(old.ID, resized(old.Demand, demandOf(pod, r, assignment{}), r))
		if err != nil {
			p.refused("resize", &old, err)
			return fmt.Errorf("nri-cpuset refuses to resize container %s of pod %s/%s, which keeps %s: %w",
				old.Name, old.Namespace, old.Pod, orShared(old.Placement.CPUs), err)
		}
		p.changer.setExclusive(c.ID, c.Exclusive())
		// Others leave first; who may have more gets it when this container has left, which PostUpdateContainer tells.
		updates = p.changer.settle(shrinkOnly)
		if w, wanted := p.node.Wanted(c.ID); wanted {
			to, ok := p.changer.resized(c.ID, w, old.Exclusive(), c.Exclusive())
			if !ok {
				_, err := p.node.Resize(old.ID, old.Demand) // to the shared pool, where there is always room
				return errors.Join(err, fmt.Errorf("nri-cpuset: an update on its way to the runtime could put others on %s; resize %s again", w.CPUs, c.Name))
			}
			updates = append(withoutUpdate(updates, c.ID), ownUpdate(c.ID, to, w))
		}
		if !c.Placement.CPUs.Equal(old.Placement.CPUs) {
			p.logOf(&c).WithField("from", orShared(old.Placement.CPUs)).Info("resized: " + c.Placement.Why)
		}
		return nil
	})
	return updates, err
}

// ownUpdate is our part of an update to the container that is being updated.
func ownUpdate(id string, to setting, w state.Wanted) *api.ContainerUpdate {
	u := &api.ContainerUpdate{}
	u.SetContainerId(id)
	u.SetLinuxCPUSetCPUs(to.cpus.String())
	setQuota(u, to, &w)
	return u
}

// resized is the demand after an update that names only what changes.
func resized(old, update state.Demand, r *api.LinuxResources) state.Demand {
	d := old
	if r.GetCpu().GetShares() != nil {
		d.MilliCPU = update.MilliCPU
	}
	if r.GetCpu().GetQuota().GetValue() != 0 {
		d.Quota, d.Period, d.LimitMilliCPU = update.Quota, update.Period, update.LimitMilliCPU
	}
	if d.Guaranteed && r.GetCpu().GetShares() != nil && r.GetCpu().GetQuota().GetValue() == 0 {
		d.LimitMilliCPU = d.MilliCPU
	}
	return d
}

// PostUpdateContainer tells that an update has been made.
func (p *Plugin) PostUpdateContainer(ctx context.Context, _ *api.PodSandbox, ctr *api.Container) error {
	return p.handle(ctx, "PostUpdateContainer", func() error {
		p.changer.updated(ctr.GetId())
		p.background.verify(ctr.GetId())
		p.background.verifyLater(ctr.GetId()) // after a shrink the kubelet writes the pod's quota last
		p.background.grow()
		return nil
	})
}

// StopContainer tells that a container has ended. Its CPUs stay its pod's.
func (p *Plugin) StopContainer(ctx context.Context, _ *api.PodSandbox, ctr *api.Container) (updates []*api.ContainerUpdate, err error) {
	err = p.handle(ctx, "StopContainer", func() error {
		p.node.SetPhase(ctr.GetId(), state.Exited)
		p.changer.removed(ctr.GetId())
		updates = p.corrections()
		return nil
	})
	return updates, err
}

// corrections are updates for a few containers whose record in the runtime is behind, to go with a reply: where the runtime cannot be called
// safely there is no other way.
func (p *Plugin) corrections() []*api.ContainerUpdate {
	if p.runtime != nil {
		return nil
	}
	updates := p.changer.batch(convergeBatch)
	p.changer.landed(updates, nil, nil)
	return updates
}

// RemoveContainer tells that a container is gone for good, and with it what it had, unless another attempt has it by now.
func (p *Plugin) RemoveContainer(ctx context.Context, _ *api.PodSandbox, ctr *api.Container) error {
	return p.handle(ctx, "RemoveContainer", func() error {
		c, known := p.node.Container(ctr.GetId())
		p.node.Release(ctr.GetId())
		p.changer.removed(ctr.GetId())
		if known && c.Exclusive() {
			p.logOf(&c).Info("released: the container was removed")
			p.released()
		}
		return nil
	})
}

// StopPodSandbox tells that a pod has ended: its containers' CPUs are free.
func (p *Plugin) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return p.handle(ctx, "StopPodSandbox", func() error { return p.releasePod(pod) })
}

// RemovePodSandbox says the same where StopPodSandbox did not come.
func (p *Plugin) RemovePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return p.handle(ctx, "RemovePodSandbox", func() error { return p.releasePod(pod) })
}

func (p *Plugin) releasePod(pod *api.PodSandbox) error {
	for _, c := range p.node.ReleasePod(podUID(pod), pod.GetId()) {
		p.changer.removed(c.ID)
		if c.Exclusive() {
			p.logOf(&c).Info("released: the pod has ended")
			p.released()
		}
	}
	return nil
}

// released gives what has become free to containers for which there was no room, and then to the shared pool.
func (p *Plugin) released() {
	if p.node.Unsettled() {
		p.rebuilt("room for containers that had none", p.node.Reconfigure(p.node.Rules()))
	}
	p.background.grow()
}

// containerd, as it calls itself, keeps what containers have been updated to over its restarts. CRI-O does not.
const containerd = "containerd"

// Synchronize comes at registration and shows what runs. Whoever has an assignment keeps it; who should have one and was created while we
// were away gets it late.
func (p *Plugin) Synchronize(ctx context.Context, pods []*api.PodSandbox, ctrs []*api.Container) (updates []*api.ContainerUpdate, err error) {
	err = p.handle(ctx, "Synchronize", func() error {
		sandboxes := make(map[string]*api.PodSandbox, len(pods))
		exists := make(map[string]bool, len(pods))
		for _, pod := range pods {
			sandboxes[pod.GetId()], exists[pod.GetId()] = pod, true
		}
		info := p.connected.Load()
		forgetful := info == nil || info.Name != containerd
		found := make([]state.Found, 0, len(ctrs))
		ids := make(map[string]bool, len(ctrs))
		for _, ctr := range ctrs {
			pod := sandboxes[ctr.GetPodSandboxId()]
			if pod == nil {
				p.log.WithField("container", ctr.GetId()).Warn("the runtime shows a container without its pod, which is left alone")
				continue
			}
			f, err := foundOf(pod, ctr)
			if err != nil {
				p.logOf(&f.Container).WithError(err).Warn("what the runtime says of this container is not used")
			}
			// Whoever ended just before we registered was reported to nobody, and containerd may show it as running for seconds yet.
			if f.Phase == state.Running && p.changer.ended(f.CgroupsPath) {
				f.Phase = state.Exited
			}
			if f.Phase == state.Exited {
				continue
			}
			ids[f.ID] = true
			f.MayBeOld = forgetful
			f.Kernel = p.changer.adopted(f.ID, f.CgroupsPath, f.Reported, ctr.GetLinux().GetResources().GetCpu().GetQuota().GetValue() == -1)
			found = append(found, f)
		}
		p.changer.keepOnly(ids)
		p.changer.endFlight()
		p.rebuilt("synchronized", p.node.Adopt(found, exists))
		updates = p.changer.settle(everything)
		p.background.converge()
		p.synchronized.Store(true)
		return nil
	})
	return updates, err
}

// rebuilt says what a change of all the books has led to.
func (p *Plugin) rebuilt(what string, r state.Rebuilt) {
	for i := range r.Moves {
		m := &r.Moves[i]
		entry := p.logOf(&m.Container).WithField("from", orShared(m.From))
		if m.From.IsEmpty() {
			entry.Warn("pinned late: " + m.Why)
		} else {
			entry.Warn("moved: " + m.Why)
		}
	}
	for i := range r.Unplaced {
		u := &r.Unplaced[i]
		p.logOf(&u.Container).WithError(u.Err).Error("cannot be placed as the policy wants: " + u.Container.Unsettled)
	}
	for i := range r.Late {
		p.logOf(&r.Late[i]).Info("created without us: in the shared pool from now on")
	}
	p.metrics.rebuilt(&r)
	p.log.WithFields(logrus.Fields{
		"kept": r.Kept, "moved": len(r.Moves), "unplaced": len(r.Unplaced), "released": len(r.Released),
	}).Info(what)
}

// refused notes a refusal, which the runtime hands on to the kubelet.
func (p *Plugin) refused(what string, c *state.Container, err error) {
	reason := allocator.UnexpectedAdmissionError
	if refusal := (*allocator.Refusal)(nil); errors.As(err, &refusal) {
		reason = refusal.Reason
	}
	p.metrics.refused(reason)
	level := logrus.WarnLevel
	if p.refusals.add(c, err, p.options.Now()) {
		level = logrus.DebugLevel
	}
	p.logOf(c).WithError(err).Log(level, what+" refused")
}

// placed notes a decision.
func (p *Plugin) placed(c *state.Container, updates int) {
	p.metrics.placed(c)
	entry := p.logOf(c)
	if updates > 0 {
		entry = entry.WithField("updates", updates)
	}
	if c.Exclusive() || len(c.Placement.Blocks) > 0 {
		entry.Info("placed: " + c.Placement.Why)
	} else {
		entry.Debug("placed in the shared pool")
	}
}

func withoutUpdate(updates []*api.ContainerUpdate, id string) []*api.ContainerUpdate {
	kept := updates[:0]
	for _, u := range updates {
		if u.GetContainerId() != id {
			kept = append(kept, u)
		}
	}
	return kept
}
