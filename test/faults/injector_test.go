package faults

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"nri-cpuset/test/nriruntime"
)

// errInjected is a failure that we make.
var errInjected = errors.New("made to fail")

// Events without an answer that decides something: a runtime's loss of one of them goes unnoticed.
var tellings = []string{
	"PostCreateContainer", "PostStartContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
}

// deciding are events whose answer counts.
var deciding = []string{"CreateContainer", "StartContainer", "UpdateContainer"}

// injector holds faults until the moment for which they are meant, and has each happen once.
type injector struct {
	mu      sync.Mutex
	updates []nriruntime.Outcome
	calls   []callFault
	points  []pointFault

	// effect is told of a fault just before it has its effect, and whether only a Synchronize can show it.
	effect func(what string, hidden bool)
	manner nriruntime.Manner
	excuse func(why string) // even where the plugin writes the kernel's own files
}

type callFault struct {
	op      op
	methods []string
	after   time.Duration
}

type pointFault struct {
	point nriruntime.Point
	delay time.Duration
	err   error
}

// arm makes a step's fault wait for its moment.
func (in *injector) arm(s step) {
	in.mu.Lock()
	defer in.mu.Unlock()
	rng := s.rng()
	one := func(list []string) []string { return []string{list[rng.IntN(len(list))]} }
	switch s.op {
	case updateFails:
		in.updates = append(in.updates, nriruntime.Fails)
	case updatePretend:
		in.updates = append(in.updates, nriruntime.Pretend)
	case loseEvent, lateEvent:
		in.calls = append(in.calls, callFault{s.op, one(tellings), time.Duration(rng.IntN(60)) * time.Millisecond})
	case doubleEvent:
		in.calls = append(in.calls, callFault{s.op, one(append(slices.Clone(tellings), "StartContainer")), 0})
	case slowReply:
		in.calls = append(in.calls, callFault{s.op, one(append(slices.Clone(tellings), deciding...)), time.Duration(rng.IntN(200)) * time.Millisecond})
	case expire:
		in.calls = append(in.calls, callFault{op: s.op, methods: one(deciding)})
	case failAt:
		in.points = append(in.points, pointFault{point: point(rng), err: errInjected})
	case slowAt:
		in.points = append(in.points, pointFault{point: point(rng), delay: time.Duration(rng.IntN(100)) * time.Millisecond})
	}
}

func point(rng *rand.Rand) nriruntime.Point {
	return []nriruntime.Point{nriruntime.Replied, nriruntime.MakingTask, nriruntime.Starting}[rng.IntN(3)]
}

// disarm drops what has not happened yet.
func (in *injector) disarm() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.updates, in.calls, in.points = nil, nil, nil
}

// update is a runtime's Hooks.Update.
func (in *injector) update(string) nriruntime.Outcome {
	in.mu.Lock()
	var outcome nriruntime.Outcome
	if len(in.updates) > 0 {
		outcome, in.updates = in.updates[0], in.updates[1:]
	}
	in.mu.Unlock()
	if outcome != nriruntime.Done {
		in.effect("an update was lost", true)
	}
	return outcome
}

// call is a runtime's Hooks.Call.
func (in *injector) call(c *nriruntime.Call) error {
	switch f := in.callFault(c.Method); f.op {
	case loseEvent:
		in.effect("lost: "+c.Method, true)
		return nil
	case lateEvent:
		in.effect("late: "+c.Method, true)
		c.DeliverLater(f.after)
		return nil
	case doubleEvent:
		if err := c.Deliver(); err != nil {
			return err
		}
	case slowReply:
		time.Sleep(f.after)
	case expire:
		in.effect("a reply came too late", true)
		_ = c.Deliver() // nobody hears it
		return c.Expire()
	}
	err := c.Deliver()
	if err != nil && c.Method == "StartContainer" && in.manner == nriruntime.CRIO {
		in.excuse("CRI-O starts a container that the plugin holds back")
	}
	return err
}

func (in *injector) callFault(method string) (f callFault) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := range in.calls {
		if slices.Contains(in.calls[i].methods, method) {
			f = in.calls[i]
			in.calls = slices.Delete(in.calls, i, i+1)
			break
		}
	}
	return f
}

// at is a runtime's Hooks.At.
func (in *injector) at(p nriruntime.Point, _ *nriruntime.Container) error {
	in.mu.Lock()
	var f pointFault
	for i := range in.points {
		if in.points[i].point == p {
			f = in.points[i]
			in.points = slices.Delete(in.points, i, i+1)
			break
		}
	}
	in.mu.Unlock()
	time.Sleep(f.delay)
	return f.err
}
