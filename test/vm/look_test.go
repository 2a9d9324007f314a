package vm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/cpuset"

	"nri-cpuset/test/e2e/node"
)

// soon is how long what need not be at once may take. It is done in 2 s where the machine runs at its own speed; on a busy host, the kernel in
// it has been seen to stand still for half a minute while it took a CPU offline.
const soon = 75 * time.Second

// pace is the time between two looks of a watch.
const pace = 2 * time.Millisecond

// seen is what the kernel makes of a container: its CPUs and NUMA nodes, and its CPU quota and its pod's in us of each 100 ms; -1 for none.
type seen struct {
	cpus, mems      string
	quota, podQuota int64
}

// pinned is what a container is to have whose memory is not bound.
func pinned(cpus string) seen { return seen{cpus, allMems, -1, -1} }

// look reads the effective sets of a container's cgroup. It is an error if one of its processes may run elsewhere.
func (f *fixture) look(c *node.Container) (seen, error) {
	kernel, err := c.Kernel()
	if err != nil {
		return seen{}, err
	}
	pod, err := f.Cgroups.Read(c.Pod().Cgroup)
	if err != nil {
		return seen{}, err
	}
	processes, err := c.AllowedCPUs()
	if err != nil {
		return seen{}, err
	}
	if processes != kernel.Effective {
		return seen{}, fmt.Errorf("%s: its cgroup may run on %s, its processes on %s", c.Name(), kernel.Effective, processes)
	}
	return seen{kernel.Effective, kernel.Mems, kernel.QuotaMicros, pod.QuotaMicros}, nil
}

// wants is what a container is to have.
type wants struct {
	*node.Container
	seen
}

// check looks at everybody: those who share are to have the CPUs shared, and all else as ever.
func (f *fixture) check(shared string, others []wants) error {
	all := slices.Clone(others)
	for i, c := range f.shared {
		want := f.resting[i]
		want.cpus = shared
		all = append(all, wants{c, want})
	}
	var errs []error
	for _, want := range all {
		got, err := f.look(want.Container)
		if err == nil && got != want.seen {
			err = fmt.Errorf("%s has %+v, want %+v", want.Name(), got, want.seen)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// expect asserts what everybody has at this moment.
func (f *fixture) expect(t *testing.T, when, shared string, others ...wants) {
	t.Helper()
	if err := f.check(shared, others); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

// expectSoon is expect for what may take a moment.
func (f *fixture) expectSoon(t *testing.T, when, shared string, others ...wants) {
	t.Helper()
	begin := time.Now()
	for {
		err := f.check(shared, others)
		if err == nil {
			t.Logf("measured: %s: everybody was in place after %v", when, since(begin))
			return
		}
		if time.Since(begin) > soon {
			t.Errorf("%s, after %v still: %v", when, soon, err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// expectSaid asserts what the container's first process saw of itself, before it became the command.
func expectSaid(t *testing.T, c *node.Container, cpus, mems string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for _, want := range []struct{ key, value string }{{"Cpus_allowed_list", cpus}, {"Mems_allowed_list", mems}} {
		got, err := c.Says(ctx, want.key)
		if err != nil {
			t.Fatal(err)
		}
		if got != want.value {
			t.Errorf("the first process of %s saw %s: %s, want %s", c.Name(), want.key, got, want.value)
		}
	}
}

// expectFences asserts what the cgroups of the QoS classes, in which all containers of the class are, let their containers have.
func (f *fixture) expectFences(t *testing.T, when, want string) {
	t.Helper()
	for _, class := range []string{"burstable", "besteffort"} {
		got, err := f.Cgroups.EffectiveCPUs(filepath.Join(f.Kubepods, class))
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: the cgroup of the class %s lets its containers run on %s, want %s", when, class, got, want)
		}
	}
}

// watch calls f again and again until the function that it returns is called. That one returns how often.
func watch(t *testing.T, f func()) (stop func() int) {
	t.Helper()
	stopping, rounds := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stopping:
				rounds <- n
				return
			case <-time.After(pace):
				f()
			}
		}
	}()
	stop = sync.OnceValue(func() int {
		close(stopping)
		return <-rounds
	})
	t.Cleanup(func() { stop() })
	return stop
}

// watchExposure watches that no shared container may run on the CPUs of an exclusive one that runs: on cpus, or, if these are empty, on what the
// kernel gives it at each moment. The latter is only for one that has been started: runc makes the first process before it gives it CPUs.
func (f *fixture) watchExposure(t *testing.T, exclusive *node.Container, cpus string) (stop func()) {
	t.Helper()
	var exposed []string
	looks := 0
	end := watch(t, func() {
		before, err := exclusive.EffectiveCPUs()
		if err != nil || !exclusive.Running() {
			return
		}
		own := cpus
		if own == "" {
			own = before
		}
		var found []string
		for _, c := range f.shared {
			if on, err := c.EffectiveCPUs(); err == nil && overlap(on, own) {
				found = append(found, fmt.Sprintf("%s on %s, and %s is %s's", c.Name(), on, own, exclusive.Name()))
			}
		}
		// It may have left a CPU after we looked, and that CPU been given back.
		if after, err := exclusive.EffectiveCPUs(); err == nil && after == before && exclusive.Running() {
			looks++
			exposed = append(exposed, found...)
		}
	})
	return func() {
		t.Helper()
		end()
		if looks == 0 {
			t.Errorf("the watch never saw %s run", exclusive.Name())
		}
		if len(exposed) > 0 {
			t.Errorf("%d times, a shared container could run on an exclusive one's CPU; first: %s", len(exposed), exposed[0])
		}
		t.Logf("measured: %d looks while %s ran, %d of them exposed it", looks, exclusive.Name(), len(exposed))
	}
}

// watchStay watches that nobody moves until the function that it returns is called.
func (f *fixture) watchStay(t *testing.T, others ...*node.Container) (stop func()) {
	t.Helper()
	containers := append(slices.Clone(f.shared), others...)
	on := make([][]string, len(containers))
	end := watch(t, func() {
		for i, c := range containers {
			cpus, err := c.EffectiveCPUs()
			if err != nil {
				cpus = err.Error()
			}
			if n := len(on[i]); n == 0 || on[i][n-1] != cpus {
				on[i] = append(on[i], cpus)
			}
		}
	})
	return func() {
		t.Helper()
		looks := end()
		if looks == 0 {
			t.Error("the watch never looked")
		}
		for i, c := range containers {
			if len(on[i]) > 1 {
				t.Errorf("%s moved: %q", c.Name(), on[i])
			}
		}
		t.Logf("measured: %d containers looked at %d times", len(containers), looks)
	}
}

func overlap(a, b string) bool {
	x, errX := cpuset.Parse(a)
	y, errY := cpuset.Parse(b)
	return errX != nil || errY != nil || !x.Intersection(y).IsEmpty()
}
