package allocator_test

import (
	"strings"
	"testing"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(*allocator.Policy)
		want   string // in the error
	}{
		{"nothing reserved", func(p *allocator.Policy) { p.ReservedCPUs = cpuset.Set{} }, "systemReserved.cpu"},
		{"more reserved than there is", func(p *allocator.Policy) { p.ReservedCPUs, p.ReservedCount = cpuset.Set{}, 17 }, "17 CPUs"},
		{"reserved CPUs that are not there", func(p *allocator.Policy) { p.ReservedCPUs = cpuset.New(0, 16) }, "16 is not online"},
		{"everything reserved strictly", func(p *allocator.Policy) {
			p.ReservedCPUs = cpuset.Range(0, 15)
			p.Options.StrictCPUReservation = true
		}, "strict-cpu-reservation"},
		{"an unknown policy", func(p *allocator.Policy) { p.CPUManager = "dynamic" }, `cpuManagerPolicy "dynamic"`},
		{"an unknown scope", func(p *allocator.Policy) { p.Scope = "node" }, `topologyManagerScope "node"`},
		{"options with policy none", func(p *allocator.Policy) {
			p.CPUManager = allocator.CPUManagerNone
			p.Options.FullPCPUsOnly = true
		}, "cpuManagerPolicyOptions"},
		{"cores and full cores", func(p *allocator.Policy) {
			p.Options.DistributeCPUsAcrossCores, p.Options.FullPCPUsOnly = true, true
		}, "exclude each other"},
		{"cores and nodes", func(p *allocator.Policy) {
			p.Options.DistributeCPUsAcrossCores, p.Options.DistributeCPUsAcrossNUMA = true, true
		}, "exclude each other"},
		{"cores and caches", func(p *allocator.Policy) {
			p.Options.DistributeCPUsAcrossCores, p.Options.PreferAlignCPUsByUncoreCache = true, true
		}, "exclude each other"},
		{"nodes and caches", func(p *allocator.Policy) {
			p.Options.DistributeCPUsAcrossNUMA, p.Options.PreferAlignCPUsByUncoreCache = true, true
		}, "exclude each other"},
		{"sockets and single-numa-node", func(p *allocator.Policy) {
			p.Options.AlignBySocket = true
			p.TopologyManager = allocator.TopologyManagerSingleNUMANode
		}, "align-by-socket"},
		{"no memory reserved", func(p *allocator.Policy) { p.MemoryManager = allocator.MemoryManagerStatic }, "reservedMemory"},
		{"memory of a node that is not there", func(p *allocator.Policy) {
			withMemory(p)
			p.ReservedMemory[0].Node = 2
		}, "NUMA node 2"},
		{"more memory than there is", func(p *allocator.Policy) {
			withMemory(p)
			p.ReservedMemory[0].Bytes = 9 * gib
		}, "NUMA node 0"},
		{"huge pages that are not there", func(p *allocator.Policy) {
			withMemory(p)
			p.ReservedMemory[0].Type = "hugepages-1Gi"
		}, "hugepages-1Gi"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := allocator.New(twoNodes(t), static(test.change))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, test.want)
			}
		})
	}
	t.Run("more NUMA nodes than a mask holds", func(t *testing.T) {
		m := shape{packages: 65, nodes: 1, caches: 1, cores: 2, threads: 1, memoryGiB: 1}.machine(t)
		if _, err := allocator.New(m, static(nil)); err != nil {
			t.Errorf("without a topology manager: %v", err)
		}
		_, err := allocator.New(m, static(func(p *allocator.Policy) { p.TopologyManager = allocator.TopologyManagerBestEffort }))
		if err == nil || !strings.Contains(err.Error(), "65 NUMA nodes") {
			t.Errorf("got %v, want one that says how many NUMA nodes there are", err)
		}
	})
	t.Run("more sockets than NUMA nodes", func(t *testing.T) {
		m := readMachine(t, testdata+"/topologies/vm-4s-1n-8c-16t.json")
		_, err := allocator.New(m, static(func(p *allocator.Policy) { p.Options.AlignBySocket = true }))
		if err == nil || !strings.Contains(err.Error(), "align-by-socket") {
			t.Errorf("got %v, want one about align-by-socket", err)
		}
	})
}

func TestSets(t *testing.T) {
	tests := []struct {
		name                                   string
		change                                 func(*allocator.Policy)
		taken                                  string
		reserved, assignable, shared, withheld string
	}{
		{"named reservation", nil, "2,10", "0", "1-3,8-11,4-5,12-13", "0-1,3-5,8-9,11-13", "6-7,14-15"},
		{
			"strict reservation", func(p *allocator.Policy) { p.Options.StrictCPUReservation = true }, "2,10",
			"0", "1-3,8-11,4-5,12-13", "1,3-5,8-9,11-13", "0,6-7,14-15",
		},
		{
			"isolated CPUs for exclusive containers", func(p *allocator.Policy) { p.Isolated = allocator.IsolatedExclusive }, "6,14",
			"0", "1-15", "0-5,8-13", "6-7,14-15",
		},
		{
			"isolated CPUs ignored", func(p *allocator.Policy) { p.Isolated = allocator.IsolatedIgnore }, "6,14",
			"0", "1-15", "0-5,7-13,15", "",
		},
		{
			"a number of reserved CPUs, picked where fewest are free",
			func(p *allocator.Policy) { p.ReservedCPUs, p.ReservedCount = cpuset.Set{}, 3 }, "",
			"4-5,12", "0-3,8-11,13", "0-5,8-13", "6-7,14-15",
		},
		{"policy none", func(p *allocator.Policy) { p.CPUManager = allocator.CPUManagerNone }, "", "", "", "0-15", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := *twoNodes(t)
			m.Isolated = cpuset.MustParse("6-7,14-15")
			a, err := allocator.New(&m, static(test.change))
			if err != nil {
				t.Fatal(err)
			}
			u := a.NewUsage()
			u.Take(on(test.taken))
			check := func(what string, got cpuset.Set, want string) {
				if !got.Equal(cpuset.MustParse(want)) {
					t.Errorf("%s: got %q, want %q", what, got, want)
				}
			}
			check("reserved", a.Reserved(), test.reserved)
			check("assignable", a.Assignable(), test.assignable)
			check("shared", a.Shared(u), test.shared)
			check("withheld", a.Withheld(), test.withheld)
			check("exclusive", u.Exclusive(), test.taken)
		})
	}
}
