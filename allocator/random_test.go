package allocator

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"nri-cpuset/topology"
)

type cpuJSON struct {
	ID     int `json:"id"`
	Core   int `json:"core"`
	Socket int `json:"socket"`
	NUMA   int `json:"numa"`
	LLC    int `json:"llc"`
}

type nodeJSON struct {
	ID        int               `json:"id"`
	MemoryKiB uint64            `json:"memoryKiB"`
	HugePages map[string]uint64 `json:"hugePages"`
	Distances []int             `json:"distances"`
}

type machineJSON struct {
	Name      string     `json:"name"`
	CPUs      []cpuJSON  `json:"cpus"`
	NUMANodes []nodeJSON `json:"numaNodes"`
	Isolated  string     `json:"isolated"`
}

func (d *machineJSON) machine(t testing.TB) *topology.Machine {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	m, err := topology.ParseDescription(text)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

// randomMachine makes a machine of so many NUMA nodes that no vendor sells: nodes of different sizes, some without CPUs or memory, cores of
// one or two threads, any distances, gaps in the CPU numbers, where threads are offline, and isolated CPUs.
func randomMachine(t testing.TB, random *rand.Rand, nodes int) *topology.Machine {
	t.Helper()
	var d machineJSON
	perPackage := 1 + random.IntN(2)
	threads := 1 + random.IntN(2)
	mixed := random.IntN(3) == 0
	id, core := 0, 0
	for i := range nodes {
		cores := 1 + random.IntN(3)
		if i > 0 && random.IntN(8) == 0 {
			cores = 0
		}
		for range cores {
			own := threads
			if mixed {
				own = 1 + random.IntN(2)
			}
			for range own {
				d.CPUs = append(d.CPUs, cpuJSON{ID: id, Core: core, Socket: i / perPackage, NUMA: i, LLC: i})
				id++
			}
			core++
			if random.IntN(6) == 0 {
				id++
			}
		}
		node := nodeJSON{ID: i, MemoryKiB: uint64(4+random.IntN(6)) << 10, HugePages: map[string]uint64{"2048": uint64(random.IntN(2))}}
		if i > 0 && random.IntN(8) == 0 {
			node.MemoryKiB, node.HugePages = 0, nil
		}
		for j := range nodes {
			distance := 10
			if i != j {
				distance = 12 + 4*((i*7+j*7+i*j)%3)
			}
			node.Distances = append(node.Distances, distance)
		}
		d.NUMANodes = append(d.NUMANodes, node)
	}
	if random.IntN(3) == 0 {
		first := random.IntN(id)
		d.Isolated = fmt.Sprintf("%d-%d", first, first+random.IntN(4))
	}
	if len(d.CPUs) < 2 {
		d.CPUs = append(d.CPUs, cpuJSON{ID: id, Core: core, NUMA: 0})
	}
	return d.machine(t)
}

// BenchmarkPlaceOddMachines measures decisions on machines that no vendor sells, under policies that nobody uses, for the slowest of them: it
// has to stay far below the runtime's patience of 2 s.
func BenchmarkPlaceOddMachines(b *testing.B) {
	for _, nodes := range []int{8, 16, 32, 64} {
		b.Run(fmt.Sprintf("%dnodes", nodes), func(b *testing.B) {
			random := rand.New(rand.NewPCG(7, 9))
			took := make([]time.Duration, 0, b.N)
			var a *Allocator
			var u *Usage
			for i := range b.N {
				if i%60 == 0 {
					a = oddAllocator(b, random, nodes)
					u = a.NewUsage()
				}
				r := Request{Amount: randomAmount(random, a.machine, 2)}
				if random.IntN(2) == 0 {
					r.CPUs = 1 + random.IntN(12)
				}
				start := time.Now()
				got, err := a.Place(u, r)
				took = append(took, time.Since(start))
				if err == nil {
					u.Take(got)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)-1].Nanoseconds()), "max-ns")
		})
	}
}

func oddAllocator(b *testing.B, random *rand.Rand, nodes int) *Allocator {
	b.Helper()
	m := randomMachine(b, random, nodes)
	flip := func() bool { return random.IntN(2) == 0 }
	p := Policy{
		CPUManager:             CPUManagerStatic,
		ReservedCount:          1,
		Isolated:               IsolatedIgnore,
		MemoryManager:          MemoryManagerStatic,
		ReservedMemory:         []ReservedMemory{{Node: 0, Type: memoryType, Bytes: 1}},
		TopologyManager:        []TopologyManager{TopologyManagerBestEffort, TopologyManagerRestricted}[random.IntN(2)],
		PreferClosestNUMANodes: flip(),
		Options:                Options{FullPCPUsOnly: flip(), DistributeCPUsAcrossNUMA: flip()},
	}
	p.Options.AlignBySocket = flip() && len(m.Packages) <= len(nodeSets(m))
	a, err := New(m, p)
	if err != nil {
		b.Fatal(err)
	}
	return a
}
