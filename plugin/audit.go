package plugin

import (
	"context"
	"time"

	"nri-cpuset/state"
)

// runAudit compares, at the configured interval, what the kernel says of every container with what was decided, and repairs what differs.
func (p *Plugin) runAudit(ctx context.Context) {
	for {
		var interval time.Duration
		p.locked(ctx, func() { interval = time.Duration(p.config.AuditInterval) })
		off := interval <= 0
		if off {
			interval = time.Minute // until the configuration is looked at again
		}
		select {
		case <-ctx.Done():
			return
		case <-p.background.audits:
			continue
		case <-time.After(interval):
		}
		if !off {
			p.audit(ctx)
		}
	}
}

// audit looks at all containers once. The lock is taken for one container at a time, so that no request waits for a whole audit.
func (p *Plugin) audit(ctx context.Context) {
	for _, c := range p.node.Snapshot().Containers {
		p.locked(ctx, func() {
			// runc is making one that has not been started, and gives it its CPUs last; StartContainer looks at those.
			if !p.gone(&c) && c.Phase == state.Running {
				p.changer.askAgain(c.ID)
				p.repair(c.ID, "audit")
				p.changer.settlePodQuota(c.ID)
			}
		})
	}
	p.metrics.audited()
	p.locked(ctx, func() {
		if err := p.node.Check(); err != nil {
			p.log.WithError(err).Error("the books are wrong")
			p.metrics.drift("books", "audit")
		}
	})
	p.background.converge()
}

// gone finds out whether a container has ended without the runtime's telling us: its cgroup is not there any more, at two audits in a row. A
// container merely created has none yet. With its pod's cgroup goes what the pod held.
func (p *Plugin) gone(c *state.Container) bool {
	r := p.changer.records[c.ID]
	podDir := p.changer.podDir(c.CgroupsPath)
	switch {
	case podDir != "" && !p.changer.cgroups.exists(podDir):
		if !p.missed(c.ID) {
			return true
		}
		p.node.Release(c.ID)
		p.changer.removed(c.ID)
		p.background.grow()
		p.logOf(c).Warn("released: the pod's cgroup is gone, and the runtime has not told us that the pod has ended")
	case c.Phase == state.Running && r != nil && r.dir != "" && !p.changer.cgroups.exists(r.dir):
		if !p.missed(c.ID) {
			return true
		}
		p.node.SetPhase(c.ID, state.Exited)
		p.changer.removed(c.ID)
		p.logOf(c).Warn("ended: the container's cgroup is gone, and the runtime has not told us")
	default:
		delete(p.missing, c.ID)
		return false
	}
	delete(p.missing, c.ID)
	p.metrics.drift("event", "audit")
	return true
}

// missed notes that a container's cgroup is not there, and tells whether it was not there the last time either.
func (p *Plugin) missed(id string) bool {
	if p.missing[id] {
		return true
	}
	if p.missing == nil {
		p.missing = map[string]bool{}
	}
	p.missing[id] = true
	return false
}
