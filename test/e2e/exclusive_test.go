package e2e

import (
	"strings"
	"testing"
	"time"

	"nri-cpuset/test/e2e/node"
)

// sharedContainers runs one container of every kind that has no claim to CPUs of its own.
func (f *fixture) sharedContainers(t testing.TB) []*node.Container {
	t.Helper()
	return []*node.Container{
		f.run(t, "burstable", burstable),
		f.run(t, "besteffort", bestEffort),
		f.run(t, "fractional", fractional),
		f.run(t, "one-and-a-half", node.Guaranteed(1500, 64*mebibyte)),
	}
}

// way is a way in which the plugin can move the shared pool.
type way struct {
	name  string
	flags []string
}

var (
	byCgroups = way{name: "cgroups"}
	byRuntime = way{name: "runtime", flags: []string{"--cgroup-root", ""}}
)

// TestExclusive is the life of one exclusive container among shared ones.
func TestExclusive(t *testing.T) {
	for _, by := range []way{byCgroups, byRuntime} {
		t.Run("moving the shared pool by "+by.name, func(t *testing.T) { testExclusive(t, by) })
	}
}

func testExclusive(t *testing.T, by way) {
	f := start(t, node.Options{}, by.flags...)
	shared := f.sharedContainers(t)
	expectOn(t, "nobody is exclusive", f.all, shared...)
	before := kernelStates(t, shared)

	pod := f.pod(t, "exclusive", exclusive)
	expectOn(t, "its pod runs, its container is not created", f.all, shared...)
	pinned := create(t, pod)
	t.Logf("measured: CreateContainer of the exclusive container took %v, %d shared ones running", pinned.CreateTime.Round(10*time.Microsecond), len(shared))
	// The runtime makes the container's first process only when it is started. Everybody else is out of the way by now.
	expectOn(t, "the exclusive container is created, not started", f.rest, shared...)
	exposed := watchExposure(t, pinned, f.last, shared...)
	do(t, pinned.Start)

	if got := said(t, pinned, "Cpus_allowed_list"); got != f.last {
		t.Errorf("the exclusive container's first process could run on %s, want %s", got, f.last)
	}
	if got := said(t, pinned, "Mems_allowed_list"); got != f.mems {
		t.Errorf("the exclusive container's first process could use memory of the nodes %s, want %s", got, f.mems)
	}
	expectOn(t, "the exclusive container runs", f.last, pinned)
	expectOn(t, "the exclusive container runs", f.rest, shared...)
	kernel, err := pinned.Kernel()
	if err != nil {
		t.Fatal(err)
	}
	if kernel.QuotaMicros != -1 {
		t.Errorf("the exclusive container's quota is %d us, want none (-1)", kernel.QuotaMicros)
	}
	if kernel.Mems != f.mems {
		t.Errorf("the exclusive container's memory nodes are %s, want %s", kernel.Mems, f.mems)
	}
	if by.name == byCgroups.name { // the runtime cannot be asked for the pod's
		f.expectPodQuota(t, pod, -1)
	}
	for i, now := range kernelStates(t, shared) {
		if now.QuotaMicros != before[i].QuotaMicros || now.Mems != before[i].Mems {
			t.Errorf("%s: quota and memory nodes changed: %+v, before %+v", shared[i].Name(), now, before[i])
		}
	}
	late := f.run(t, "late", burstable)
	if got := said(t, late, "Cpus_allowed_list"); got != f.rest {
		t.Errorf("the first process of a shared container created later could run on %s, want %s", got, f.rest)
	}

	do(t, pod.Remove)
	exposed()
	shared = append(shared, late)
	took := expectSoonOn(t, "the exclusive container's pod is removed", f.all, shared...)
	t.Logf("measured: the shared pool had grown back %v after the pod was removed", took.Round(time.Millisecond))
	for i, now := range kernelStates(t, shared[:len(before)]) {
		now.CPUs = before[i].CPUs // see checkOn
		if now != before[i] {
			t.Errorf("%s: %+v after all, %+v before", shared[i].Name(), now, before[i])
		}
	}

	again := f.run(t, "again", exclusive)
	expectOn(t, "another exclusive container runs", f.last, again)
	expectOn(t, "another exclusive container runs", f.rest, shared...)
}

// TestMixedPod is a Guaranteed pod with an exclusive container and one that is not: it has CPUs of its own and shared ones.
func TestMixedPod(t *testing.T) {
	f := start(t, node.Options{})
	pod, err := f.RunPod(t.Context(), node.PodSpec{Name: "mixed", Containers: []node.ContainerSpec{
		{Name: "main", Resources: exclusive},
		{Name: "sidecar", Resources: fractional},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var containers [2]*node.Container
	for i, name := range []string{"main", "sidecar"} {
		if containers[i], err = pod.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		do(t, containers[i].Start)
	}
	main, sidecar := containers[0], containers[1]
	expectOn(t, "both run", f.last, main)
	expectOn(t, "both run", f.rest, sidecar)
	quotas := []int64{-1, 50_000}
	for i, kernel := range kernelStates(t, containers[:]) {
		if kernel.QuotaMicros != quotas[i] {
			t.Errorf("the quota of %s is %d us, want %d", containers[i].Name(), kernel.QuotaMicros, quotas[i])
		}
	}
	f.expectPodQuota(t, pod, 150_000) // it limits the sidecar too
}

// expectPodQuota asserts the quota of a pod's own cgroup, in microseconds of each 100 ms.
func (f *fixture) expectPodQuota(t testing.TB, pod *node.Pod, micros int64) {
	t.Helper()
	kernel, err := f.Cgroups.Read(pod.Cgroup)
	if err != nil {
		t.Fatal(err)
	}
	if kernel.QuotaMicros != micros {
		t.Errorf("the quota of pod %s is %d us, want %d", pod.Spec.Name, kernel.QuotaMicros, micros)
	}
}

// TestRestartInPlace: a container's CPUs are its pod's until the pod goes, so its next attempt comes back to them.
func TestRestartInPlace(t *testing.T) {
	f := start(t, node.Options{})
	shared := f.run(t, "shared", burstable)
	pod := f.pod(t, "exclusive", exclusive)
	first := create(t, pod)
	do(t, first.Start)
	expectOn(t, "the exclusive container runs", f.last, first)

	stays := watchStay(t, shared)
	do(t, first.Stop)
	second := create(t, pod)
	do(t, second.Start)
	if got := said(t, second, "Cpus_allowed_list"); got != f.last {
		t.Errorf("the second attempt's first process could run on %s, want %s", got, f.last)
	}
	do(t, first.Remove)
	time.Sleep(200 * time.Millisecond) // for the late events of the first attempt
	stays()
	expectOn(t, "the first attempt is removed", f.last, second)

	do(t, pod.Remove)
	expectSoonOn(t, "the pod is removed", f.all, shared)
}

// TestRefusal: a container that cannot have its CPUs is not created, and nobody else notices.
func TestRefusal(t *testing.T) {
	f := start(t, node.Options{})
	shared := f.sharedContainers(t)

	stays := watchStay(t, shared...)
	f.expectRefused(t, f.pod(t, "greedy", node.Guaranteed(2000, 64*mebibyte)))
	stays()

	pinned := f.run(t, "exclusive", exclusive)
	expectOn(t, "an exclusive container runs", f.last, pinned)
	stays = watchStay(t, append(shared, pinned)...)
	f.expectRefused(t, f.pod(t, "late", exclusive))
	stays()

	do(t, pinned.Pod().Remove)
	next := f.run(t, "next", exclusive)
	expectOn(t, "the CPU is free again", f.last, next)
	expectOn(t, "the CPU is free again, and taken", f.rest, shared...)
}

// TestUpdateShared: the kubelet changes the resources of a shared container, which must not give it its old CPUs back.
func TestUpdateShared(t *testing.T) {
	f := start(t, node.Options{})
	shared := f.run(t, "shared", burstable)
	pinned := create(t, f.pod(t, "exclusive", exclusive))
	exposed := watchExposure(t, pinned, f.last, shared)
	do(t, pinned.Start)
	expectOn(t, "the exclusive container runs", f.rest, shared)

	more := burstable
	more.MilliCPULimit, more.MemoryLimit = 3000, 96*mebibyte
	if err := shared.Update(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	kernel, err := shared.Kernel()
	if err != nil {
		t.Fatal(err)
	}
	if want := more.MilliCPULimit * 100; kernel.QuotaMicros != want {
		t.Errorf("the update did not arrive: the quota is %d us, want %d", kernel.QuotaMicros, want)
	}
	expectOn(t, "the shared container was updated", f.rest, shared)
	expectOn(t, "the shared container was updated", f.last, pinned)
	exposed()
}

// TestResize: a container is resized in place from a whole CPU to a part of one and back, and its CPU goes and comes with it.
func TestResize(t *testing.T) {
	f := start(t, node.Options{})
	shared := f.run(t, "shared", burstable)
	c := f.run(t, "resized", exclusive)
	expectOn(t, "it asks for a CPU", f.last, c)

	if err := c.Update(t.Context(), fractional); err != nil {
		t.Fatal(err)
	}
	expectSoonOn(t, "it asks for half a CPU", f.all, c, shared)
	if got := kernelStates(t, []*node.Container{c})[0].QuotaMicros; got != 50_000 {
		t.Errorf("it asks for half a CPU: its quota is %d us, want 50000", got)
	}
	f.expectPodQuota(t, c.Pod(), 50_000)

	if err := c.Update(t.Context(), exclusive); err != nil {
		t.Fatal(err)
	}
	expectOn(t, "it asks for a CPU again", f.last, c)
	expectOn(t, "it asks for a CPU again", f.rest, shared)
	if got := kernelStates(t, []*node.Container{c})[0].QuotaMicros; got != -1 {
		t.Errorf("it asks for a CPU again: its quota is %d us, want none (-1)", got)
	}
	f.expectPodQuota(t, c.Pod(), -1)

	if err := c.Update(t.Context(), node.Guaranteed(2000, 64*mebibyte)); err == nil || !strings.Contains(err.Error(), "UnexpectedAdmissionError") {
		t.Errorf("it asks for two CPUs where one can be given: %v; want an UnexpectedAdmissionError", err)
	}
	expectOn(t, "it was refused a second CPU", f.last, c)
	expectOn(t, "it was refused a second CPU", f.rest, shared)
}
