package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"nri-cpuset/state"
)

const (
	// growDelay coalesces removals: the shared pool's growth is never urgent.
	growDelay = 200 * time.Millisecond
	// laterDelay is how long the kubelet takes, at most in most cases, from a container's update to its pod's.
	laterDelay = time.Second
	// growBatch is how many cgroups are written before a request gets its turn.
	growBatch = 16
	// convergeDelay lets a burst of pods pass before the runtime's records follow.
	convergeDelay = 500 * time.Millisecond
	// longestDelay is how long either of them waits for pods to be no longer created.
	longestDelay = 10 * time.Second
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
	audits       chan struct{}
}

func newBackground() *background {
	return &background{
		verifies: make(chan string, 1024), grows: make(chan struct{}, 1), converges: make(chan struct{}, 1), convergesNow: make(chan struct{}, 1),
		audits: make(chan struct{}, 1),
	}
}

// verify has a container looked at again soon. Where the queue is full the audit does it.
func (b *background) verify(id string) {
	select {
	case b.verifies <- id:
	default:
	}
}

// verifyLater has a container looked at again when the kubelet has done what it does after an update.
func (b *background) verifyLater(id string) {
	time.AfterFunc(laterDelay, func() { b.verify(id) })
}

func (b *background) grow()        { signal(b.grows) }
func (b *background) converge()    { signal(b.converges) }
func (b *background) convergeNow() { signal(b.convergesNow) }

// auditAnew has the audit take up another interval.
func (b *background) auditAnew() { signal(b.audits) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// delay is when work is due that waits for a quiet moment: d after it was last asked for, but no later than longestDelay after it was first.
type delay struct {
	first time.Time
	at    <-chan time.Time
}

func (d *delay) ask(after time.Duration) {
	if d.first.IsZero() {
		d.first = time.Now()
	}
	d.at = time.After(min(after, max(0, longestDelay-time.Since(d.first))))
}

func (d *delay) done() { *d = delay{} }

// runBackground verifies and grows until ctx ends.
func (p *Plugin) runBackground(ctx context.Context) {
	var grow delay
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-p.background.verifies:
			p.locked(ctx, func() {
				p.repair(id, "event")
				p.changer.settlePodQuota(id)
				if p.changer.urgent(id) {
					p.background.convergeNow()
				} else {
					p.background.converge()
				}
			})
		case <-p.background.grows:
			grow.ask(growDelay)
		case <-grow.at:
			grow.done()
			p.growNow(ctx)
			p.background.converge()
		}
	}
}

// growNow gives the shared containers what has become free, where their cgroups can be written, a few at a time. The others follow when the
// runtime is called.
func (p *Plugin) growNow(ctx context.Context) {
	for more := p.changer.cgroups != nil; more && ctx.Err() == nil; {
		p.locked(ctx, func() { _, more = p.changer.settleFiles(everything, growBatch) })
	}
}

// runConverge lets the runtime's records follow until ctx ends.
func (p *Plugin) runConverge(ctx context.Context) {
	var due delay
	retry := convergeDelay
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.background.converges:
			due.ask(convergeDelay)
		case <-p.background.convergesNow:
			due.ask(0)
		case <-due.at:
			if p.starting(ctx) && time.Since(due.first) < longestDelay {
				due.at = time.After(convergeDelay / 4)
				continue
			}
			first := due.first
			due.done()
			more, err := p.convergeOnce(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				p.log.WithError(err).Warn("the runtime's records are behind: it did not take an update")
				retry = min(2*retry, convergeRetry)
				due.ask(retry)
			case more:
				retry = convergeDelay
				due.ask(0)
				due.first = first // what is left has waited as long
			}
		}
	}
}

// starting tells whether an exclusive container is between its placement and its start: what is sent to the runtime now could hold it up.
func (p *Plugin) starting(ctx context.Context) (yes bool) {
	p.locked(ctx, func() {
		for _, l := range p.changer.liveNow() {
			yes = yes || l.Exclusive && (l.Phase == state.Creating || l.Phase == state.Created)
		}
	})
	return yes
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
	p.locked(ctx, func() { p.changer.landed(updates, failed, err) })
	p.growNow(ctx) // what had to wait for the landing
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
