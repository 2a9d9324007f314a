package plugin

import (
	"slices"
	"sync"
	"time"

	"nri-cpuset/state"
)

// maxRefusals is how many refusals are kept for the status.
const maxRefusals = 50

// refusal is a container that was not placed.
type refusal struct {
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Container string    `json:"container"`
	Message   string    `json:"message"`
}

// refusals keeps the latest refusals.
type refusals struct {
	mu   sync.Mutex
	list []refusal
}

func (r *refusals) add(c *state.Container, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == maxRefusals {
		r.list = r.list[1:]
	}
	r.list = append(r.list, refusal{Time: time.Now(), Namespace: c.Namespace, Pod: c.Pod, Container: c.Name, Message: err.Error()})
}

// latest returns the refusals, the newest first.
func (r *refusals) latest() []refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := make([]refusal, 0, len(r.list))
	for _, refused := range slices.Backward(r.list) {
		latest = append(latest, refused)
	}
	return latest
}
