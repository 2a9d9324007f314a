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

// refusals keeps the latest containers that were not placed.
type refusals struct {
	mu   sync.Mutex
	list []web.Refusal
}

func (r *refusals) add(c *state.Container, err error, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == maxRefusals {
		r.list = r.list[1:]
	}
	r.list = append(r.list, web.Refusal{Time: at, Namespace: c.Namespace, Pod: c.Pod, Container: c.Name, Message: err.Error()})
}

// latest returns the refusals, the newest first.
func (r *refusals) latest() []web.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := append([]web.Refusal{}, r.list...)
	slices.Reverse(latest)
	return latest
}
