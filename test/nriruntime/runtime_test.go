package nriruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/topology/cpuset"
)

const pluginName = "10-stub"

// testPlugin writes down what it hears, and answers as a test tells it to.
type testPlugin struct {
	stub stub.Stub

	mu     sync.Mutex
	events []string
	synced []*api.Container

	create func(*api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error)
	update func(*api.Container, *api.LinuxResources) []*api.ContainerUpdate
	stop   func(*api.Container) []*api.ContainerUpdate
	sync   func([]*api.Container) []*api.ContainerUpdate
}

func (p *testPlugin) hear(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, fmt.Sprintf(format, args...))
}

// heard returns what the plugin has heard since the last time.
func (p *testPlugin) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	events := p.events
	p.events = nil
	return events
}

func (p *testPlugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	var names []string
	for _, c := range containers {
		names = append(names, c.GetName()+" "+strings.ToLower(strings.TrimPrefix(c.GetState().String(), "CONTAINER_")))
	}
	slices.Sort(names)
	p.hear("Synchronize %d [%s]", len(pods), strings.Join(names, ", "))
	p.mu.Lock()
	p.synced = containers
	p.mu.Unlock()
	if p.sync == nil {
		return nil, nil
	}
	return p.sync(containers), nil
}

func (p *testPlugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.hear("RunPodSandbox %s", pod.GetName())
	return nil
}

func (p *testPlugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.hear("StopPodSandbox %s", pod.GetName())
	return nil
}

func (p *testPlugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.hear("RemovePodSandbox %s", pod.GetName())
	return nil
}

func (p *testPlugin) CreateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.hear("CreateContainer %s", c.GetName())
	if p.create == nil {
		return nil, nil, nil
	}
	return p.create(c)
}

func (p *testPlugin) PostCreateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.hear("PostCreateContainer %s", c.GetName())
	return nil
}

func (p *testPlugin) StartContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.hear("StartContainer %s", c.GetName())
	return nil
}

func (p *testPlugin) PostStartContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.hear("PostStartContainer %s", c.GetName())
	return nil
}

func (p *testPlugin) UpdateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container, r *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	p.hear("UpdateContainer %s", c.GetName())
	if p.update == nil {
		return nil, nil
	}
	return p.update(c, r), nil
}

func (p *testPlugin) PostUpdateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.hear("PostUpdateContainer %s", c.GetName())
	return nil
}

func (p *testPlugin) StopContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	p.hear("StopContainer %s", c.GetName())
	if p.stop == nil {
		return nil, nil
	}
	return p.stop(c), nil
}

func (p *testPlugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.hear("RemoveContainer %s", c.GetName())
	return nil
}

// connect connects the plugin, again if need be.
func (p *testPlugin) connect(t testing.TB, r *Runtime) {
	t.Helper()
	s, err := stub.New(p,
		stub.WithPluginIdx("10"), stub.WithPluginName("stub"), stub.WithSocketPath(r.SocketPath()), stub.WithOnClose(func() {}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.Background()); err != nil {
		t.Fatalf("connecting the plugin: %v", err)
	}
	t.Cleanup(s.Stop)
	p.stub = s
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.WaitPlugin(ctx, pluginName); err != nil {
		t.Fatal(err)
	}
}

// start starts a runtime of 8 CPUs with the plugin connected to it.
func start(t testing.TB, o Options, p *testPlugin) *Runtime {
	t.Helper()
	if o.CPUs.IsEmpty() {
		o.CPUs = cpus(t, "0-7")
	}
	r, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	p.connect(t, r)
	p.heard()
	return r
}

func cpus(t testing.TB, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func podSpec(t testing.TB, text string) kubepod.Pod {
	t.Helper()
	var p kubepod.Pod
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// simplePod is a pod with containers of these names that ask for nothing.
func simplePod(name string, containers ...string) kubepod.Pod {
	p := kubepod.Pod{Name: name}
	for _, c := range containers {
		p.Containers = append(p.Containers, kubepod.Container{Name: c})
	}
	return p
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func succeed(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// effectiveCPUs returns where the kernel lets each container with a cgroup run.
func effectiveCPUs(t testing.TB, r *Runtime) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, v := range must[Snapshot](t)(r.Snapshot()).Containers {
		got[v.Container.Name] = v.CPUs.String()
	}
	return got
}

func pin(list string) *api.ContainerAdjustment {
	a := &api.ContainerAdjustment{}
	a.SetLinuxCPUSetCPUs(list)
	a.SetLinuxCPUQuota(-1)
	a.AddAnnotation("nri-cpuset/assignment", list)
	return a
}

func move(id, list string) *api.ContainerUpdate {
	u := &api.ContainerUpdate{}
	u.SetContainerId(id)
	u.SetLinuxCPUSetCPUs(list)
	return u
}

func bothManners(t *testing.T, f func(*testing.T, Manner)) {
	for _, m := range []Manner{Containerd, CRIO} {
		t.Run(string(m), func(t *testing.T) { f(t, m) })
	}
}
