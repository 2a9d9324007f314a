package allocator

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

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
