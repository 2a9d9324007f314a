package plugin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// What comes from outside may be enormous or malformed. None of it may panic or place anybody wrongly.
func TestHostileMessages(t *testing.T) {
	labels := map[string]string{}
	for i := range 1_000_000 {
		labels[fmt.Sprint(i)] = ""
	}
	long := strings.Repeat("x", 1<<20)
	for _, test := range []struct {
		name   string
		change func(pod *api.PodSandbox, ctr *api.Container)
	}{
		{"a million labels", func(pod *api.PodSandbox, _ *api.Container) { pod.Labels = labels }},
		{"a million annotations", func(pod *api.PodSandbox, ctr *api.Container) { pod.Annotations, ctr.Annotations = labels, labels }},
		{"an annotation of 1 MiB", func(pod *api.PodSandbox, ctr *api.Container) {
			pod.Annotations = map[string]string{exclusiveCPUsAnnotation: long}
			ctr.Annotations = map[string]string{assignmentAnnotation: long}
		}},
		{"names of 1 MiB", func(pod *api.PodSandbox, ctr *api.Container) {
			pod.Name, pod.Namespace, pod.Uid, ctr.Name = long, long, long, long
		}},
		{"names that are no UTF-8", func(pod *api.PodSandbox, ctr *api.Container) {
			pod.Name, pod.Namespace, ctr.Name = "\xff", "\xfe\n", "\x00\xc3"
		}},
		{"a cgroups path out of the hierarchy", func(_ *api.PodSandbox, ctr *api.Container) { ctr.Linux.CgroupsPath = "/../../etc/passwd" }},
		{"a cgroups path of 1 MiB", func(_ *api.PodSandbox, ctr *api.Container) { ctr.Linux.CgroupsPath = "/" + long }},
		{"a million devices", func(_ *api.PodSandbox, ctr *api.Container) {
			device := &api.LinuxDevice{Type: "c", Major: -1, Minor: 1 << 62}
			for range 1_000_000 {
				ctr.Linux.Devices = append(ctr.Linux.Devices, device)
			}
		}},
		{"a million huge page limits", func(_ *api.PodSandbox, ctr *api.Container) {
			for range 1_000_000 {
				ctr.Linux.Resources.HugepageLimits = append(ctr.Linux.Resources.HugepageLimits, &api.HugepageLimit{PageSize: "2MB", Limit: 1 << 63})
			}
		}},
		{"nothing", func(pod *api.PodSandbox, ctr *api.Container) { pod.Linux, ctr.Linux = nil, nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := open4(t, static1, func(o *Options) {
				o.CgroupRoot = tree(t, map[string]string{"cgroup.controllers": "cpuset", "kubepods/podx/x/cpuset.cpus": "0-3"})
			})
			pod, ctr := podOf("x", "/kubepods"), containerIn("x", 2048, 200000, "/kubepods")
			test.change(pod, ctr)
			if _, _, err := f.CreateContainer(t.Context(), pod, ctr); err != nil && !strings.Contains(err.Error(), "nri-cpuset refuses") {
				t.Fatal(err)
			}
			// What happens after the creation may fail, because there is no such cgroup, and may not panic: a panic comes back as an error.
			for _, err := range []error{
				f.PostCreateContainer(t.Context(), pod, ctr), f.StartContainer(t.Context(), pod, ctr), f.PostStartContainer(t.Context(), pod, ctr),
			} {
				if err != nil && strings.Contains(err.Error(), "internal error") {
					t.Error(err)
				}
			}
			if _, err := f.Synchronize(t.Context(), []*api.PodSandbox{pod}, []*api.Container{ctr}); err != nil {
				t.Error(err)
			}
			if err := f.Node().Check(); err != nil {
				t.Error(err)
			}
			f.Report()
		})
	}
}

func TestTenThousandContainers(t *testing.T) {
	f := open4(t, static1, nil)
	var pods []*api.PodSandbox
	var ctrs []*api.Container
	for i := range 10_000 {
		id := fmt.Sprintf("x%d", i)
		ctr := containerIn(id, 512, 50000, "/kubepods/burstable")
		ctr.State = api.ContainerState_CONTAINER_RUNNING
		pods, ctrs = append(pods, podOf(id, "/kubepods/burstable")), append(ctrs, ctr)
	}
	start := time.Now()
	if _, err := f.Synchronize(t.Context(), pods, ctrs); err != nil {
		t.Fatal(err)
	}
	t.Logf("Synchronize with 10,000 containers took %s", time.Since(start))
	f.run(t, "a", 2048, 200000, "/kubepods")
	f.wants(t, "a", "1-2")
	f.wants(t, "x9999", "0,3")
}

// A handler that panics refuses its request, and the plugin goes on.
func TestPanicIsARefusal(t *testing.T) {
	f := open4(t, static1, nil)
	err := f.handle(t.Context(), "Test", func() error { panic("a bug") })
	if err == nil || !strings.Contains(err.Error(), "a bug") {
		t.Errorf("a handler that panics answers %v", err)
	}
	f.run(t, "a", 2048, 200000, "/kubepods")
	f.wants(t, "a", "1-2")
}

// A request that cannot be decided in time is refused rather than answered too late.
func TestBudget(t *testing.T) {
	f := open4(t, static1, nil)
	f.lock <- struct{}{}
	_, _, err := f.CreateContainer(t.Context(), podOf("a", "/kubepods"), containerIn("a", 2048, 200000, "/kubepods"))
	if err == nil || !strings.Contains(err.Error(), "in time") {
		t.Errorf("while the lock is held CreateContainer answers %v", err)
	}
	<-f.lock
	f.run(t, "a", 2048, 200000, "/kubepods")
	f.wants(t, "a", "1-2")
}
