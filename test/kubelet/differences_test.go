package kubelet

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/plugin/simulate"
)

// These tests hold what docs/differences.md says of the kubelet, on the machines and pods of its examples. Where one fails with a newer
// kubelet, the page has to be written anew.

const examples = "../../docs/examples"

func TestHybridCoresLoseTheReservation(t *testing.T) {
	n := exampleNode(t, "hybrid.json", "hybrid/config.yaml")
	for _, pod := range examplePods(t, "hybrid/pods.yaml") {
		n.Add(&pod)
	}
	if got, want := n.CPUs("video", "main").String(), "0-1,4-6"; got != want {
		t.Errorf("the kubelet gives CPUs %s, want %s, of which 0 is reserved", got, want)
	}
}

// TestDistributionDoesNotEnd runs itself again, as a process that can be killed.
func TestDistributionDoesNotEnd(t *testing.T) {
	if os.Getenv("DISTRIBUTE") != "" {
		n := exampleNode(t, "nps4.json", "distributed/config.yaml")
		for _, pod := range examplePods(t, "distributed/pods.yaml") {
			n.Add(&pod)
		}
		return
	}
	again := exec.Command(os.Args[0], "-test.run", "^TestDistributionDoesNotEnd$")
	again.Env = append(os.Environ(), "DISTRIBUTE=yes")
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- again.Wait() }()
	select {
	case err := <-ended:
		t.Errorf("the kubelet's search ends (%v)", err)
	case <-time.After(10 * time.Second):
		if err := again.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Error("the process that was killed ended by itself")
		}
	}
}

func TestStrictReservationEmptiesTheSharedPool(t *testing.T) {
	n := exampleNode(t, "two-packages.json", "strict-cpu-reservation/on.yaml")
	for _, pod := range examplePods(t, "strict-cpu-reservation/pods.yaml") {
		if result := n.Add(&pod); !result.Admit {
			t.Errorf("the kubelet refuses %s: %s", pod.Name, result.Message)
		}
	}
	if cpus := n.cpu.GetCPUAffinity(string(n.pods["web"].UID), "nginx"); !cpus.IsEmpty() {
		t.Errorf("the kubelet leaves CPUs %s to the pod in the shared pool, want none", cpus)
	}
}

func TestOneNodeJoinsAGroup(t *testing.T) {
	answered := answerExample(t, "memory-groups/mix.jsonl", "four-nodes.json")
	last := answered.Steps[len(answered.Steps)-1]
	if got := last.Expect.Containers["main"].Mems; got != "0" {
		t.Errorf("the kubelet binds %s to node %q, want 0, which belongs to the group 0-1", last.Add.Name, got)
	}
	if answered.MemoryWrong != len(answered.Steps)-1 {
		t.Errorf("the kubelet's memory books are wrong after %d steps of %d, want after the last", answered.MemoryWrong, len(answered.Steps))
	}
}

func TestMemoryIsReleasedElsewhere(t *testing.T) {
	s := exampleScenario(t, "memory-groups/release.jsonl")
	n := newTestNode(t, "two-packages.json", s.Config)
	n.Add(s.Steps[0].Add)
	before := n.reserved()[0]["memory"]
	n.Add(s.Steps[1].Add)
	if during := n.reserved()[0]["memory"]; during != before {
		t.Fatalf("%s takes memory of node 0", s.Steps[1].Add.Name)
	}
	n.Remove(s.Steps[2].Remove)
	if got, want := before-n.reserved()[0]["memory"], uint64(512<<20); got != want {
		t.Errorf("the kubelet gives back %d bytes on node 0, where nothing was taken, want %d", got, want)
	}
}

func TestReservedMemoryWrapsAround(t *testing.T) {
	n := exampleNode(t, "two-packages.json", "memory-groups/reserved.yaml")
	if got, want := n.memory.State().GetMachineState()[0].MemoryMap["memory"].Free, uint64(math.MaxUint64)-1<<30+1; got != want {
		t.Errorf("the kubelet takes %d bytes of node 0 for free, want %d", got, want)
	}
}

func TestInitContainersCPUsAreLeftBehind(t *testing.T) {
	n := exampleNode(t, "two-packages.json", "static/static.yaml")
	for _, pod := range examplePods(t, "init-containers/pods.yaml") {
		n.Add(&pod)
	}
	if got, want := n.CPUs("model", "serve").String(), "4-7,12-15"; got != want {
		t.Errorf("the kubelet gives CPUs %s, want %s", got, want)
	}
	if got, want := n.Shared().String(), "0,2-3,8,10-11"; got != want {
		t.Errorf("the kubelet's shared pool is %s, want %s, without the CPUs 1 and 9 of the init container that has ended", got, want)
	}
}

func TestSparseNodesPanic(t *testing.T) {
	s := shape{packages: 1, nodes: 4, caches: 1, cores: 4, threads: 2, memoryMiB: 8 << 10, sparse: true}
	m := s.machine(rand.New(rand.NewPCG(1, 1)))
	n, err := NewNode(m, []byte(`{"cpuManagerPolicy":"static","reservedSystemCPUs":"0","memoryManagerPolicy":"None","topologyManagerPolicy":"best-effort",
		"topologyManagerPolicyOptions":{"prefer-closest-numa-nodes":"true"}}`), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("the kubelet places on NUMA nodes 0, 2, 4 and 6 by their distances")
		}
	}()
	n.Add(&kubepod.Pod{Name: "large", Containers: []kubepod.Container{{Name: "main", Limits: resources("cpu", "10", "memory", "1Gi")}}})
}

func TestMoreThanEightNodes(t *testing.T) {
	s := shape{packages: 1, nodes: 9, caches: 1, cores: 2, threads: 2, memoryMiB: 8 << 10}
	m := s.machine(rand.New(rand.NewPCG(1, 1)))
	_, err := NewNode(m, []byte(`{"cpuManagerPolicy":"static","reservedSystemCPUs":"0","memoryManagerPolicy":"None","topologyManagerPolicy":"best-effort"}`), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "more than 8 NUMA Nodes") {
		t.Errorf("got %v, want that nine nodes are not supported", err)
	}
}

func exampleNode(t *testing.T, machine, settings string) *Node {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(examples, settings))
	if err != nil {
		t.Fatal(err)
	}
	config, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return newTestNode(t, machine, config)
}

func newTestNode(t *testing.T, machine string, config []byte) *Node {
	t.Helper()
	m, err := ReadMachine(filepath.Join(examples, machine))
	if err != nil {
		t.Fatal(err)
	}
	n, err := NewNode(m, config, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func examplePods(t *testing.T, file string) []kubepod.Pod {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(examples, file))
	if err != nil {
		t.Fatal(err)
	}
	pods, err := kubepod.ParseManifests(text)
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

func exampleScenario(t *testing.T, file string) *simulate.Scenario {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(examples, file))
	if err != nil {
		t.Fatal(err)
	}
	scenarios, err := simulate.ParseScenarios(text)
	if err != nil {
		t.Fatal(err)
	}
	return &scenarios[0]
}

func answerExample(t *testing.T, file, machine string) *Answered {
	t.Helper()
	m, err := ReadMachine(filepath.Join(examples, machine))
	if err != nil {
		t.Fatal(err)
	}
	answered, err := Answer(exampleScenario(t, file), m, t.TempDir)
	if err != nil {
		t.Fatal(err)
	}
	return answered
}
