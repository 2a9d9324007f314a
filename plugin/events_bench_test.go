package plugin

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"nri-cpuset/config"
	"nri-cpuset/state"
	"nri-cpuset/topology"
)

// BenchmarkCreateContainerHandler measures one CreateContainer for two exclusive CPUs of 128 without the socket: decision, state file, cgroups
// (plain files) and reply, among containers that share. What the background does between two requests is not in it.
func BenchmarkCreateContainerHandler(b *testing.B) {
	machine, err := topology.ReadDescription("../test/conformance/testdata/topologies/nps4-1s-4n-16llc-64c-128t.json")
	if err != nil {
		b.Fatal(err)
	}
	cfg, err := config.Parse([]byte("cpuManagerPolicy: static\nreservedSystemCPUs: \"0,64\"\n"), "")
	if err != nil {
		b.Fatal(err)
	}
	for _, shared := range []int{0, 100, 500} {
		for _, v2 := range []bool{true, false} {
			b.Run(fmt.Sprintf("v2=%t/shared=%d", v2, shared), func(b *testing.B) {
				p := benchPlugin(b, machine, cfg, v2, shared)
				var times []time.Duration
				for range max(b.N, 50) {
					pod, ctr := podOf("x", "/kubepods"), containerIn("x", 2048, 200000, "/kubepods")
					start := time.Now()
					if _, _, err := p.CreateContainer(b.Context(), pod, ctr); err != nil {
						b.Fatal(err)
					}
					times = append(times, time.Since(start))
					if err := p.StopPodSandbox(b.Context(), pod); err != nil {
						b.Fatal(err)
					}
					p.growNow(b.Context())
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-µs")
				b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "p99-µs")
			})
		}
	}
}

type idleRuntime struct{}

func (idleRuntime) UpdateContainers([]*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return nil, nil
}
func (idleRuntime) Stop() {}

// benchPlugin is a plugin with cgroups in plain files, on a tmpfs, whose effective sets are other names of what is written.
func benchPlugin(b *testing.B, machine *topology.Machine, cfg *config.Config, v2 bool, shared int) *Plugin {
	b.Helper()
	root, err := os.MkdirTemp("/dev/shm", "nri-cpuset-bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(root) })
	cgroup := func(dir string) {
		name, base := "cpuset.cpus.effective", filepath.Join(root, dir)
		if !v2 {
			name, base = "cpuset.effective_cpus", filepath.Join(root, "cpuset", dir)
		}
		own := filepath.Join(base, "cpuset.cpus")
		for _, err := range []error{
			os.MkdirAll(base, 0o750), os.WriteFile(own, []byte(machine.Online.String()), 0o600), os.Link(own, filepath.Join(base, name)),
		} {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	if v2 {
		if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpuset cpu"), 0o600); err != nil {
			b.Fatal(err)
		}
	} else if err := os.MkdirAll(filepath.Join(root, "cpu"), 0o750); err != nil {
		b.Fatal(err)
	}
	cgroup("kubepods/burstable")
	log := logrus.New()
	log.SetOutput(io.Discard)
	file, _ := state.OpenFile(filepath.Join(root, "state"), "boot", time.Now())
	p, err := New(machine, cfg, file, nil, Options{CgroupRoot: root, Log: log})
	if err != nil {
		b.Fatal(err)
	}
	p.runtime = idleRuntime{} // it can be called, so that replies carry no corrections; nobody calls it here
	for i := range shared {
		id := fmt.Sprintf("s%d", i)
		pod, ctr := podOf(id, "/kubepods/burstable"), containerIn(id, 102, 0, "/kubepods/burstable")
		cgroup(ctr.Linux.CgroupsPath)
		_, _, err := p.CreateContainer(b.Context(), pod, ctr)
		for _, err := range []error{err, p.PostCreateContainer(b.Context(), pod, ctr), p.PostStartContainer(b.Context(), pod, ctr)} {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	return p
}
