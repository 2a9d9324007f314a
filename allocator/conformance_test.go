package allocator_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"nri-cpuset/allocator"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

const testdata = "../test/conformance/testdata"

// TestConformance replays what the kubelet's own managers answered (../test/conformance) against the allocator alone, with the smallest
// books that do: who has what.
func TestConformance(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "scenarios", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios under %s: %v", testdata, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			m := readMachine(t, filepath.Join(testdata, "topologies", name+".json"))
			agree, all := 0, 0
			for _, s := range readScenarios(t, file) {
				all++
				if err := s.replay(m); err != nil {
					t.Errorf("%s: %v", s.Name, err)
					continue
				}
				agree++
			}
			if all != 60 {
				t.Errorf("%d scenarios, want 60", all)
			}
			t.Logf("%d of %d scenarios agree", agree, all)
		})
	}
}

func readMachine(t testing.TB, path string) *topology.Machine {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := topology.ParseDescription(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func readScenarios(t testing.TB, path string) []scenario {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []scenario
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s scenario
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, s)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

type scenario struct {
	Name   string
	Config struct {
		CPUManagerPolicy        allocator.CPUManager
		CPUManagerPolicyOptions map[string]string
		KubeReserved            map[string]string
		SystemReserved          map[string]string
		ReservedSystemCPUs      cpuset.Set
		MemoryManagerPolicy     allocator.MemoryManager
		ReservedMemory          []struct {
			NUMANode int
			Limits   map[string]string
		}
		TopologyManagerPolicy        allocator.TopologyManager
		TopologyManagerScope         allocator.Scope
		TopologyManagerPolicyOptions map[string]string
	}
	Steps []struct {
		Add    *pod
		Remove string
		Expect struct {
			Admitted   bool
			Reason     allocator.Reason
			Containers map[string]struct{ CPUs, Mems cpuset.Set }
			Shared     cpuset.Set
		}
	}
}

type pod struct {
	Name           string
	InitContainers []container
	Containers     []container
}

type container struct {
	Name             string
	Requests, Limits map[string]string
}

func (s *scenario) policy() (allocator.Policy, error) {
	c := &s.Config
	p := allocator.Policy{
		CPUManager:      c.CPUManagerPolicy,
		Isolated:        allocator.IsolatedIgnore,
		ReservedCPUs:    c.ReservedSystemCPUs,
		MemoryManager:   c.MemoryManagerPolicy,
		TopologyManager: c.TopologyManagerPolicy,
		Scope:           c.TopologyManagerScope,
	}
	milli := quantity(c.KubeReserved["cpu"]).MilliValue() + quantity(c.SystemReserved["cpu"]).MilliValue()
	p.ReservedCount = int((milli + 999) / 1000)
	options := map[string]*bool{
		"full-pcpus-only":                  &p.Options.FullPCPUsOnly,
		"distribute-cpus-across-numa":      &p.Options.DistributeCPUsAcrossNUMA,
		"align-by-socket":                  &p.Options.AlignBySocket,
		"distribute-cpus-across-cores":     &p.Options.DistributeCPUsAcrossCores,
		"strict-cpu-reservation":           &p.Options.StrictCPUReservation,
		"prefer-align-cpus-by-uncorecache": &p.Options.PreferAlignCPUsByUncoreCache,
		"prefer-closest-numa-nodes":        &p.PreferClosestNUMANodes,
	}
	for _, given := range []map[string]string{c.CPUManagerPolicyOptions, c.TopologyManagerPolicyOptions} {
		for name, value := range given {
			if options[name] == nil {
				return p, fmt.Errorf("option %s is unknown", name)
			}
			*options[name] = value == "true"
		}
	}
	for _, r := range c.ReservedMemory {
		for kind, amount := range r.Limits {
			p.ReservedMemory = append(p.ReservedMemory, allocator.ReservedMemory{Node: r.NUMANode, Type: kind, Bytes: uint64(quantity(amount).Value())})
		}
	}
	return p, nil
}

// replay runs the scenario's steps and returns the first difference.
func (s *scenario) replay(m *topology.Machine) error {
	p, err := s.policy()
	if err != nil {
		return err
	}
	a, err := allocator.New(m, p)
	if err != nil {
		return err
	}
	b := books{allocator: a, usage: a.NewUsage(), pods: map[string]map[string]allocator.Placement{}}
	for i, step := range s.Steps {
		want := step.Expect
		if step.Add == nil {
			b.remove(step.Remove)
		} else {
			reason, err := b.add(step.Add)
			if err != nil {
				return fmt.Errorf("step %d, %s: %w", i, step.Add.Name, err)
			}
			if reason != want.Reason || (reason == "") != want.Admitted {
				return fmt.Errorf("step %d, %s: got %q, want %q", i, step.Add.Name, reason, want.Reason)
			}
		}
		for name, w := range want.Containers {
			got := b.pods[step.Add.Name][name]
			if !got.CPUs.Equal(w.CPUs) || !got.Mems().Equal(w.Mems) {
				return fmt.Errorf("step %d, %s: container %s got CPUs %q mems %q, want %q %q", i, step.Add.Name, name, got.CPUs, got.Mems(), w.CPUs, w.Mems)
			}
		}
		if got := a.Shared(b.usage); !got.Equal(want.Shared) {
			return fmt.Errorf("step %d: shared is %q, want %q", i, got, want.Shared)
		}
	}
	return nil
}

// books are a node's pods: container by container, and what each has.
type books struct {
	allocator *allocator.Allocator
	usage     *allocator.Usage
	pods      map[string]map[string]allocator.Placement
}

// add places a pod's containers in order. A pod that is refused holds nothing; the reason is why.
func (b *books) add(p *pod) (allocator.Reason, error) {
	placed := map[string]allocator.Placement{}
	b.pods[p.Name] = placed
	total := p.total()
	var affinity *allocator.Affinity
	for _, c := range p.Containers {
		r := allocator.Request{Amount: p.amount(c)}
		if b.allocator.Policy().Scope == allocator.ScopePod && p.guaranteed() {
			if affinity == nil {
				r.Pod = &total
			}
			r.Affinity = affinity
		}
		got, err := b.allocator.Place(b.usage, r)
		if refusal := new(allocator.Refusal); errors.As(err, &refusal) {
			b.remove(p.Name)
			return refusal.Reason, nil
		} else if err != nil {
			return "", err
		}
		affinity = &got.Affinity
		b.usage.Take(got)
		placed[c.Name] = got
	}
	return "", nil
}

func (b *books) remove(name string) {
	for _, p := range b.pods[name] {
		b.usage.Give(p)
	}
	delete(b.pods, name)
}

// guaranteed tells the QoS class: every container has limits of CPU and memory, and requests that equal them.
func (p *pod) guaranteed() bool {
	for _, c := range p.Containers {
		for _, kind := range []string{"cpu", "memory"} {
			limit := quantity(c.Limits[kind])
			if limit.IsZero() || limit.Cmp(*quantity(cmp.Or(c.Requests[kind], c.Limits[kind]))) != 0 {
				return false
			}
		}
	}
	return true
}

// amount is what one container takes part with.
func (p *pod) amount(c container) allocator.Amount {
	if !p.guaranteed() {
		return allocator.Amount{}
	}
	var a allocator.Amount
	if milli := quantity(c.Limits["cpu"]).ScaledValue(resource.Milli); milli%1000 == 0 {
		a.CPUs = int(milli / 1000)
	}
	a.Memory = allocator.Memory{}
	for kind, amount := range c.Limits {
		if kind == "memory" || strings.HasPrefix(kind, "hugepages-") {
			a.Memory[kind] = uint64(quantity(amount).Value())
		}
	}
	return a
}

// total adds up the containers; the scenarios have no init containers.
func (p *pod) total() allocator.Amount {
	total := allocator.Amount{Memory: allocator.Memory{}}
	for _, c := range p.Containers {
		a := p.amount(c)
		total.CPUs += a.CPUs
		for kind, bytes := range a.Memory {
			total.Memory[kind] += bytes
		}
	}
	return total
}

func quantity(text string) *resource.Quantity {
	if text == "" {
		return &resource.Quantity{}
	}
	q := resource.MustParse(text)
	return &q
}
