package plugin

import (
	"context"
	"time"
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
		case <-time.After(interval):
		}
		if !off {
			p.audit(ctx)
		}
	}
}

// audit looks at all containers once. The lock is taken for one container at a time, so that no request waits for a whole audit.
func (p *Plugin) audit(ctx context.Context) {
	var ids []string
	p.locked(ctx, func() {
		for i := range p.changer.liveNow() {
			ids = append(ids, p.changer.live[i].ID)
		}
	})
	for _, id := range ids {
		p.locked(ctx, func() { p.repair(id, "at an audit") })
	}
	p.metrics.audited()
	p.locked(ctx, func() {
		if err := p.node.Check(); err != nil {
			p.log.WithError(err).Error("the books are wrong")
			p.metrics.drift("books")
		}
	})
	p.background.converge()
}
