package vm

import (
	"path/filepath"
	"testing"
	"time"
)

// watchFence watches how the Burstable containers are taken off an exclusive container's CPUs, 2-3: by their class's cgroup, and not one by
// one; their own cpuset.cpus follows.
func (f *fixture) watchFence(t *testing.T) (stop func()) {
	t.Helper()
	burstable := f.shared[1]
	const taken = "2-3"
	byFence, early := 0, 0
	end := watch(t, func() {
		own, err := burstable.Kernel()
		if err != nil {
			return
		}
		class, err := f.Cgroups.Read(filepath.Join(f.Kubepods, "burstable"))
		if err != nil {
			return
		}
		// Read in this order, a container that had left before its class shows as such.
		switch {
		case class.CPUs == "" || overlap(class.CPUs, taken):
			if !overlap(own.CPUs, taken) {
				early++
			}
		case overlap(own.CPUs, taken):
			byFence++
		}
	})
	return func() {
		t.Helper()
		looks := end()
		if byFence == 0 || early > 0 {
			t.Errorf("in %d looks, the cgroup of the class Burstable alone kept %s off %s in %d, and had not closed before its own in %d; want some, and none",
				looks, burstable.Name(), taken, byFence, early)
		}
		t.Logf("measured: the cgroup of the class Burstable alone kept %s off %s in %d of %d looks", burstable.Name(), taken, byFence, looks)
	}
}

// waitOwn waits until the shared containers' own cpuset.cpus have followed their class's.
func (f *fixture) waitOwn(t *testing.T, want string) {
	t.Helper()
	begin := time.Now()
	for _, c := range f.shared {
		for {
			kernel, err := c.Kernel()
			if err == nil && kernel.CPUs == want {
				break
			}
			if time.Since(begin) > soon {
				t.Fatalf("%s: its own cpuset.cpus is %s after %v (%v), want %s", c.Name(), kernel.CPUs, soon, err, want)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}
