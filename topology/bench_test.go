package topology_test

import (
	"testing"

	"nri-cpuset/topology"
)

// A machine of today with 256 CPUs: 2 packages, 8 NUMA nodes, 16 last-level caches, SMT, 100 PCI functions. The target is 20 ms.
func BenchmarkRead(b *testing.B) {
	machine := regular{packages: 2, nodes: 4, caches: 2, cores: 8, threads: 2}
	root := machine.tree().withPCI(100, 8).write(b)
	m, err := topology.Read(root)
	if err != nil || m.Online.Len() != 256 {
		b.Fatalf("read %v, want 256 CPUs", err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := topology.Read(root); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadOnline(b *testing.B) {
	root := regular{packages: 2, nodes: 4, caches: 2, cores: 8, threads: 2}.tree().write(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := topology.ReadOnline(root); err != nil {
			b.Fatal(err)
		}
	}
}
