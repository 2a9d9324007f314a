package plugin

import (
	"slices"
	"sync"
	"time"

	"nri-cpuset/plugin/web"
	"nri-cpuset/state"
)

// maxRefusals is how many refusals are kept for the status.
const maxRefusals = 50

// repeated is how soon the same refusal has to come again to be the same.
const repeated = time.Minute

// refusals keeps the latest containers that were not placed.
type refusals struct {
	mu   sync.Mutex
	list []web.Refusal
}

// add notes a refusal, and tells whether it is the same as one just before: the kubelet tries again every second.
func (r *refusals) add(c *state.Container, err error, at time.Time) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		old := &r.list[i]
		if old.Namespace == c.Namespace && old.Pod == c.Pod && old.Container == c.Name && old.Message == err.Error() && at.Sub(old.Time) < repeated {
			old.Time = at
			return true
		}
	}
	if len(r.list) == maxRefusals {
		r.list = r.list[1:]
	}
	r.list = append(r.list, web.Refusal{Time: at, Namespace: c.Namespace, Pod: c.Pod, Container: c.Name, Message: err.Error()})
	return false
}

// latest returns the refusals, the newest first.
func (r *refusals) latest() []web.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := append([]web.Refusal{}, r.list...)
	slices.Reverse(latest)
	return latest
}
