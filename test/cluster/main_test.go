// Package cluster tries nri-cpuset with the real Kubernetes. What it asserts, it reads from the kernel's files, and where a user looks, from
// what Kubernetes says.
package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/cpuset"

	"nri-cpuset/test/cluster/kube"
	"nri-cpuset/test/e2e/cgroup"
	"nri-cpuset/test/e2e/sandbox"
)

// bin is where make has put the programs.
const bin = "bin"

// patience is how long a test waits for what Kubernetes does in seconds, on a machine that may be busy.
const patience = 2 * time.Minute

var box sandbox.Sandbox

func TestMain(m *testing.M) {
	os.Exit(kube.Run(func(s sandbox.Sandbox) int {
		box = s
		return m.Run()
	}))
}

// fixture is a node, and how its CPUs are divided: all but those of the last core are reserved, so that any machine has exactly one core to
// give away, and who gets it is known.
type fixture struct {
	*kube.Node
	all   string // the machine's CPUs: the shared pool while nobody is exclusive
	last  string // what the one exclusive container gets: a core
	rest  string // the shared pool while it has it
	whole int64  // the CPUs of a core, which is what exclusive containers ask for
}

func fixtureOf(t *testing.T, n *kube.Node) *fixture {
	t.Helper()
	online, err := cgroup.OnlineCPUs()
	must(t, err)
	all, err := cpuset.Parse(online)
	must(t, err)
	siblings, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", slices.Max(all.List())))
	must(t, err)
	last, err := cpuset.Parse(strings.TrimSpace(string(siblings)))
	must(t, err)
	if all.Equals(last) {
		t.Fatalf("this machine has the CPUs %s, of one core: at least 2 are needed, one to share and one to give away", online)
	}
	return &fixture{Node: n, all: online, last: last.String(), rest: all.Difference(last).String(), whole: int64(last.Size())}
}

// say prints what happens as it happens: these tests take minutes.
func say(t *testing.T, format string, args ...any) {
	t.Helper()
	fmt.Printf("%s %s: %s\n", time.Now().Format("15:04:05.000"), t.Name(), fmt.Sprintf(format, args...))
}

// await calls f until it returns nil, and returns how long that took.
func await(t *testing.T, what string, f func(context.Context) error) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begin := time.Now()
	var last error
	for {
		err := f(ctx)
		if err == nil {
			took := time.Since(begin)
			say(t, "%s (after %v)", what, took.Round(time.Millisecond))
			return took
		}
		if ctx.Err() == nil {
			last = err // not that f itself was interrupted
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not after %v: %v", what, patience, last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// manifest returns one of the pods in testdata, whose exclusive containers ask for a core.
func (f *fixture) manifest(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	must(t, err)
	return strings.ReplaceAll(string(text), `cpu: "1"`, fmt.Sprintf(`cpu: "%d"`, f.whole))
}

// attempt finds one attempt of a container, or the newest of all if it is -1.
func (f *fixture) attempt(ctx context.Context, pod, name string, attempt int) (kube.Container, error) {
	all, err := f.Runtime.Containers(ctx)
	if err != nil {
		return kube.Container{}, err
	}
	all = slices.DeleteFunc(all, func(c kube.Container) bool {
		return c.Pod != pod || c.Name != name || attempt >= 0 && int(c.Attempt) != attempt
	})
	if len(all) == 0 {
		return kube.Container{}, fmt.Errorf("containerd has no container %s/%s", pod, name)
	}
	return slices.MaxFunc(all, func(a, b kube.Container) int { return int(a.Attempt) - int(b.Attempt) }), nil
}

// running waits until an attempt of a container runs, at least the one asked for.
func (f *fixture) running(t *testing.T, pod, name string, attempt uint32) (c kube.Container) {
	t.Helper()
	await(t, fmt.Sprintf("%s/%s runs, attempt %d", pod, name, attempt), func(ctx context.Context) (err error) {
		if c, err = f.attempt(ctx, pod, name, -1); err == nil && (!c.Running || c.Attempt < attempt) {
			err = fmt.Errorf("%+v", c)
		}
		return err
	})
	return c
}

// said returns the CPUs on which a container's first process might run, as it read in its first instructions from its own status file.
func (f *fixture) said(t *testing.T, c kube.Container) (cpus string) {
	t.Helper()
	await(t, c.Pod+"/"+c.Name+" has said where it may run", func(context.Context) error {
		text, err := os.ReadFile(c.LogFile)
		if err != nil {
			return err
		}
		_, after, found := strings.Cut(string(text), "Cpus_allowed_list:")
		line, _, ended := strings.Cut(after, "\n")
		if !found || !ended {
			return fmt.Errorf("it has said: %s", text)
		}
		cpus = strings.TrimSpace(line)
		return nil
	})
	return cpus
}

// checkOn compares with cpus the cgroup's cpuset, its effective CPUs and those of each of its processes.
func (f *fixture) checkOn(c kube.Container, cpus string) error {
	kernel, err := f.Cgroups.Read(c.Cgroup)
	if err != nil {
		return err
	}
	pids, err := f.Cgroups.Processes(c.Cgroup)
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return fmt.Errorf("%s/%s has no processes", c.Pod, c.Name)
	}
	if kernel.Effective != cpus {
		return fmt.Errorf("the effective CPUs of %s/%s are %s, want %s", c.Pod, c.Name, kernel.Effective, cpus)
	}
	for _, pid := range pids {
		allowed, err := cgroup.AllowedCPUs(pid)
		if err != nil {
			return err
		}
		if allowed != cpus {
			return fmt.Errorf("process %d of %s/%s may run on %s, want %s", pid, c.Pod, c.Name, allowed, cpus)
		}
	}
	return nil
}

func (f *fixture) expectOn(t *testing.T, when, cpus string, containers ...kube.Container) {
	t.Helper()
	for _, c := range containers {
		if err := f.checkOn(c, cpus); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
}

func (f *fixture) expectSoonOn(t *testing.T, when, cpus string, containers ...kube.Container) time.Duration {
	t.Helper()
	return await(t, when+": on "+cpus, func(context.Context) error {
		for _, c := range containers {
			if err := f.checkOn(c, cpus); err != nil {
				return err
			}
		}
		return nil
	})
}

// expectQuota compares the quotas of a container's cgroup and of its pod's, in microseconds of each 100 ms, -1 for none. The pod's may follow
// the container's.
func (f *fixture) expectQuota(t *testing.T, c kube.Container, container, pod int64) {
	t.Helper()
	await(t, fmt.Sprintf("the quotas of %s/%s and its pod are %d and %d us", c.Pod, c.Name, container, pod), func(context.Context) error {
		own, err := f.Cgroups.Read(c.Cgroup)
		if err != nil {
			return err
		}
		parent, err := f.Cgroups.Read(filepath.Dir(c.Cgroup))
		if err != nil {
			return err
		}
		if own.QuotaMicros != container || parent.QuotaMicros != pod {
			return fmt.Errorf("they are %d and %d us", own.QuotaMicros, parent.QuotaMicros)
		}
		return nil
	})
}

// kill ends all of a container's processes with SIGKILL, as a crash would.
func (f *fixture) kill(t *testing.T, c kube.Container) {
	t.Helper()
	pids, err := f.Cgroups.Processes(c.Cgroup)
	must(t, err)
	for _, pid := range pids {
		process, err := os.FindProcess(pid)
		must(t, err)
		must(t, process.Kill())
	}
}
