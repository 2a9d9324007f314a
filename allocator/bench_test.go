package allocator_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"nri-cpuset/allocator"
)

// BenchmarkPlace measures one decision on a machine of which half is taken: hints, merge, CPUs and memory, and the books of it.
func BenchmarkPlace(b *testing.B) {
	machines := []struct {
		name  string
		shape shape
	}{
		{"128cpus-4nodes-16caches", shape{packages: 1, nodes: 4, caches: 4, cores: 4, threads: 2, memoryGiB: 64}},
		{"256cpus-8nodes", shape{packages: 2, nodes: 4, caches: 2, cores: 8, threads: 2, memoryGiB: 64}},
		{"256cpus-16nodes", shape{packages: 4, nodes: 4, caches: 1, cores: 8, threads: 2, memoryGiB: 32}},
		{"256cpus-64nodes", shape{packages: 8, nodes: 8, caches: 1, cores: 2, threads: 2, memoryGiB: 16}},
		{"1024cpus-8nodes", shape{packages: 2, nodes: 4, caches: 8, cores: 8, threads: 2, memoryGiB: 128}},
	}
	managers := []allocator.TopologyManager{
		allocator.TopologyManagerNone, allocator.TopologyManagerBestEffort, allocator.TopologyManagerRestricted,
		allocator.TopologyManagerSingleNUMANode,
	}
	for _, m := range machines {
		for _, manager := range managers {
			b.Run(m.name+"/"+string(manager), func(b *testing.B) {
				benchmarkPlace(b, m.shape, benchPolicy(manager))
			})
		}
		b.Run(m.name+"/distributed", func(b *testing.B) {
			p := benchPolicy(allocator.TopologyManagerBestEffort)
			p.Options.DistributeCPUsAcrossNUMA = true
			benchmarkPlace(b, m.shape, p)
		})
		b.Run(m.name+"/closest", func(b *testing.B) {
			p := benchPolicy(allocator.TopologyManagerBestEffort)
			p.PreferClosestNUMANodes = true
			benchmarkPlace(b, m.shape, p)
		})
	}
}

func benchPolicy(manager allocator.TopologyManager) allocator.Policy {
	return allocator.Policy{
		CPUManager:      allocator.CPUManagerStatic,
		Options:         allocator.Options{FullPCPUsOnly: true},
		ReservedCount:   2,
		MemoryManager:   allocator.MemoryManagerStatic,
		ReservedMemory:  []allocator.ReservedMemory{{Node: 0, Type: "memory", Bytes: 1 << 30}},
		TopologyManager: manager,
	}
}

func benchmarkPlace(b *testing.B, s shape, p allocator.Policy) {
	m := s.machine(b)
	a, err := allocator.New(m, p)
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	usage := a.NewUsage()
	requests := make([]allocator.Request, 64)
	for i := range requests {
		requests[i] = allocator.Request{KeepShared: true, Amount: allocator.Amount{
			CPUs:   2 + 2*random.IntN(max(1, m.Online.Len()/32)),
			Memory: allocator.Memory{"memory": uint64(1+random.IntN(8)) << 30},
		}}
	}
	fillHalf(a, usage, requests, random)
	samples := make([]time.Duration, 0, b.N)
	refused := 0
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		start := time.Now()
		got, err := a.Place(usage, requests[i%len(requests)])
		if err != nil {
			refused++
		} else {
			usage.Take(got)
			usage.Give(got)
		}
		samples = append(samples, time.Since(start))
	}
	b.StopTimer()
	slices.Sort(samples)
	b.ReportMetric(float64(samples[len(samples)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(samples[len(samples)*99/100].Nanoseconds()), "p99-ns")
	b.ReportMetric(float64(refused)/float64(b.N), "refused/op")
}

// fillHalf fills the machine until nothing more fits, and then lets containers go at random until half of it is free, in pieces.
func fillHalf(a *allocator.Allocator, usage *allocator.Usage, requests []allocator.Request, random *rand.Rand) {
	var all []allocator.Placement
	for i := range 20 * len(requests) {
		if got, err := a.Place(usage, requests[i%len(requests)]); err == nil {
			usage.Take(got)
			all = append(all, got)
		}
	}
	for usage.Exclusive().Len() > a.Machine().Online.Len()/2 {
		i := random.IntN(len(all))
		usage.Give(all[i])
		all = slices.Delete(all, i, i+1)
	}
}
