package integration

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"nri-cpuset/plugin"
	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/test/machine"
	"nri-cpuset/test/nriruntime"
	"nri-cpuset/test/oracle"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

const (
	machineName = "server-2s-2n-12c-24t"
	pluginName  = "10-nri-cpuset"
	patience    = 10 * time.Second // for what happens in the background
)

// node is a machine with a runtime and, while one is started, a plugin.
type node struct {
	t       testing.TB
	rt      *nriruntime.Runtime
	oracle  *oracle.Oracle
	machine *topology.Machine
	options plugin.Options

	stop     func() // of the plugin; nil while none runs
	heldBack int    // how often the plugin said no for the moment
}

// setup is what a test wants to be different.
type setup struct {
	runtime nriruntime.Options
	direct  bool   // the plugin writes cgroup files
	config  string // of the plugin; empty: static with CPUs 0 and 12 reserved
}

const defaultConfig = "cpuManagerPolicy: static\nreservedSystemCPUs: \"0,12\"\n"

// everyWay runs a test in both manners, with updates through the runtime and with direct writes to cgroups of either version.
func everyWay(t *testing.T, f func(*testing.T, setup)) {
	for _, manner := range []nriruntime.Manner{nriruntime.Containerd, nriruntime.CRIO} {
		for way, s := range map[string]setup{
			"through the runtime": {},
			"cgroup v2":           {direct: true, runtime: nriruntime.Options{CgroupDriver: kubepod.Systemd}},
			"cgroup v1":           {direct: true, runtime: nriruntime.Options{CgroupV1: true}},
		} {
			s.runtime.Manner = manner
			t.Run(string(manner)+", "+way, func(t *testing.T) {
				t.Parallel() // most of the time is spent waiting for what the plugin does in the background
				f(t, s)
			})
		}
	}
}

func newNode(t testing.TB, s setup) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{t: t, options: plugin.Options{
		ConfigFile: filepath.Join(dir, "config.yaml"), NodeName: "node", Index: "10",
		Sysfs: filepath.Join(dir, "sys"), StateDir: filepath.Join(dir, "state"),
	}}
	succeed(t, machine.Unpack(filepath.Join("../conformance/testdata/sysfs", machineName+".tar.gz"), n.options.Sysfs))
	var err error
	if n.machine, err = topology.Read(n.options.Sysfs); err != nil {
		t.Fatal(err)
	}
	if s.config == "" {
		s.config = defaultConfig
	}
	n.configure(s.config)
	n.oracle = oracle.New(cpus(t, "0,12"))
	n.oracle.Report = func(violation string) { t.Logf("VIOLATION, here: %s", violation) }
	n.oracle.Away(true)

	o := s.runtime
	o.CPUs, o.Mems, o.MemoryBytes = n.machine.Online, n.machine.NodeIDs(), 64<<30
	o.CgroupFiles = s.direct
	o.Hooks.Changed = n.oracle.Changed
	if n.rt, err = nriruntime.Start(o); err != nil {
		t.Fatal(err)
	}
	n.options.Socket = n.rt.SocketPath()
	if s.direct {
		n.options.CgroupRoot = n.rt.CgroupRoot()
	}
	t.Cleanup(func() {
		n.stopPlugin()
		if err := n.rt.Close(); err != nil {
			t.Error(err)
		}
		for _, v := range n.oracle.Violations() {
			t.Errorf("violation: %s", v)
		}
		if n.heldBack > 0 {
			t.Logf("the plugin said no for the moment %d times", n.heldBack)
		}
	})
	return n
}

func (n *node) configure(text string) {
	n.t.Helper()
	// By rename, so that no half of it is ever read.
	next := n.options.ConfigFile + ".next"
	succeed(n.t, os.WriteFile(next, []byte(text), 0o600), os.Rename(next, n.options.ConfigFile))
}

// startPlugin starts the plugin in this process, and waits until it is there.
func (n *node) startPlugin() {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	o := n.options
	o.Log = quiet(n.t)
	ended := make(chan error, 1)
	go func() { ended <- plugin.Run(ctx, o) }()
	n.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			n.t.Errorf("the plugin ended with: %v", err)
		}
	}
	n.waitPlugin()
}

// startProcess starts the plugin as a process of its own, and waits until it is there. Its end is a SIGKILL.
func (n *node) startProcess() {
	n.t.Helper()
	o := n.options
	text, err := json.Marshal(processOptions{o.ConfigFile, o.NodeName, o.Socket, o.Index, o.Sysfs, o.CgroupRoot, o.StateDir})
	succeed(n.t, err)
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), asPlugin+"="+string(text))
	log := &lockedBuffer{}
	command.Stdout, command.Stderr = log, log
	succeed(n.t, command.Start())
	var once sync.Once
	n.stop = func() {
		once.Do(func() {
			if err := command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				n.t.Errorf("killing the plugin: %v", err)
			}
			_ = command.Wait() // it was killed
			if n.t.Failed() {
				n.t.Logf("the plugin said:\n%s", log)
			}
		})
	}
	n.waitPlugin()
}

func (n *node) waitPlugin() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	succeed(n.t, n.rt.WaitPlugin(ctx, pluginName))
	n.settle()
	n.oracle.Away(false)
}

// stopPlugin ends the plugin, however it was started, and waits until the runtime has noticed.
func (n *node) stopPlugin() {
	n.t.Helper()
	if n.stop == nil {
		return
	}
	n.oracle.Away(true)
	n.stop()
	n.stop = nil
	n.eventually("the runtime does not notice that the plugin has gone", func() bool { return !n.rt.Connected(pluginName) }, func() string { return "" })
}

// settle waits until everything is as it has to be, and fails the test if that does not come about.
func (n *node) settle() {
	n.t.Helper()
	n.rt.Settle()
	var wrong []string
	n.eventually("what is wrong is not put right", func() bool {
		wrong = n.oracle.Settled(n.snapshot())
		return len(wrong) == 0
	}, func() string { return strings.Join(wrong, "\n") })
}

// eventually waits for something that happens in the background.
func (n *node) eventually(complaint string, done func() bool, details func() string) {
	n.t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			n.t.Fatalf("%s after %s:\n%s", complaint, patience, details())
		}
	}
}

func (n *node) snapshot() nriruntime.Snapshot {
	n.t.Helper()
	s, err := n.rt.Snapshot()
	succeed(n.t, err)
	return s
}

// view returns what the kernel has of a container.
func (n *node) view(c *nriruntime.Container) nriruntime.View {
	n.t.Helper()
	for _, v := range n.snapshot().Containers {
		if v.Container == c {
			return v
		}
	}
	n.t.Fatalf("%s has no cgroup", c)
	return nriruntime.View{}
}

// wantCPUs waits until the kernel lets a container run on these CPUs and no others.
func (n *node) wantCPUs(c *nriruntime.Container, want string) {
	n.t.Helper()
	n.eventually(c.String()+" may not run on "+want, func() bool { return n.view(c).CPUs.String() == want }, func() string {
		return "it may run on " + n.view(c).CPUs.String()
	})
}

// wantPool waits until a shared container may run on all CPUs that nobody has for himself.
func (n *node) wantPool(c *nriruntime.Container) {
	n.t.Helper()
	pool := n.machine.Online
	for _, v := range n.snapshot().Containers {
		if oracle.Exclusive(&v.Container.Pod.Spec, v.Asks) > 0 {
			pool = pool.Difference(v.CPUs)
		}
	}
	n.wantCPUs(c, pool.String())
}

// run runs a pod, creates and starts its containers, and takes its init containers to their end.
func (n *node) run(spec kubepod.Pod) (*nriruntime.Pod, map[string]*nriruntime.Container, error) {
	pod, err := n.rt.RunPod(spec)
	if err != nil {
		return nil, nil, err
	}
	containers := map[string]*nriruntime.Container{}
	for i, c := range spec.Ordered() {
		ctr, err := n.rt.Create(pod, c.Name)
		if err != nil {
			return pod, containers, err
		}
		containers[c.Name] = ctr
		if ctr, err = n.start(pod, ctr); err != nil {
			return pod, containers, err
		}
		containers[c.Name] = ctr
		if i < len(spec.InitContainers) && !c.Sidecar() {
			n.rt.Exit(ctr)
			n.rt.Settle()
		}
	}
	return pod, containers, nil
}

// start starts a container. Where the plugin does not let it go yet it is created again after a while, as the kubelet does.
func (n *node) start(pod *nriruntime.Pod, c *nriruntime.Container) (*nriruntime.Container, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := n.rt.Start(c)
		if !forNow(err) || time.Now().After(deadline) {
			return c, err
		}
		n.heldBack++
		again, err := n.rt.Create(pod, c.Name)
		if err != nil {
			return c, err
		}
		if err := n.rt.Remove(c); err != nil {
			return again, err
		}
		c = again
	}
}

// forNow tells whether an error of the plugin's says no for the moment only: others could still run on the container's CPUs, or this machine
// is so busy that the plugin did not come to a decision in time.
func forNow(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "start yet") || strings.Contains(err.Error(), "could not decide in time"))
}

// mustRun is run for a pod that has to be admitted.
func (n *node) mustRun(text string) (*nriruntime.Pod, map[string]*nriruntime.Container) {
	n.t.Helper()
	pod, containers, err := n.run(podSpec(n.t, text))
	succeed(n.t, err)
	return pod, containers
}

// end ends a pod as the kubelet does: containers first.
func (n *node) end(pod *nriruntime.Pod, containers map[string]*nriruntime.Container) error {
	var errs []error
	for _, c := range containers {
		errs = append(errs, n.rt.Stop(c))
	}
	errs = append(errs, n.rt.StopPod(pod))
	return errors.Join(append(errs, n.rt.RemovePod(pod))...)
}

func podSpec(t testing.TB, text string) kubepod.Pod {
	t.Helper()
	var p kubepod.Pod
	succeed(t, json.Unmarshal([]byte(text), &p))
	return p
}

func cpus(t testing.TB, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	succeed(t, err)
	return s
}

func succeed(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// testHook writes a log to the test's.
type testHook struct {
	t         testing.TB
	formatter logrus.Formatter
}

func (*testHook) Levels() []logrus.Level { return logrus.AllLevels }

func (h *testHook) Fire(e *logrus.Entry) error {
	text, err := h.formatter.Format(e)
	if err == nil {
		h.t.Log(strings.TrimSpace(string(text)))
	}
	return err
}

// lockedBuffer collects what a process writes.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
