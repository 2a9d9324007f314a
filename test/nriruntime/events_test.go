package nriruntime

import (
	"errors"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
)

// TestEvents plays what a kubelet does and compares what a plugin hears of it with what it hears from the real runtimes.
func TestEvents(t *testing.T) {
	type script struct {
		name       string
		hooks      Hooks
		refuse     bool // the plugin refuses CreateContainer
		play       func(*testing.T, *Runtime)
		containerd []string
		crio       []string // nil: the same
	}
	life := func(t *testing.T, r *Runtime) {
		p := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
		c := must[*Container](t)(r.Create(p, "c"))
		succeed(t, r.Start(c), r.Stop(c), r.StopPod(p), r.Remove(c), r.RemovePod(p))
	}
	boom := errors.New("boom")
	failAt := func(where Point) Hooks {
		return Hooks{At: func(p Point, _ *Container) error {
			if p == where {
				return boom
			}
			return nil
		}}
	}
	createFails := func(t *testing.T, r *Runtime) {
		p := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
		if c, err := r.Create(p, "c"); err == nil {
			t.Errorf("Create() = %v, want an error", c)
		}
	}
	startFails := func(t *testing.T, r *Runtime) {
		p := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
		c := must[*Container](t)(r.Create(p, "c"))
		if err := r.Start(c); !errors.Is(err, boom) {
			t.Errorf("Start() = %v, want %v", err, boom)
		}
		succeed(t, r.RemovePod(p))
	}
	for _, s := range []script{
		{
			name: "a life", play: life,
			containerd: []string{
				"RunPodSandbox p", "CreateContainer c", "PostCreateContainer c", "StartContainer c", "PostStartContainer c",
				"StopContainer c", "StopPodSandbox p", "RemoveContainer c", "RemovePodSandbox p",
			},
		},
		{
			name: "removed without a stop",
			play: func(t *testing.T, r *Runtime) {
				p := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
				c := must[*Container](t)(r.Create(p, "c"))
				succeed(t, r.Start(c), r.Remove(c))
			},
			containerd: []string{
				"RunPodSandbox p", "CreateContainer c", "PostCreateContainer c", "StartContainer c", "PostStartContainer c",
				"StopContainer c", "RemoveContainer c",
			},
		},
		{
			name: "a pod removed with all it has",
			play: func(t *testing.T, r *Runtime) {
				p := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
				must[*Container](t)(r.Create(p, "c"))
				succeed(t, r.RemovePod(p))
			},
			// containerd does not stop a container that was never started; its removal does.
			containerd: []string{
				"RunPodSandbox p", "CreateContainer c", "PostCreateContainer c", "StopPodSandbox p", "StopContainer c", "RemoveContainer c", "RemovePodSandbox p",
			},
			crio: []string{
				"RunPodSandbox p", "CreateContainer c", "PostCreateContainer c", "StopContainer c", "StopPodSandbox p", "RemoveContainer c", "RemovePodSandbox p",
			},
		},
		{
			name: "an exit, told once",
			play: func(t *testing.T, r *Runtime) {
				p := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
				c := must[*Container](t)(r.Create(p, "c"))
				succeed(t, r.Start(c))
				r.Exit(c)
				r.Settle()
				succeed(t, r.Stop(c))
			},
			containerd: []string{
				"RunPodSandbox p", "CreateContainer c", "PostCreateContainer c", "StartContainer c", "PostStartContainer c", "StopContainer c",
			},
		},
		{
			name: "an exit that is told after the next attempt",
			play: func(t *testing.T, r *Runtime) {
				p := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
				c := must[*Container](t)(r.Create(p, "c"))
				succeed(t, r.Start(c))
				r.Exit(c)
				must[*Container](t)(r.Create(p, "c"))
				r.Settle()
			},
			containerd: []string{
				"RunPodSandbox p", "CreateContainer c", "PostCreateContainer c", "StartContainer c", "PostStartContainer c",
				"CreateContainer c", "PostCreateContainer c", "StopContainer c",
			},
		},
		{
			name: "a refusal, which CRI-O does not take back", refuse: true, play: createFails,
			containerd: []string{"RunPodSandbox p", "CreateContainer c", "StopContainer c", "RemoveContainer c"},
			crio:       []string{"RunPodSandbox p", "CreateContainer c"},
		},
		{
			name: "a creation that fails after the reply", hooks: failAt(Replied), play: createFails,
			containerd: []string{"RunPodSandbox p", "CreateContainer c", "StopContainer c", "RemoveContainer c"},
		},
		{
			name: "runc create fails: part of the creation on CRI-O", hooks: failAt(MakingTask),
			play: func(t *testing.T, r *Runtime) {
				p := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
				c, err := r.Create(p, "c")
				if err == nil {
					err = r.Start(c)
				}
				if !errors.Is(err, boom) {
					t.Errorf("Create() and Start() = %v, want %v", err, boom)
				}
			},
			containerd: []string{"RunPodSandbox p", "CreateContainer c", "PostCreateContainer c"},
			crio:       []string{"RunPodSandbox p", "CreateContainer c"},
		},
		{
			name: "a start that fails: CRI-O removes the container", hooks: failAt(Starting), play: startFails,
			containerd: []string{
				"RunPodSandbox p", "CreateContainer c", "PostCreateContainer c", "StartContainer c", "StopContainer c",
				"StopPodSandbox p", "RemoveContainer c", "RemovePodSandbox p",
			},
			crio: []string{
				"RunPodSandbox p", "CreateContainer c", "PostCreateContainer c", "StartContainer c", "StopContainer c",
				"RemoveContainer c", "StopPodSandbox p", "RemovePodSandbox p",
			},
		},
		{
			name: "a resize",
			play: func(t *testing.T, r *Runtime) {
				p := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
				c := must[*Container](t)(r.Create(p, "c"))
				succeed(t, r.Start(c), r.UpdateResources(c, nil, nil))
			},
			containerd: []string{
				"RunPodSandbox p", "CreateContainer c", "PostCreateContainer c", "StartContainer c", "PostStartContainer c",
				"UpdateContainer c", "PostUpdateContainer c",
			},
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			bothManners(t, func(t *testing.T, m Manner) {
				p := &testPlugin{}
				if s.refuse {
					p.create = func(*api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) { return nil, nil, boom }
				}
				r := start(t, Options{Manner: m, Hooks: s.hooks}, p)
				s.play(t, r)
				want := s.containerd
				if m == CRIO && s.crio != nil {
					want = s.crio
				}
				if diff := cmp.Diff(want, p.heard()); diff != "" {
					t.Errorf("events differ (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A plugin that comes late, or again, hears of what is there; of what was there before the runtime's restart some ends are never told.
func TestRestartOfTheRuntime(t *testing.T) {
	for _, test := range []struct {
		manner   Manner
		want     []string
		wantCPUs string // that Synchronize shows
	}{
		{Containerd, []string{"Synchronize 2 [created created, running running]", "StopContainer running"}, "2-3"},
		{CRIO, []string{
			"Synchronize 2 [created created, running running]", "StopContainer running", "StopContainer created", "StopPodSandbox p",
		}, "0-1"},
	} {
		t.Run(string(test.manner), func(t *testing.T) {
			p := &testPlugin{}
			p.create = func(*api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
				return pin("0-1"), nil, nil
			}
			r := start(t, Options{Manner: test.manner}, p)
			pod := must[*Pod](t)(r.RunPod(simplePod("p", "created", "running", "exited", "dies")))
			must[*Pod](t)(r.RunPod(simplePod("empty", "c")))
			containers := map[string]*Container{}
			for _, c := range pod.Spec.Containers {
				containers[c.Name] = must[*Container](t)(r.Create(pod, c.Name))
				if c.Name != "created" {
					succeed(t, r.Start(containers[c.Name]))
				}
			}
			if failed, err := p.stub.UpdateContainers([]*api.ContainerUpdate{move(containers["running"].ID(), "2-3")}); err != nil {
				t.Fatalf("UpdateContainers() = %v, %v", failed, err)
			}
			succeed(t, r.Stop(containers["exited"]))
			r.Down()
			if _, err := r.RunPod(simplePod("q", "c")); !errors.Is(err, ErrDown) {
				t.Errorf("RunPod while down = %v, want %v", err, ErrDown)
			}
			r.Exit(containers["dies"]) // nobody is told, now or later
			succeed(t, r.Up())
			p.heard()
			p.connect(t, r)
			succeed(t, r.Stop(containers["running"]), r.StopPod(pod))
			r.Settle()
			if diff := cmp.Diff(test.want, p.heard()); diff != "" {
				t.Errorf("events differ (-want +got):\n%s", diff)
			}
			for _, c := range p.synced {
				if got := c.GetAnnotations()["nri-cpuset/assignment"]; got != "0-1" {
					t.Errorf("Synchronize shows %s with the annotation %q, want 0-1", c.GetName(), got)
				}
				if got := c.GetLinux().GetResources().GetCpu().GetQuota().GetValue(); got != -1 {
					t.Errorf("Synchronize shows %s with quota %d, want -1", c.GetName(), got)
				}
				if got := c.GetLinux().GetResources().GetCpu().GetCpus(); c.GetName() == "running" && got != test.wantCPUs {
					t.Errorf("Synchronize shows a container moved to 2-3 with %s, want %s", got, test.wantCPUs)
				}
			}
		})
	}
}

func TestDeadPluginIsNotWaitedFor(t *testing.T) {
	p := &testPlugin{}
	r := start(t, Options{}, p)
	r.Disconnect()
	for r.Connected(pluginName) {
		time.Sleep(time.Millisecond)
	}
	pod := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
	c := must[*Container](t)(r.Create(pod, "c"))
	if got, want := effectiveAfterStart(t, r, c), "0-7"; got != want {
		t.Errorf("a container without a plugin may run on %s, want %s", got, want)
	}
	p.connect(t, r)
	if diff := cmp.Diff([]string{"Synchronize 1 [c running]"}, p.heard()); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
}

func effectiveAfterStart(t *testing.T, r *Runtime, c *Container) string {
	t.Helper()
	succeed(t, r.Start(c))
	return effectiveCPUs(t, r)[c.Name]
}
