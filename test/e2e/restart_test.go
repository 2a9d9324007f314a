package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"nri-cpuset/test/e2e/cgroup"
	"nri-cpuset/test/e2e/node"
)

// TestPluginKilled: the plugin dies and comes back, and nobody moves who was placed.
func TestPluginKilled(t *testing.T) {
	f := start(t, node.Options{})
	shared := f.sharedContainers(t)
	pinned := f.run(t, "exclusive", exclusive)
	expectOn(t, "before", f.last, pinned)
	expectOn(t, "before", f.rest, shared...)

	for range 3 {
		stays := watchStay(t, append(shared, pinned)...)
		f.killPlugin(t)
		f.startPlugin(t)
		stays()
	}
	f.expectRefused(t, f.pod(t, "late", exclusive))
	do(t, pinned.Pod().Remove)
	expectSoonOn(t, "the exclusive container is gone", f.all, shared...)
}

// TestPluginAway is what happens on a node while the plugin is away, and when it is back.
func TestPluginAway(t *testing.T) {
	t.Run("containers are created", func(t *testing.T) {
		f := start(t, node.Options{})
		shared := f.run(t, "shared", burstable)
		pinned := f.run(t, "exclusive", exclusive)

		f.killPlugin(t)
		stays := watchStay(t, shared, pinned)
		// containerd forgets a plugin whose connection is lost, and creates without it: the container is on everybody's CPUs.
		stranger := f.run(t, "stranger", burstable)
		t.Logf("measured: CreateContainer with the plugin away took %v", stranger.CreateTime.Round(10*time.Microsecond))
		if got := said(t, stranger, "Cpus_allowed_list"); got != f.all {
			t.Errorf("a container created with the plugin away could run on %s; we know containerd to give it %s", got, f.all)
		}
		f.startPlugin(t)
		expectSoonOn(t, "the plugin is back", f.rest, stranger)
		stays()
		f.expectLogNames(t, stranger)
	})
	t.Run("an exclusive container is created", func(t *testing.T) {
		f := start(t, node.Options{})
		shared := f.run(t, "shared", burstable)
		f.killPlugin(t)
		late := f.run(t, "late", exclusive)
		if got := said(t, late, "Cpus_allowed_list"); got != f.all {
			t.Errorf("a container created with the plugin away could run on %s; we know containerd to give it %s", got, f.all)
		}
		f.startPlugin(t)
		expectSoonOn(t, "the plugin is back and pins it late", f.last, late)
		expectSoonOn(t, "the plugin is back and pins it late", f.rest, shared)
		f.expectLogNames(t, late)
	})
	t.Run("the exclusive container goes", func(t *testing.T) {
		f := start(t, node.Options{})
		shared := f.run(t, "shared", burstable)
		pinned := f.run(t, "exclusive", exclusive)
		expectOn(t, "before", f.rest, shared)
		f.killPlugin(t)
		do(t, pinned.Pod().Remove)
		f.startPlugin(t)
		expectSoonOn(t, "the plugin is back", f.all, shared)
		next := f.run(t, "next", exclusive)
		expectOn(t, "the CPU is given away again", f.last, next)
		expectOn(t, "the CPU is given away again", f.rest, shared)
	})
	t.Run("it hangs", func(t *testing.T) {
		f := start(t, node.Options{})
		shared := f.run(t, "shared", burstable)
		if err := f.plugin.Hang(); err != nil {
			t.Fatal(err)
		}
		// containerd waits for 2 s and then goes on without it.
		late := create(t, f.pod(t, "late", exclusive))
		t.Logf("measured: CreateContainer with the plugin hanging took %v", late.CreateTime.Round(time.Millisecond))
		do(t, late.Start)
		if got := said(t, late, "Cpus_allowed_list"); got != f.all {
			t.Errorf("a container created with the plugin hanging could run on %s; we know containerd to give it %s", got, f.all)
		}
		if err := f.plugin.Resume(); err != nil {
			t.Fatal(err)
		}
		expectSoonOn(t, "the plugin goes on and pins it late", f.last, late)
		expectSoonOn(t, "the plugin goes on and pins it late", f.rest, shared)
	})
	t.Run("a containerd that requires it creates nothing", func(t *testing.T) {
		f := start(t, node.Options{RequiredPlugins: []string{"nri-cpuset"}})
		f.killPlugin(t)
		pod := f.pod(t, "shared", burstable)
		_, err := pod.Create(t.Context(), "main")
		if err == nil || !strings.Contains(err.Error(), "nri-cpuset") {
			t.Fatalf("CreateContainer with the required plugin away: %v; want an error that names it", err)
		}
		t.Logf("containerd says: %v", err)
		f.startPlugin(t)
		c := create(t, pod)
		do(t, c.Start)
		expectOn(t, "the plugin is back", f.all, c)
	})
}

// TestContainerdKilled: containerd dies and comes back, the plugin connects again, and nobody moves.
func TestContainerdKilled(t *testing.T) {
	f := start(t, node.Options{})
	shared := f.sharedContainers(t)
	pinned := f.run(t, "exclusive", exclusive)
	stays := watchStay(t, append(shared, pinned)...)

	f.restartContainerd(t)
	f.expectRefused(t, f.pod(t, "late", exclusive))
	newcomer := f.run(t, "newcomer", burstable)
	if got := said(t, newcomer, "Cpus_allowed_list"); got != f.rest {
		t.Errorf("the first process of a shared container could run on %s, want %s", got, f.rest)
	}
	stays()

	do(t, pinned.Pod().Remove)
	shared = append(shared, newcomer)
	expectSoonOn(t, "the exclusive container is gone", f.all, shared...)
	next := f.run(t, "next", exclusive)
	expectOn(t, "another exclusive container runs", f.last, next)
	expectOn(t, "another exclusive container runs", f.rest, shared...)
}

// TestBothKilled: containerd and the plugin die together, and come back in either order.
func TestBothKilled(t *testing.T) {
	f := start(t, node.Options{})
	shared := f.sharedContainers(t)
	pinned := f.run(t, "exclusive", exclusive)
	stays := watchStay(t, append(shared, pinned)...)

	if err := f.KillContainerd(); err != nil {
		t.Fatal(err)
	}
	f.killPlugin(t)
	do(t, f.StartContainerd)
	f.startPlugin(t)
	f.expectRefused(t, f.pod(t, "late", exclusive))
	stays()
}

func (f *fixture) killPlugin(t testing.TB) {
	t.Helper()
	if err := f.plugin.Kill(); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) startPlugin(t testing.TB) {
	t.Helper()
	begin := time.Now()
	do(t, f.plugin.Start)
	t.Logf("measured: the plugin was ready %v after its start", time.Since(begin).Round(time.Millisecond))
}

// restartContainerd kills containerd, starts it again and waits for the plugin to have connected.
func (f *fixture) restartContainerd(t testing.TB) {
	t.Helper()
	if err := f.KillContainerd(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for f.plugin.Ready(ctx) == nil { // it has not noticed yet
		if ctx.Err() != nil {
			t.Fatal("the plugin says that it is ready though containerd has been gone for 10 s")
		}
		time.Sleep(time.Millisecond)
	}
	do(t, f.StartContainerd)
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	begin := time.Now()
	if err := f.plugin.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("measured: the plugin was connected again %v after containerd was back", time.Since(begin).Round(time.Millisecond))
}

// expectRefused asserts that the exclusive container of a pod is refused, with a text that lets a person act.
func (f *fixture) expectRefused(t testing.TB, pod *node.Pod) {
	t.Helper()
	begin := time.Now()
	c, err := pod.Create(t.Context(), "main")
	if err == nil {
		t.Errorf("%s was created; want a refusal", c.Name())
		return
	}
	t.Logf("measured: the refusal took %v: %v", time.Since(begin).Round(10*time.Microsecond), err)
	if !strings.Contains(err.Error(), "UnexpectedAdmissionError") {
		t.Errorf("pod %s: %v; want an UnexpectedAdmissionError", pod.Spec.Name, err)
	}
}

// expectLogNames asserts that the plugin has said something of a container's pod.
func (f *fixture) expectLogNames(t testing.TB, c *node.Container) {
	t.Helper()
	var about []string
	for line := range strings.Lines(f.plugin.Log()) {
		if strings.Contains(line, c.Pod().Spec.Name) {
			about = append(about, line)
		}
	}
	if len(about) == 0 {
		t.Errorf("the plugin's log does not name %s, which was created while it was away:\n%s", c.Name(), f.plugin.Log())
		return
	}
	t.Logf("the plugin says: %s", about[0])
}

// kernelStates reads the kernel's files of containers.
func kernelStates(t testing.TB, containers []*node.Container) []cgroup.State {
	t.Helper()
	states := make([]cgroup.State, len(containers))
	for i, c := range containers {
		var err error
		if states[i], err = c.Kernel(); err != nil {
			t.Fatal(err)
		}
	}
	return states
}
