package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/sirupsen/logrus"

	"nri-cpuset/config"
	"nri-cpuset/plugin"
	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/state"
	"nri-cpuset/test/nriruntime"
	"nri-cpuset/topology"
)

// BenchmarkCreateContainer measures the time from the runtime's CreateContainer to the end of the plugin's reply, over the NRI socket, for a
// container with two exclusive CPUs of 192, among shared containers that run. The peer is a plugin that does nothing. The runtime's part of the
// work, and its cgroup files' (plain files, in place of the kernel's), are in both.
func BenchmarkCreateContainer(b *testing.B) {
	machine := machine192(b)
	baseline := map[int]quantiles{}
	for _, background := range []int{0, 100, 500} {
		b.Run(fmt.Sprintf("plugin=nothing/shared=%d", background), func(b *testing.B) {
			rt := startRuntime(b, machine)
			startNoop(b, rt)
			baseline[background] = creations(b, rt, background)
			baseline[background].report(b)
		})
	}
	alone := map[string]quantiles{}
	for _, way := range []string{"cgroups", "runtime"} {
		for _, background := range []int{0, 100, 500} {
			b.Run(fmt.Sprintf("plugin=nri-cpuset/by=%s/shared=%d", way, background), func(b *testing.B) {
				rt := startRuntime(b, machine)
				root := rt.CgroupRoot()
				if way == "runtime" {
					root = ""
				}
				startPlugin(b, rt, machine, root)
				q := creations(b, rt, background)
				if background == 0 {
					alone[way] = q
				}
				q.report(b)
				if base, measured := baseline[background]; measured {
					b.ReportMetric(float64((q.p50 - base.p50).Microseconds()), "p50-over-nothing-µs")
					b.ReportMetric(float64((q.p99 - base.p99).Microseconds()), "p99-over-nothing-µs")
				}
				if base, measured := alone[way]; measured {
					b.ReportMetric(float64(q.p50)/float64(base.p50), "times-alone")
				}
			})
		}
	}
}

// quantiles of one measurement.
type quantiles struct{ p50, p99 time.Duration }

func (q quantiles) report(b *testing.B) {
	b.ReportMetric(float64(q.p50.Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(q.p99.Nanoseconds())/1000, "p99-µs")
	b.ReportMetric(0, "ns/op") // it would include what is not measured
}

// creations creates and removes the container b.N times, at least 50 for the quantiles to mean something.
func creations(b *testing.B, rt *nriruntime.Runtime, background int) quantiles {
	b.Helper()
	for i := range background {
		runShared(b, rt, pod(b, fmt.Sprintf("shared-%d", i), `"requests":{"cpu":"100m"}`))
	}
	spec := pod(b, "exclusive", `"limits":{"cpu":"2","memory":"1Gi"}`)
	var times []time.Duration
	for range max(b.N, 50) {
		p, err := rt.RunPod(spec)
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		c, err := rt.Create(p, "c")
		times = append(times, time.Since(start))
		if err != nil {
			b.Fatal(err)
		}
		end(b, rt, p, c)
	}
	slices.Sort(times)
	return quantiles{p50: times[len(times)/2], p99: times[len(times)*99/100]}
}

func runShared(b *testing.B, rt *nriruntime.Runtime, spec kubepod.Pod) {
	b.Helper()
	p, err := rt.RunPod(spec)
	if err != nil {
		b.Fatal(err)
	}
	c, err := rt.Create(p, "c")
	if err != nil {
		b.Fatal(err)
	}
	if err := rt.Start(c); err != nil {
		b.Fatal(err)
	}
}

func end(b *testing.B, rt *nriruntime.Runtime, p *nriruntime.Pod, c *nriruntime.Container) {
	b.Helper()
	for _, err := range []error{rt.Stop(c), rt.StopPod(p), rt.Remove(c), rt.RemovePod(p)} {
		if err != nil {
			b.Fatal(err)
		}
	}
}

func pod(b *testing.B, name, resources string) kubepod.Pod {
	b.Helper()
	pods, err := kubepod.ParseManifests([]byte(fmt.Sprintf(
		`{"kind":"Pod","metadata":{"name":%q},"spec":{"containers":[{"name":"c","resources":{%s}}]}}`, name, resources)))
	if err != nil {
		b.Fatal(err)
	}
	return pods[0]
}

func startRuntime(b *testing.B, machine *topology.Machine) *nriruntime.Runtime {
	b.Helper()
	rt, err := nriruntime.Start(nriruntime.Options{
		Manner: nriruntime.Containerd, CPUs: machine.Online, Mems: machine.NodeIDs(), CgroupFiles: true, MemoryBytes: 1 << 38,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := rt.Close(); err != nil {
			b.Error(err)
		}
	})
	return rt
}

func startPlugin(b *testing.B, rt *nriruntime.Runtime, machine *topology.Machine, cgroupRoot string) {
	b.Helper()
	cfg, err := config.Parse([]byte("cpuManagerPolicy: static\nreservedSystemCPUs: \"0,96\"\nauditInterval: 0s\n"), "")
	if err != nil {
		b.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	dir, err := os.MkdirTemp("/dev/shm", "nri-cpuset-bench") // the state directory is on a tmpfs, as /run is
	if err != nil {
		b.Fatal(err)
	}
	file, _ := state.OpenFile(dir, "boot", time.Now())
	p, err := plugin.New(machine, cfg, file, nil, plugin.Options{
		NodeName: "bench", Socket: rt.SocketPath(), Index: "10", CgroupRoot: cgroupRoot, StateDir: dir, Sysfs: "/nonexistent",
		ConfigFile: filepath.Join(dir, "config.yaml"), Log: log,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})
	wait(b, rt, "10-nri-cpuset")
}

// noop is a plugin that is asked about every container and answers nothing.
type noop struct{}

func (noop) CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return nil, nil, nil
}

func startNoop(b *testing.B, rt *nriruntime.Runtime) {
	b.Helper()
	s, err := stub.New(noop{}, stub.WithPluginName("noop"), stub.WithPluginIdx("10"), stub.WithSocketPath(rt.SocketPath()))
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Stop)
	wait(b, rt, "10-noop")
}

func wait(b *testing.B, rt *nriruntime.Runtime, name string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	if err := rt.WaitPlugin(ctx, name); err != nil {
		b.Fatal(err)
	}
}

// machine192 is two packages with four NUMA nodes each, 12 cores with two threads in a node: 192 CPUs.
func machine192(b *testing.B) *topology.Machine {
	b.Helper()
	var cpus, nodes []string
	for cpu := range 192 {
		core := cpu % 96
		cpus = append(cpus, fmt.Sprintf(`{"id":%d,"core":%d,"socket":%d,"numa":%d,"llc":%d}`, cpu, core%48, core/48, core/12, core/12))
	}
	for node := range 8 {
		nodes = append(nodes, fmt.Sprintf(`{"id":%d,"memoryKiB":33554432,"hugePages":{},"distances":[%s]}`, node,
			strings.TrimSuffix(strings.Repeat("10,", 8), ",")))
	}
	m, err := topology.ParseDescription([]byte(fmt.Sprintf(`{"name":"192","cpus":[%s],"numaNodes":[%s]}`,
		strings.Join(cpus, ","), strings.Join(nodes, ","))))
	if err != nil {
		b.Fatal(err)
	}
	return m
}
