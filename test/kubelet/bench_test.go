package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"nri-cpuset/allocator"
	"nri-cpuset/config"
	"nri-cpuset/plugin"
	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/state"
	"nri-cpuset/topology"
)

// BenchmarkDecision is one whole decision, hints, merge, CPUs, memory and books, without files: the kubelet's policies under its topology
// manager, and state.Node.Place. See [benchmark] for what is measured.
func BenchmarkDecision(b *testing.B) {
	benchmark(b, func(b *testing.B, m *Machine, config []byte) [2]side {
		kubelet, err := newPolicies(m, config)
		if err != nil {
			b.Fatal(err)
		}
		return [2]side{kubelet, newBooks(b, m, config)}
	})
}

// BenchmarkAdmission is what a pod waits for: the kubelet's managers with their state files, and the plugin's handler of CreateContainer with
// its own. The files are where TMPDIR is: on a tmpfs, or the disk is measured.
func BenchmarkAdmission(b *testing.B) {
	benchmark(b, func(b *testing.B, m *Machine, config []byte) [2]side {
		node, err := NewNode(m, config, b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		return [2]side{managers{node}, newHandlers(b, m, config)}
	})
}

// side is one of the two. Pods have one container.
type side interface {
	add(pod *kubepod.Pod) bool
	remove(pod string)
	shared() string
}

// benchmark measures adding a pod to a node that is empty, or half full and free in pieces, on both sides with the same pods; that the pod is
// removed again is not measured. Both sides must have the same shared pool when they have been filled. p50-ns is the median; ours also has the
// kubelet's median divided by its own.
func benchmark(b *testing.B, sides func(*testing.B, *Machine, []byte) [2]side) {
	machine128 := shape{packages: 1, nodes: 4, caches: 4, cores: 4, threads: 2}
	machine256 := shape{packages: 2, nodes: 8, caches: 2, cores: 8, threads: 2}
	cases := []struct {
		name             string
		shape            shape
		empty, hugepages bool
	}{
		{name: "machine=128cpus-4nodes/node=half/asks=cpu+memory", shape: machine128},
		{name: "machine=128cpus-4nodes/node=half/asks=cpu+memory+hugepages", shape: machine128, hugepages: true},
		{name: "machine=256cpus-8nodes/node=half/asks=cpu+memory", shape: machine256},
		{name: "machine=256cpus-8nodes/node=half/asks=cpu+memory+hugepages", shape: machine256, hugepages: true},
		// Nothing is ruled out yet, and the kubelet looks at every combination of every mask of each resource: 255 masks, three times.
		{name: "machine=256cpus-8nodes/node=empty/asks=cpu+memory", shape: machine256, empty: true},
		{name: "machine=256cpus-8nodes/node=empty/asks=cpu+memory+hugepages", shape: machine256, empty: true, hugepages: true},
	}
	for _, c := range cases {
		c.shape.memoryMiB, c.shape.hugePages = 64<<10, map[string]uint64{"1048576": 8}
		m := c.shape.machine(rand.New(rand.NewPCG(1, 1)))
		for _, policy := range []string{"best-effort", "restricted", "single-numa-node"} {
			settings := []byte(fmt.Sprintf(`{"cpuManagerPolicy":"static","cpuManagerPolicyOptions":{"full-pcpus-only":"true"},"systemReserved":{"cpu":"2"},
				"memoryManagerPolicy":"Static","reservedMemory":[{"numaNode":0,"limits":{"memory":"1Gi"}}],"topologyManagerPolicy":%q,"isolatedCPUs":"ignore"}`, policy))
			pair := sides(b, m, settings)
			random := rand.New(rand.NewPCG(1, 2))
			if !c.empty {
				fillHalf(b, pair, len(m.CPUs), random)
			}
			pods := make([]*kubepod.Pod, 64)
			for i := range pods {
				pods[i] = benchPod(fmt.Sprintf("pod-%d", i), len(m.CPUs), c.hugepages, random)
			}
			var kubelet time.Duration
			b.Run(c.name+"/policy="+policy+"/side=kubelet", func(b *testing.B) { kubelet = measure(b, pair[0], pods) })
			b.Run(c.name+"/policy="+policy+"/side=ours", func(b *testing.B) {
				ours := measure(b, pair[1], pods)
				if kubelet > 0 {
					b.ReportMetric(float64(kubelet)/float64(ours), "times-faster")
				}
			})
		}
	}
}

// fillHalf fills both sides with the same pods until nothing more fits, and then removes pods at random until half of the CPUs are free.
func fillHalf(b *testing.B, pair [2]side, cpus int, random *rand.Rand) {
	b.Helper()
	var there []*kubepod.Pod
	taken := 0
	for i, refused := 0, 0; refused < 20; i++ {
		pod := benchPod(fmt.Sprintf("fill-%d", i), cpus, false, random)
		kubelet, ours := pair[0].add(pod), pair[1].add(pod)
		if kubelet != ours {
			b.Fatalf("pod %s: the kubelet admits it: %v, we: %v", pod.Name, kubelet, ours)
		}
		if !ours {
			refused++
			continue
		}
		there = append(there, pod)
		taken += cpusOf(pod)
	}
	for taken > cpus/2 {
		i := random.IntN(len(there))
		pair[0].remove(there[i].Name)
		pair[1].remove(there[i].Name)
		taken -= cpusOf(there[i])
		there = slices.Delete(there, i, i+1)
	}
	if kubelet, ours := pair[0].shared(), pair[1].shared(); kubelet != ours {
		b.Fatalf("shared pool of the kubelet: %s, ours: %s", kubelet, ours)
	}
}

// benchPod asks for whole cores, on 128 CPUs for 2 to 8 CPUs, and some memory.
func benchPod(name string, cpus int, hugepages bool, random *rand.Rand) *kubepod.Pod {
	amounts := resources("cpu", fmt.Sprint(2+2*random.IntN(cpus/32)), "memory", fmt.Sprintf("%dGi", 1+random.IntN(4)))
	if hugepages {
		amounts["hugepages-1Gi"] = resources("", "1Gi")[""]
	}
	return &kubepod.Pod{Name: name, Containers: []kubepod.Container{{Name: "main", Limits: amounts}}}
}

func cpusOf(pod *kubepod.Pod) int {
	cpu := pod.Containers[0].Limits["cpu"]
	return int(cpu.Value())
}

func measure(b *testing.B, s side, pods []*kubepod.Pod) time.Duration {
	samples := make([]time.Duration, 0, b.N)
	refused := 0
	b.ReportAllocs()
	for i := range b.N {
		pod := pods[i%len(pods)]
		start := time.Now()
		admitted := s.add(pod)
		samples = append(samples, time.Since(start))
		if !admitted {
			refused++
			continue
		}
		b.StopTimer()
		s.remove(pod.Name)
		b.StartTimer()
	}
	b.StopTimer()
	slices.Sort(samples)
	p50 := samples[len(samples)/2]
	b.ReportMetric(float64(p50), "p50-ns")
	b.ReportMetric(float64(samples[len(samples)-1]), "max-ns")
	b.ReportMetric(float64(refused)/float64(b.N), "refused/op")
	return p50
}

// managers are the kubelet's, with their files.
type managers struct{ *Node }

func (m managers) add(pod *kubepod.Pod) bool { return m.Add(pod).Admit }
func (m managers) remove(pod string)         { m.Remove(pod) }
func (m managers) shared() string            { return m.Shared().String() }

// books are our state.Node without a file.
type books struct {
	node *state.Node
	ids  int
	live map[string]state.Container
}

func newBooks(b *testing.B, m *Machine, settings []byte) *books {
	b.Helper()
	policy, err := configOf(b, settings).Policy()
	if err != nil {
		b.Fatal(err)
	}
	a, err := allocator.New(machineOf(b, m), policy)
	if err != nil {
		b.Fatal(err)
	}
	return &books{node: state.NewNode(state.Rules{Allocator: a}, nil, time.Now), live: map[string]state.Container{}}
}

func (s *books) add(pod *kubepod.Pod) bool {
	s.ids++
	limits := pod.Containers[0].Limits
	memory := allocator.Memory{}
	for name, amount := range limits {
		if name != "cpu" {
			memory[name] = uint64(amount.Value())
		}
	}
	milli := int64(cpusOf(pod)) * 1000
	placed, err := s.node.Place(state.Container{
		Key: state.Key{PodUID: pod.Name, Name: "main"}, ID: fmt.Sprint(s.ids), Sandbox: pod.Name, Pod: pod.Name,
		Demand: state.Demand{Guaranteed: true, MilliCPU: milli, LimitMilliCPU: milli, Memory: memory},
	}, nil)
	if err != nil {
		return false
	}
	s.live[pod.Name] = placed
	return true
}

func (s *books) remove(pod string) {
	s.node.Release(s.live[pod].ID)
	s.node.ReleasePod(pod, pod)
	delete(s.live, pod)
}

func (s *books) shared() string { return s.node.Snapshot().Shared.String() }

// handlers are our plugin, without a runtime.
type handlers struct {
	b      *testing.B
	plugin *plugin.Plugin
	ids    int
	live   map[string]*api.Container
	pods   map[string]*api.PodSandbox
}

func newHandlers(b *testing.B, m *Machine, settings []byte) *handlers {
	b.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	file, _ := state.OpenFile(b.TempDir(), "boot", time.Now())
	p, err := plugin.New(machineOf(b, m), configOf(b, settings), file, nil, plugin.Options{Log: log})
	if err != nil {
		b.Fatal(err)
	}
	return &handlers{b: b, plugin: p, live: map[string]*api.Container{}, pods: map[string]*api.PodSandbox{}}
}

func (s *handlers) add(pod *kubepod.Pod) bool {
	s.ids++
	var node kubepod.Node
	sandbox := node.Sandbox(pod, fmt.Sprintf("sandbox-%d", s.ids))
	container := node.Container(pod, &pod.Containers[0], sandbox, fmt.Sprintf("container-%d", s.ids), 0)
	if _, _, err := s.plugin.CreateContainer(context.Background(), sandbox, container); err != nil {
		return false
	}
	s.pods[pod.Name], s.live[pod.Name] = sandbox, container
	return true
}

func (s *handlers) remove(pod string) {
	ctx, sandbox, container := context.Background(), s.pods[pod], s.live[pod]
	if _, err := s.plugin.StopContainer(ctx, sandbox, container); err != nil {
		s.b.Fatal(err)
	}
	if err := s.plugin.StopPodSandbox(ctx, sandbox); err != nil {
		s.b.Fatal(err)
	}
	if err := s.plugin.RemoveContainer(ctx, sandbox, container); err != nil {
		s.b.Fatal(err)
	}
	if err := s.plugin.RemovePodSandbox(ctx, sandbox); err != nil {
		s.b.Fatal(err)
	}
}

func (s *handlers) shared() string { return s.plugin.Node().Snapshot().Shared.String() }

func configOf(b *testing.B, settings []byte) *config.Config {
	b.Helper()
	cfg, err := config.Parse(settings, "")
	if err != nil {
		b.Fatal(err)
	}
	return cfg
}

func machineOf(b *testing.B, m *Machine) *topology.Machine {
	b.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	machine, err := topology.ParseDescription(text)
	if err != nil {
		b.Fatal(err)
	}
	return machine
}
