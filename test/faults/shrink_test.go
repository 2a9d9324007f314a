package faults

import (
	"slices"
	"sync/atomic"
	"time"
)

// shrink looks for fewer steps that fail too, and returns the shortest sequence found. Chunks of the steps are left out, smaller ones each time
// that no chunk of a size can be spared (delta debugging); what is tried together runs at the same time.
func shrink(f *failure, limit time.Duration) *failure {
	deadline := time.Now().Add(limit)
	for chunk := len(f.keep) / 2; chunk > 0 && time.Now().Before(deadline); {
		shorter := withoutOne(f, chunk, deadline)
		switch {
		case shorter != nil:
			f = shorter
			chunk = min(chunk, max(1, len(f.keep)/2))
		default:
			chunk /= 2
		}
	}
	return f
}

// withoutOne tries all sequences without one chunk, and returns the first failure that it finds, or nil.
func withoutOne(f *failure, chunk int, deadline time.Time) *failure {
	var tries []attempt
	for at := 0; at < len(f.keep); at += chunk {
		a := f.attempt
		a.keep = slices.Concat(f.keep[:at], f.keep[min(at+chunk, len(f.keep)):])
		tries = append(tries, a)
	}
	slices.Reverse(tries) // what came last is needed the most, so that it is not what can be spared
	var found atomic.Pointer[failure]
	inParallel(min(8, *parallel), tries, func(a attempt) bool {
		if found.Load() != nil || time.Now().After(deadline) {
			return false
		}
		var made atomic.Int64
		if shorter := a.run(&made); shorter != nil {
			found.CompareAndSwap(nil, shorter)
			return false
		}
		return true
	})
	return found.Load()
}
