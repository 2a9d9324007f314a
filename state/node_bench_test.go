package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nri-cpuset/allocator"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// BenchmarkPlace measures a whole decision with its books and without I/O: hints, merge, CPUs, memory, invariants, books; and the release of
// what was placed. The machine is half full of containers with four CPUs each.
func BenchmarkPlace(b *testing.B) {
	for _, m := range []struct{ cpus, nodes, caches int }{{128, 4, 16}, {256, 8, 32}, {256, 16, 32}, {256, 64, 64}, {1024, 8, 64}} {
		for _, t := range []allocator.TopologyManager{allocator.TopologyManagerNone, allocator.TopologyManagerRestricted} {
			b.Run(fmt.Sprintf("cpus=%d/nodes=%d/topologyManagerPolicy=%s", m.cpus, m.nodes, t), func(b *testing.B) {
				n := halfFull(b, m.cpus, m.nodes, m.caches, t)
				times := make([]time.Duration, 0, b.N)
				b.ReportAllocs()
				for b.Loop() {
					c := container("x", "c", "x1", 4000)
					c.Demand.Memory = allocator.Memory{"memory": 1 << 20}
					start := time.Now()
					if _, err := n.Place(c, nil); err != nil {
						b.Fatal(err)
					}
					n.Release("x1")
					times = append(times, time.Since(start))
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-µs")
			})
		}
	}
}

func halfFull(b *testing.B, cpus, nodes, caches int, t allocator.TopologyManager) *Node {
	b.Helper()
	var cpu, node []string
	for i := range cpus {
		core := i % (cpus / 2)
		cpu = append(cpu, fmt.Sprintf(`{"id":%d,"core":%d,"socket":0,"numa":%d,"llc":%d}`, i, core, core*nodes*2/cpus, core*caches*2/cpus))
	}
	reserved := allocator.Policy{
		CPUManager: allocator.CPUManagerStatic, ReservedCPUs: cpuset.New(0, cpus/2), TopologyManager: t, MemoryManager: allocator.MemoryManagerStatic,
		Scope: allocator.ScopeContainer, Isolated: allocator.IsolatedExclude,
	}
	for i := range nodes {
		node = append(node, fmt.Sprintf(`{"id":%d,"memoryKiB":8388608,"distances":[%s]}`, i, strings.TrimSuffix(strings.Repeat("10,", nodes), ",")))
		reserved.ReservedMemory = append(reserved.ReservedMemory, allocator.ReservedMemory{Node: i, Type: "memory", Bytes: 1 << 30})
	}
	m, err := topology.ParseDescription([]byte(fmt.Sprintf(`{"name":"bench","cpus":[%s],"numaNodes":[%s]}`,
		strings.Join(cpu, ","), strings.Join(node, ","))))
	if err != nil {
		b.Fatal(err)
	}
	a, err := allocator.New(m, reserved)
	if err != nil {
		b.Fatal(err)
	}
	n := NewNode(Rules{Allocator: a}, nil, time.Now)
	for i := range cpus / 8 {
		c := container(fmt.Sprint(i), "c", fmt.Sprint(i), 4000)
		c.Demand.Memory = allocator.Memory{"memory": 1 << 20}
		if _, err := n.Place(c, nil); err != nil {
			b.Logf("%d containers, then: %v", i, err)
			break
		}
	}
	return n
}
