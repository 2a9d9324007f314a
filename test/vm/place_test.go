package vm

import (
	"strings"
	"testing"

	"nri-cpuset/test/e2e/node"
)

// testExclusive is the life of an exclusive container, quotas and the fences around those who share included.
func (f *fixture) testExclusive(t *testing.T) {
	pod := f.pod(t, "exclusive", exclusive(2))
	f.expect(t, "its container is not created", allCPUs)
	fenced := f.watchFence(t)
	c := create(t, pod)
	t.Logf("measured: CreateContainer took %v", c.CreateTime)
	// The runtime makes the container's first process only when it is started. Everybody else is out of the way by now.
	f.expect(t, "it is created, not started", "0-1,4-15")
	f.expectFences(t, "it is created, not started", "0-1,4-15")
	exposed := f.watchExposure(t, c, "2-3")
	do(t, c.Start)
	expectSaid(t, c, "2-3", allMems)
	f.expect(t, "it runs", "0-1,4-15", wants{c, pinned("2-3")})
	f.waitOwn(t, "0-1,4-15")
	fenced()
	exposed()

	f.remove(t, pod)
	f.expectSoon(t, "its pod is removed", allCPUs)
	f.expectFences(t, "its pod is removed", allCPUs)
}

// testResize: a pinned container grows next to what it has, shrinks to a part of it, and goes to the shared pool and back; both quotas follow.
func (f *fixture) testResize(t *testing.T) {
	c := f.run(t, "resized", exclusive(2))
	f.expect(t, "it asks for 2 CPUs", "0-1,4-15", wants{c, pinned("2-3")})
	exposed := f.watchExposure(t, c, "")
	steps := []struct {
		name         string
		to           node.Resources
		shared, cpus string
	}{
		{"it grows to 4 CPUs", exclusive(4), "0-1,6-15", "2-5"},
		{"it shrinks to 1 CPU", exclusive(1), "0-1,3-15", "2"},
	}
	for _, step := range steps {
		if err := c.Update(t.Context(), step.to); err != nil {
			t.Fatal(err)
		}
		f.expectSoon(t, step.name, step.shared, wants{c, pinned(step.cpus)})
	}
	if err := c.Update(t.Context(), exclusive(15)); err == nil || !strings.Contains(err.Error(), "UnexpectedAdmissionError") {
		t.Errorf("it asks for 15 CPUs where 14 can be given: %v; want an UnexpectedAdmissionError", err)
	}
	f.expectSoon(t, "it was refused 15 CPUs", "0-1,3-15", wants{c, pinned("2")})
	exposed()

	if err := c.Update(t.Context(), node.Guaranteed(1500, 64*mebibyte)); err != nil {
		t.Fatal(err)
	}
	f.expectSoon(t, "it asks for 1.5 CPUs", allCPUs, wants{c, seen{allCPUs, allMems, 150_000, 150_000}})
	if err := c.Update(t.Context(), exclusive(4)); err != nil {
		t.Fatal(err)
	}
	// A whole NUMA node is free for it now.
	f.expectSoon(t, "it asks for 4 CPUs", "0-3,8-15", wants{c, pinned("4-7")})
}

// testBurstable: with exclusiveScope container, one of the Burstable class has CPUs of its own. What keeps its class off other CPUs must not keep
// it off these.
func (f *fixture) testBurstable(t *testing.T) {
	first := f.run(t, "first", exclusive(2))
	f.expectSoon(t, "a Guaranteed one runs", "0-1,4-15", wants{first, pinned("2-3")})
	r := node.Resources{MilliCPULimit: 2000, MemoryRequest: 32 * mebibyte, MemoryLimit: 64 * mebibyte}
	second := f.run(t, "second", r)
	expectSaid(t, second, "4-5", allMems)
	exposed := f.watchExposure(t, second, "")
	f.expectSoon(t, "a Burstable one runs too", "0-1,6-15", wants{first, pinned("2-3")}, wants{second, pinned("4-5")})
	f.remove(t, first.Pod())
	f.expectSoon(t, "the Guaranteed one has gone", "0-3,6-15", wants{second, pinned("4-5")})
	third := f.run(t, "third", r)
	expectSaid(t, third, "2-3", allMems)
	f.expectSoon(t, "another Burstable one runs", "0-1,6-15", wants{second, pinned("4-5")}, wants{third, pinned("2-3")})
	exposed()
}

func (f *fixture) testFullCores(t *testing.T) {
	f.expectRefused(t, "odd", exclusive(3), "SMTAlignmentError")
	f.expect(t, "3 CPUs were refused", allCPUs)
	c := f.run(t, "even", exclusive(6))
	// One core of the first node would be left over by a whole node and it: the fullest node first, and whole cores.
	expectSaid(t, c, "2-7", allMems)
	f.expect(t, "it asks for 6 CPUs", "0-1,8-15", wants{c, pinned("2-7")})
}

// testDistributed: packed placement would give 6 CPUs of one package.
func (f *fixture) testDistributed(t *testing.T) {
	c := f.run(t, "distributed", exclusive(6))
	expectSaid(t, c, "4-6,8-10", allMems)
	f.expect(t, "it asks for 6 CPUs", "0-3,7,11-15", wants{c, pinned("4-6,8-10")})
}

const singleNode = `topologyManagerPolicy: single-numa-node
memoryManagerPolicy: Static
reservedMemory:
- {numaNode: 0, limits: {memory: 128Mi}}
`

func (f *fixture) testSingleNode(t *testing.T) {
	big := f.run(t, "big", exclusive(4))
	expectSaid(t, big, "4-7", "1")
	small := f.run(t, "small", exclusive(2))
	expectSaid(t, small, "2-3", "0")
	// Its CPUs are everybody's, its memory is not: that is any Guaranteed container's.
	bound := f.run(t, "bound", node.Guaranteed(500, 64*mebibyte))
	expectSaid(t, bound, "0-1,8-15", "0")
	f.expectRefused(t, "greedy", exclusive(6), "TopologyAffinityError")
	f.expect(t, "all run", "0-1,8-15",
		wants{big, seen{"4-7", "1", -1, -1}}, wants{small, seen{"2-3", "0", -1, -1}}, wants{bound, seen{"0-1,8-15", "0", 50_000, 50_000}})
}

func (f *fixture) expectRefused(t *testing.T, name string, r node.Resources, reason string) {
	t.Helper()
	c, err := f.pod(t, name, r).Create(t.Context(), "main")
	if err == nil {
		t.Errorf("%s was created; want a refusal", c.Name())
		return
	}
	t.Logf("pod %s: %v", name, err)
	if !strings.Contains(err.Error(), reason) {
		t.Errorf("pod %s: %v; want a %s", name, err, reason)
	}
}
