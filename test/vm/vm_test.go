// Package vm tries nri-cpuset on a machine that few have under their desk: 2 packages, 4 NUMA nodes, 2 threads a core, and cgroup v2. The
// machine is a virtual one (see run); containerd, runc and the plugin in it are the real ones. Every assertion is read from the kernel's files
// and from what processes see of themselves.
//
// Making a container takes seconds there, so all tests share one node. What they begin with, they leave: the plugin, a pod of each QoS class
// that has no claim to CPUs of its own, and nobody else.
package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"nri-cpuset/test/e2e/node"
	"nri-cpuset/test/e2e/sandbox"
)

const (
	// The machine: threads 0-1, 2-3, ... are cores, 0-3, 4-7, ... NUMA nodes, 0-7 and 8-15 packages.
	allCPUs = "0-15"
	allMems = "0-3"

	mebibyte = 1 << 20

	// static is the configuration that most tests begin with. 0-1 is reserved, so the first NUMA node has one core to give away. There is no
	// audit: what is seen is no repair.
	static = pinning + "auditInterval: 0s\n"
	none   = "cpuManagerPolicy: none\nauditInterval: 0s\n"

	pinning = "cpuManagerPolicy: static\nreservedSystemCPUs: \"0-1\"\n"
)

var box sandbox.Sandbox

func TestMain(m *testing.M) {
	os.Exit(sandbox.Run(func(s sandbox.Sandbox) int {
		box = s
		return m.Run()
	}))
}

func TestNode(t *testing.T) {
	f := start(t)
	for _, tt := range []struct {
		name   string
		config string
		test   func(*fixture, *testing.T)
	}{
		{"an exclusive container", static, (*fixture).testExclusive},
		{"an exclusive container in a Burstable pod", static + "exclusiveScope: container\n", (*fixture).testBurstable},
		// The kubelet writes a pod's quota after its container's, and tells nobody: only the audit sees that.
		{"a resize in place", pinning + "auditInterval: 3s\n", (*fixture).testResize},
		{"full-pcpus-only", static + "cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n", (*fixture).testFullCores},
		{"distribute-cpus-across-numa", static + "cpuManagerPolicyOptions: {distribute-cpus-across-numa: \"true\"}\n", (*fixture).testDistributed},
		{"single-numa-node and memory", static + singleNode, (*fixture).testSingleNode},
		{"a shared CPU goes and comes", static, (*fixture).testSharedCPU},
		{"a reserved CPU goes and comes", static, (*fixture).testReservedCPU},
		{"an exclusive CPU goes and comes", static, (*fixture).testExclusiveCPU},
		{"the policy changes", none, (*fixture).testPolicy},
		{"the plugin is killed", static, (*fixture).testKilled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer f.clear(t)
			f.configure(t, tt.config)
			tt.test(f, t)
		})
	}
}

// fixture is the node.
type fixture struct {
	*node.Node
	plugin    *node.Plugin
	configMap configMap

	shared  []*node.Container // who is always there, and never exclusive
	resting []seen            // what they have while nobody is exclusive
	others  []*node.Pod       // the current test's
}

func start(t *testing.T) *fixture {
	t.Helper()
	bin := os.Getenv("E2E_BIN")
	begin := time.Now()
	n, err := node.Start(t.Context(), box, node.Options{Bin: bin})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Node: n, configMap: configMap{dir: filepath.Join(box.Dir, "configmap")}}
	t.Cleanup(func() {
		if t.Failed() && f.plugin != nil {
			t.Logf("the plugin's log:\n%s", f.plugin.Log())
		}
		if err := f.Close(); err != nil {
			t.Errorf("end the node: %v", err)
		}
	})
	if err := f.configMap.write(static); err != nil {
		t.Fatal(err)
	}
	if f.plugin, err = f.StartPlugin(t.Context(), static, "--config", f.configMap.path()); err != nil {
		t.Fatal(err)
	}
	t.Logf("measured: containerd and the plugin were ready after %v", since(begin))
	begin = time.Now()
	for _, pod := range []struct {
		name string
		node.Resources
	}{
		{"besteffort", node.Resources{}},
		{"burstable", node.Resources{MilliCPURequest: 1000, MilliCPULimit: 2000, MemoryRequest: 32 * mebibyte, MemoryLimit: 64 * mebibyte}},
		{"fractional", node.Guaranteed(1500, 64*mebibyte)},
	} {
		f.shared = append(f.shared, f.run(t, pod.name, pod.Resources))
	}
	f.others = nil
	t.Logf("measured: %d pods, each of a container, took %v", len(f.shared), since(begin))
	for _, c := range f.shared {
		s, err := f.look(c)
		if err != nil {
			t.Fatal(err)
		}
		f.resting = append(f.resting, s)
	}
	f.expect(t, "nobody is exclusive", allCPUs)
	return f
}

// clear removes the test's pods, and makes sure that those who stay have everything back.
func (f *fixture) clear(t *testing.T) {
	t.Helper()
	for _, pod := range f.others {
		do(t, pod.Remove)
	}
	f.others = nil
	f.expectSoon(t, "the test's pods are removed", allCPUs)
}

// pod runs a pod of one container, which is not created yet.
func (f *fixture) pod(t *testing.T, name string, r node.Resources) *node.Pod {
	t.Helper()
	p, err := f.RunPod(t.Context(), node.PodSpec{Name: name, Containers: []node.ContainerSpec{{Name: "main", Resources: r}}})
	if err != nil {
		t.Fatal(err)
	}
	f.others = append(f.others, p)
	return p
}

// create creates the container of a pod.
func create(t *testing.T, p *node.Pod) *node.Container {
	t.Helper()
	c, err := p.Create(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs a pod of one container.
func (f *fixture) run(t *testing.T, name string, r node.Resources) *node.Container {
	t.Helper()
	c := create(t, f.pod(t, name, r))
	do(t, c.Start)
	return c
}

// remove removes a pod before the test ends.
func (f *fixture) remove(t *testing.T, p *node.Pod) {
	t.Helper()
	do(t, p.Remove)
	f.others = slices.DeleteFunc(f.others, func(other *node.Pod) bool { return other == p })
}

// exclusive asks for so many whole CPUs, in a Guaranteed pod.
func exclusive(cpus int64) node.Resources { return node.Guaranteed(cpus*1000, 64*mebibyte) }

// do calls what must not fail.
func do(t *testing.T, f func(context.Context) error) {
	t.Helper()
	if err := f(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func since(begin time.Time) time.Duration { return time.Since(begin).Round(time.Millisecond) }

// reported is what the plugin says of itself, as far as a test has to wait for it.
type reported struct {
	Config      string
	ConfigError string
	Containers  []struct{ Unsettled string }
}

func (r reported) unsettled() bool {
	return slices.ContainsFunc(r.Containers, func(c struct{ Unsettled string }) bool { return c.Unsettled != "" })
}

func (f *fixture) reported(t *testing.T) (r reported) {
	t.Helper()
	text, err := f.plugin.Get(t.Context(), "/api/v1/state")
	for begin := time.Now(); err != nil && time.Since(begin) < soon; { // it answers within 2 s, unless the host has much else to do
		text, err = f.plugin.Get(t.Context(), "/api/v1/state")
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// configure changes the configuration and waits until the plugin has it in force, or says that it is wrong.
func (f *fixture) configure(t *testing.T, config string) {
	t.Helper()
	if config == f.configMap.text {
		return
	}
	before := f.reported(t)
	if err := f.configMap.write(config); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for r := f.reported(t); r.Config == before.Config && r.ConfigError == before.ConfigError; r = f.reported(t) {
		if time.Since(begin) > soon {
			t.Fatalf("%v after a change of the configuration the plugin still says %q (error: %q); it is now\n%s", soon, before.Config, before.ConfigError, config)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("measured: the plugin had read the new configuration after %v", since(begin))
}

// configMap is a file as the kubelet mounts it from a ConfigMap: a link to a link, and the latter is replaced.
type configMap struct {
	dir  string
	text string
	n    int
}

func (m *configMap) path() string { return filepath.Join(m.dir, "config.yaml") }

func (m *configMap) write(text string) error {
	before := fmt.Sprintf("..version%d", m.n)
	m.n++
	now := fmt.Sprintf("..version%d", m.n)
	if err := os.MkdirAll(filepath.Join(m.dir, now), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(m.dir, now, "config.yaml"), []byte(text), 0o600); err != nil {
		return err
	}
	next := filepath.Join(m.dir, "..data_tmp")
	if err := os.Symlink(now, next); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(m.dir, "..data")); err != nil {
		return err
	}
	m.text = text
	if m.n == 1 {
		return os.Symlink("..data/config.yaml", m.path())
	}
	return os.RemoveAll(filepath.Join(m.dir, before))
}
