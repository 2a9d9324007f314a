package e2e

import (
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/cpuset"

	"nri-cpuset/test/e2e/node"
)

// pace leaves the CPUs to others between two looks: there may be only two of them.
const pace = 50 * time.Microsecond

// watch calls f again and again, while the test does something, until the function that it returns is called. That one returns how often.
func watch(pause time.Duration, f func()) (stop func() int) {
	stopping, rounds := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stopping:
				rounds <- n
				return
			default:
				f()
				time.Sleep(pause)
			}
		}
	}()
	return sync.OnceValue(func() int {
		close(stopping)
		return <-rounds
	})
}

// watchStay watches that nobody moves: that every container stays where it is until the function that it returns is called.
func watchStay(t testing.TB, containers ...*node.Container) (stop func()) {
	t.Helper()
	seen := make([][]string, len(containers))
	end := watch(pace, func() {
		for i, c := range containers {
			cpus, err := c.EffectiveCPUs()
			if err != nil {
				cpus = err.Error()
			}
			if n := len(seen[i]); n == 0 || seen[i][n-1] != cpus {
				seen[i] = append(seen[i], cpus)
			}
		}
	})
	t.Cleanup(func() { end() })
	return func() {
		t.Helper()
		rounds := end()
		for i, c := range containers {
			if len(seen[i]) != 1 {
				t.Errorf("%s moved: %q", c.Name(), seen[i])
			}
		}
		t.Logf("measured: %d containers looked at %d times, none moved: %v", len(containers), rounds, !slices.ContainsFunc(seen, func(s []string) bool { return len(s) != 1 }))
	}
}

// watchExposure watches that no shared container may run on the CPUs of an exclusive one while that one has a process.
func watchExposure(t testing.TB, pinned *node.Container, cpus string, shared ...*node.Container) (stop func()) {
	t.Helper()
	exclusive, err := cpuset.Parse(cpus)
	if err != nil {
		t.Fatal(err)
	}
	var exposed []string
	running := 0
	end := watch(pace, func() {
		if !pinned.Running() {
			return
		}
		var found []string
		for _, c := range shared {
			text, err := c.EffectiveCPUs()
			if err != nil {
				continue // gone, or not there yet
			}
			if on, err := cpuset.Parse(text); err != nil || !on.Intersection(exclusive).IsEmpty() {
				found = append(found, c.Name()+" on "+text)
			}
		}
		// It may have ended while we looked, and its CPUs been given back.
		if pinned.Running() {
			running++
			exposed = append(exposed, found...)
		}
	})
	t.Cleanup(func() { end() })
	return func() {
		t.Helper()
		rounds := end()
		if running == 0 {
			t.Errorf("the watch never saw %s run in %d rounds", pinned.Name(), rounds)
		}
		if len(exposed) > 0 {
			t.Errorf("%d times, a shared container could run on %s of %s while that ran; first: %s", len(exposed), cpus, pinned.Name(), exposed[0])
		}
		t.Logf("measured: %d looks at %d shared containers while %s ran, %d of them exposed it", running, len(shared), pinned.Name(), len(exposed))
	}
}
