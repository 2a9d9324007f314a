package nriruntime

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
)

func TestCallFaults(t *testing.T) {
	for _, test := range []struct {
		name      string
		fault     func(*Call) error // of CreateContainer
		want      []string
		cpus      string // that the container gets
		connected bool
	}{
		{"delivered", (*Call).Deliver, []string{"CreateContainer c", "PostCreateContainer c"}, "0-1", true},
		{"lost", func(*Call) error { return nil }, []string{"PostCreateContainer c"}, "0-7", true},
		{"doubled", func(c *Call) error {
			if err := c.Deliver(); err != nil {
				return err
			}
			return c.Deliver()
		}, []string{"CreateContainer c", "CreateContainer c", "PostCreateContainer c"}, "0-1", true},
		{"late", func(c *Call) error {
			c.DeliverLater(20 * time.Millisecond)
			return nil
		}, []string{"PostCreateContainer c", "CreateContainer c"}, "0-7", true},
		{"answered too late, so that the plugin is dropped", func(c *Call) error {
			if err := c.Deliver(); err != nil {
				return err
			}
			return c.Expire()
		}, []string{"CreateContainer c"}, "0-7", false},
		{"disconnected", func(c *Call) error {
			c.Disconnect()
			return c.Deliver()
		}, nil, "0-7", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &testPlugin{}
			p.create = func(*api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
				return pin("0-1"), nil, nil
			}
			hooks := Hooks{Call: func(c *Call) error {
				if c.Method == "CreateContainer" {
					return test.fault(c)
				}
				return c.Deliver()
			}}
			r := start(t, Options{Hooks: hooks, RequestTimeout: 200 * time.Millisecond}, p)
			pod := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
			p.heard()
			c := must[*Container](t)(r.Create(pod, "c"))
			time.Sleep(50 * time.Millisecond)
			if diff := cmp.Diff(test.want, p.heard()); diff != "" {
				t.Errorf("events differ (-want +got):\n%s", diff)
			}
			if got := r.Connected(pluginName); got != test.connected {
				t.Errorf("Connected() = %v, want %v", got, test.connected)
			}
			if got := effectiveAfterStart(t, r, c); got != test.cpus {
				t.Errorf("the container may run on %s, want %s", got, test.cpus)
			}
		})
	}
}

func TestCallSubjects(t *testing.T) {
	var mu sync.Mutex
	got := map[string][2]string{}
	hooks := Hooks{Call: func(c *Call) error {
		mu.Lock()
		got[c.Method] = [2]string{c.Pod, c.Container}
		mu.Unlock()
		return c.Deliver()
	}}
	r := start(t, Options{Hooks: hooks}, &testPlugin{})
	pod := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
	c := must[*Container](t)(r.Create(pod, "c"))
	want := map[string][2]string{
		"Configure": {}, "Synchronize": {},
		"RunPodSandbox":       {pod.ID(), ""},
		"CreateContainer":     {pod.ID(), c.ID()},
		"PostCreateContainer": {pod.ID(), c.ID()},
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls differ (-want +got):\n%s", diff)
	}
}

// Whoever watches sees the container before it runs, and running, and gone.
func TestChanged(t *testing.T) {
	bothManners(t, func(t *testing.T, m Manner) {
		var mu sync.Mutex
		var seen []string
		hooks := Hooks{Changed: func(s Snapshot) {
			mu.Lock()
			defer mu.Unlock()
			state := "no container"
			for _, v := range s.Containers {
				state = "made on " + v.CPUs.String()
				if v.Running {
					state = "runs on " + v.CPUs.String()
				}
			}
			seen = append(seen, state)
		}}
		p := &testPlugin{}
		p.create = func(*api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
			return pin("0-1"), nil, nil
		}
		r := start(t, Options{Manner: m, Hooks: hooks}, p)
		pod := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
		c := must[*Container](t)(r.Create(pod, "c"))
		succeed(t, r.Start(c), r.Stop(c))
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]string{"no container", "made on 0-1", "runs on 0-1", "no container"}, seen); diff != "" {
			t.Errorf("changes differ (-want +got):\n%s", diff)
		}
	})
}

// The runtime's end in the middle of a plugin's handler: the call fails, no plugin is told, and after the restart the container is not there.
func TestDownInTheMiddle(t *testing.T) {
	bothManners(t, func(t *testing.T, m Manner) {
		p := &testPlugin{}
		inHandler, goOn := make(chan struct{}), make(chan struct{})
		var once atomic.Bool
		p.create = func(*api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
			if once.CompareAndSwap(false, true) {
				close(inHandler)
				<-goOn
			}
			return pin("0-1"), nil, nil
		}
		r := start(t, Options{Manner: m}, p)
		pod := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
		p.heard()
		result := make(chan error)
		go func() {
			_, err := r.Create(pod, "c")
			result <- err
		}()
		<-inHandler
		succeed(t, r.Restart())
		close(goOn)
		if err := <-result; err == nil {
			t.Error("Create() through the runtime's end = nil, want an error")
		}
		p.connect(t, r)
		if diff := cmp.Diff([]string{"CreateContainer c", "Synchronize 1 []"}, p.heard()); diff != "" {
			t.Errorf("events differ (-want +got):\n%s", diff)
		}
	})
}

func TestNRIVersion(t *testing.T) {
	for told, want := range map[string]string{"": adaptationVersion, "v0.11.0": "v0.11.0"} {
		p := &testPlugin{}
		start(t, Options{NRIVersion: told}, p)
		if got := p.stub.RuntimeNRIVersion(); got != want {
			t.Errorf("with the version %q the plugin is told %q, want %q", told, got, want)
		}
	}
}

func TestWaitPluginGivesUp(t *testing.T) {
	r := start(t, Options{}, &testPlugin{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := r.WaitPlugin(ctx, "10-other"); err == nil {
		t.Error("WaitPlugin for a plugin that never comes = nil, want an error")
	}
}

// BenchmarkPod is one pod with one container, from its creation to its removal: nine calls to the plugin.
func BenchmarkPod(b *testing.B) {
	p := &testPlugin{}
	p.create = func(*api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
		return pin("0-1"), nil, nil
	}
	r := start(b, Options{}, p)
	for b.Loop() {
		pod := must[*Pod](b)(r.RunPod(simplePod("p", "c")))
		c := must[*Container](b)(r.Create(pod, "c"))
		succeed(b, r.Start(c), r.Stop(c), r.StopPod(pod), r.Remove(c), r.RemovePod(pod))
		p.heard()
	}
}
