// Package e2e tries nri-cpuset on a real containerd with real processes. What it asserts, it reads from the kernel's files.
package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/cpuset"

	"nri-cpuset/test/e2e/cgroup"
	"nri-cpuset/test/e2e/node"
	"nri-cpuset/test/e2e/sandbox"
)

var box sandbox.Sandbox

func TestMain(m *testing.M) {
	os.Exit(sandbox.Run(func(s sandbox.Sandbox) int {
		box = s
		return m.Run()
	}))
}

const mebibyte = 1 << 20

// The containers of the tests, by what they ask for.
var (
	exclusive  = node.Guaranteed(1000, 64*mebibyte)
	fractional = node.Guaranteed(500, 64*mebibyte)
	burstable  = node.Resources{MilliCPURequest: 1000, MilliCPULimit: 2000, MemoryRequest: 32 * mebibyte, MemoryLimit: 64 * mebibyte}
	bestEffort = node.Resources{}
)

// fixture is a node for one test, with the plugin, and how its CPUs are divided: all but the last one are reserved, so that any machine has
// exactly one CPU to give away, and who gets it is known.
type fixture struct {
	*node.Node
	plugin *node.Plugin

	all  string // the machine's CPUs: the shared pool while nobody is exclusive
	last string // what the one exclusive container gets
	rest string // the shared pool while it has it
	mems string // the machine's memory nodes: everybody's
}

func start(t testing.TB, opts node.Options, flags ...string) *fixture {
	t.Helper()
	online, err := cgroup.OnlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	all, err := cpuset.Parse(online)
	if err != nil {
		t.Fatal(err)
	}
	if all.Size() < 2 {
		t.Fatalf("this machine has the CPUs %s: at least 2 are needed, one to share and one to give away", online)
	}
	last := cpuset.New(all.List()[all.Size()-1])
	f := &fixture{all: online, last: last.String(), rest: all.Difference(last).String()}

	if opts.Bin = os.Getenv("E2E_BIN"); opts.Bin == "" {
		opts.Bin = "bin"
	}
	if f.Node, err = node.Start(t.Context(), box, opts); err != nil {
		t.Fatalf("start a node: %v", err)
	}
	t.Cleanup(func() { f.close(t) })
	top, err := f.Cgroups.Read(f.Kubepods)
	if err != nil {
		t.Fatal(err)
	}
	f.mems = top.Mems
	config := fmt.Sprintf("cpuManagerPolicy: static\nreservedSystemCPUs: %q\n", f.rest)
	if f.plugin, err = f.StartPlugin(t.Context(), config, flags...); err != nil {
		t.Fatalf("start the plugin: %v", err)
	}
	return f
}

func (f *fixture) close(t testing.TB) {
	if t.Failed() {
		t.Logf("containerd's log, without its start:\n%s", withoutLines(f.ContainerdLog(), "loading plugin"))
		if f.plugin != nil {
			t.Logf("the plugin's log:\n%s", f.plugin.Log())
		}
	}
	if err := f.Close(); err != nil {
		t.Errorf("end the node: %v", err)
	}
}

// withoutLines returns a text without the lines that contain part.
func withoutLines(text, part string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, part) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// pod runs a pod of one container, which is not created yet.
func (f *fixture) pod(t testing.TB, name string, r node.Resources) *node.Pod {
	t.Helper()
	p, err := f.RunPod(t.Context(), node.PodSpec{Name: name, Containers: []node.ContainerSpec{{Name: "main", Resources: r}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// create creates the container of a pod.
func create(t testing.TB, p *node.Pod) *node.Container {
	t.Helper()
	c, err := p.Create(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs a pod of one container.
func (f *fixture) run(t testing.TB, name string, r node.Resources) *node.Container {
	t.Helper()
	c := create(t, f.pod(t, name, r))
	do(t, c.Start)
	return c
}

// do calls what must not fail.
func do(t testing.TB, f func(context.Context) error) {
	t.Helper()
	if err := f(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// said returns what a container said of itself, in its first instructions.
func said(t testing.TB, c *node.Container, key string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	value, err := c.Says(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// expectOn asserts that the kernel lets containers run on exactly these CPUs: their cgroups, and every process in them.
func expectOn(t testing.TB, when, cpus string, containers ...*node.Container) {
	t.Helper()
	for _, c := range containers {
		if err := checkOn(c, cpus); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
}

// expectSoonOn is expectOn for what may take a moment, and returns how long it took.
func expectSoonOn(t testing.TB, when, cpus string, containers ...*node.Container) time.Duration {
	t.Helper()
	const limit = 5 * time.Second
	begin := time.Now()
	for _, c := range containers {
		for {
			err := checkOn(c, cpus)
			if err == nil {
				break
			}
			if time.Since(begin) > limit {
				t.Errorf("%s, after %v still: %v", when, limit, err)
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	return time.Since(begin)
}

// checkOn looks at what counts: where the kernel lets the cgroup run. In cgroup v1 its cpuset.cpus is the same; in v2 it is a wish, which a
// cgroup above may narrow.
func checkOn(c *node.Container, want string) error {
	kernel, err := c.Kernel()
	if err != nil {
		return err
	}
	processes, err := c.AllowedCPUs()
	if err != nil {
		return err
	}
	if kernel.Effective != want || processes != want {
		return fmt.Errorf("%s: its effective CPUs are %s (cpuset.cpus %s) and those of its processes %s; want %s",
			c.Name(), kernel.Effective, kernel.CPUs, processes, want)
	}
	return nil
}
