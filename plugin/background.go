package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"
)

const (
	// growDelay coalesces removals: the shared pool's growth is never urgent.
	growDelay = 200 * time.Millisecond
	// convergeDelay lets a burst of pods pass before the runtime's records follow.
	convergeDelay = 500 * time.Millisecond
	// convergeBatch is how many containers one call to the runtime changes: each costs it about 12 ms, in which nobody else is served.
	convergeBatch = 4
	// convergeRetry is the longest wait after a call to the runtime has failed.
	convergeRetry = time.Minute
	// callLimit is how long a call to the runtime may take before the connection is given up.
	callLimit = 30 * time.Second
)

// background does what must not be done inside a handler: it looks again at containers whose updates may have been lost, gives the shared pool
// what has become free, and, in a goroutine of its own because the runtime may take its time, lets the runtime's records follow.
type background struct {
	verifies     chan string
	grows        chan struct{}
	converges    chan struct{}
	convergesNow chan struct{}
}

func newBackground() *background {
	return &background{
		verifies: make(chan string, 1024), grows: make(chan struct{}, 1), converges: make(chan struct{}, 1), convergesNow: make(chan struct{}, 1),
	}
}

// verify has a container looked at again soon. Where the queue is full the audit does it.
func (b *background) verify(id string) {
	select {
	case b.verifies <- id:
	default:
	}
}

func (b *background) grow()        { signal(b.grows) }
func (b *background) converge()    { signal(b.converges) }
func (b *background) convergeNow() { signal(b.convergesNow) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// runBackground verifies and grows until ctx ends.
func (p *Plugin) runBackground(ctx context.Context) {
	var growAt <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-p.background.verifies:
			p.locked(ctx, func() {
				p.repair(id, "event")
				if p.changer.urgent(id) {
					p.background.convergeNow()
				} else {
					p.background.converge()
				}
			})
		case <-p.background.grows:
			if growAt == nil {
				growAt = time.After(growDelay)
			}
		case <-growAt:
			growAt = nil
			p.locked(ctx, p.growNow)
			p.background.convergeNow()
		}
	}
}

// growNow gives the shared containers what has become free, where their cgroups can be written. The others follow when the runtime is
// called.
func (p *Plugin) growNow() {
	if p.changer.cgroups != nil {
		p.changer.settleFiles(everything)
	}
}

// runConverge lets the runtime's records follow until ctx ends.
func (p *Plugin) runConverge(ctx context.Context) {
	var at <-chan time.Time
	retry := convergeDelay
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.background.converges:
			if at == nil {
				at = time.After(convergeDelay)
			}
		case <-p.background.convergesNow:
			at = time.After(0)
		case <-at:
			at = nil
			more, err := p.convergeOnce(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				p.log.WithError(err).Warn("the runtime's records are behind: it did not take an update")
				retry = min(2*retry, convergeRetry)
				at = time.After(retry)
			case more:
				retry = convergeDelay
				at = time.After(0)
			}
		}
	}
}

// errCallLimit is a call to the runtime that has not come back.
var errCallLimit = errors.New("the runtime has not answered")

// convergeOnce changes the records of a few containers in the runtime, and tells whether there are more. The lock is not held while the
// runtime is called: it may be waiting for an answer of ours.
func (p *Plugin) convergeOnce(ctx context.Context) (more bool, err error) {
	var updates []*api.ContainerUpdate
	var runtime runtimeCaller
	p.locked(ctx, func() {
		if runtime = p.runtime; runtime != nil {
			updates = p.changer.batch(convergeBatch)
		}
	})
	if len(updates) == 0 {
		return false, nil
	}
	start := time.Now()
	failed, err := call(ctx, runtime, updates)
	p.metrics.runtimeUpdates(len(updates), len(failed), time.Since(start))
	if errors.Is(err, errCallLimit) {
		runtime.Stop() // what was on its way is looked at again when the runtime shows what runs
		return false, err
	}
	p.locked(ctx, func() {
		p.changer.landed(updates, failed, err)
		p.growNow() // what had to wait for the landing
	})
	return len(failed) == 0, err
}

// call has the runtime change containers, for as long as that may take.
func call(ctx context.Context, runtime runtimeCaller, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	type answer struct {
		failed []*api.ContainerUpdate
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		failed, err := runtime.UpdateContainers(updates)
		answers <- answer{failed, err}
	}()
	select {
	case a := <-answers:
		return a.failed, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(callLimit):
		return nil, fmt.Errorf("%w within %s", errCallLimit, callLimit)
	}
}

// repair brings one container to what it should have, if the kernel has something else.
func (p *Plugin) repair(id, found string) {
	has, cause := p.changer.verify(id)
	if cause == "" {
		return
	}
	p.metrics.drift(cause, found)
	if c, known := p.node.Container(id); known {
		w, _ := p.node.Wanted(id)
		p.logOf(&c).WithFields(logrus.Fields{"has": has.String(), "wanted": w.CPUs.String(), "cause": cause, "found": found}).Warn("repaired a drift")
	}
}
