package allocator_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nri-cpuset/allocator"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

const gib = 1 << 30

// twoNodes has 2 packages, each one NUMA node of 4 cores and 8 GiB: node 0 is CPUs 0-3,8-11, node 1 is 4-7,12-15, and CPU n shares its core
// with n+8. CPU 0 is reserved by the tests.
func twoNodes(t *testing.T) *topology.Machine {
	t.Helper()
	return shape{packages: 2, nodes: 1, caches: 2, cores: 2, threads: 2, memoryGiB: 8}.machine(t)
}

// static returns the policy of most tests, with what a case changes.
func static(change func(*allocator.Policy)) allocator.Policy {
	p := allocator.Policy{CPUManager: allocator.CPUManagerStatic, ReservedCPUs: cpuset.New(0)}
	if change != nil {
		change(&p)
	}
	return p
}

func withMemory(p *allocator.Policy) {
	p.MemoryManager = allocator.MemoryManagerStatic
	p.ReservedMemory = []allocator.ReservedMemory{{Node: 0, Type: "memory", Bytes: gib}}
}

// request asks for CPUs and GiB of memory.
func request(cpus int, memoryGiB uint64) allocator.Request {
	r := allocator.Request{Amount: allocator.Amount{CPUs: cpus}}
	if memoryGiB > 0 {
		r.Memory = allocator.Memory{"memory": memoryGiB * gib}
	}
	return r
}

// on is a placement of CPUs, in the kernel's list format.
func on(cpus string) allocator.Placement { return allocator.Placement{CPUs: cpuset.MustParse(cpus)} }

func TestPlace(t *testing.T) {
	tests := []struct {
		name    string
		isolate string
		change  func(*allocator.Policy)
		taken   []allocator.Placement
		request allocator.Request
		want    string // CPUs, or the refusal's reason
		mems    string
		why     string
	}{
		{
			name: "two CPUs are a whole core", request: request(2, 0),
			want: "1,9", why: "packed, 2 CPUs in 1 whole core on NUMA node 0",
		},
		{
			name: "the node that is fuller is filled first", taken: []allocator.Placement{on("4-5,12-13")}, request: request(2, 0),
			want: "6,14",
		},
		{
			name: "no CPUs asked is the shared pool", request: request(0, 0),
			want: "", why: "shared pool",
		},
		{
			name: "policy none gives nobody CPUs", request: request(4, 0),
			change: func(p *allocator.Policy) { p.CPUManager = allocator.CPUManagerNone },
			want:   "",
		},
		{
			name: "more than there are", request: request(16, 0),
			want: "UnexpectedAdmissionError",
		},
		{
			name: "three CPUs with full-pcpus-only", request: request(3, 0),
			change: func(p *allocator.Policy) { p.Options.FullPCPUsOnly = true },
			want:   "SMTAlignmentError",
		},
		{
			name: "cores that hold a reserved CPU do not count with full-pcpus-only", request: request(16, 0),
			change: func(p *allocator.Policy) { p.Options.FullPCPUsOnly = true },
			want:   "SMTAlignmentError",
		},
		{
			name:    "the last shared CPUs, while somebody runs there",
			change:  func(p *allocator.Policy) { p.Options.StrictCPUReservation = true },
			request: allocator.Request{Amount: allocator.Amount{CPUs: 15}, KeepShared: true},
			want:    "UnexpectedAdmissionError",
		},
		{
			name:    "the last shared CPUs, while nobody runs there",
			change:  func(p *allocator.Policy) { p.Options.StrictCPUReservation = true },
			request: request(15, 0),
			want:    "1-15",
		},
		{
			name:    "all that is not reserved, where the reserved CPUs are shared",
			request: allocator.Request{Amount: allocator.Amount{CPUs: 15}, KeepShared: true},
			want:    "1-15",
		},
		{
			name:    "an empty shared pool takes nobody",
			change:  func(p *allocator.Policy) { p.Options.StrictCPUReservation = true },
			taken:   []allocator.Placement{on("1-15")},
			request: request(0, 0),
			want:    "UnexpectedAdmissionError",
		},
		{
			name: "isolated CPUs are nobody's", isolate: "4-7,12-15", request: request(8, 0),
			want: "UnexpectedAdmissionError",
		},
		{
			name: "isolated CPUs come first", isolate: "6-7,14-15", request: request(2, 0),
			change: func(p *allocator.Policy) { p.Isolated = allocator.IsolatedExclusive },
			want:   "6,14",
		},
		{
			name: "isolated CPUs and then others", isolate: "7,15", request: request(4, 0),
			change: func(p *allocator.Policy) { p.Isolated = allocator.IsolatedExclusive },
			want:   "4,7,12,15",
		},
		{
			name: "isolated CPUs are like any other", isolate: "1,9", request: request(2, 0),
			change: func(p *allocator.Policy) { p.Isolated = allocator.IsolatedIgnore },
			want:   "1,9",
		},
		{
			name: "what the pod has left is taken first", taken: []allocator.Placement{on("6,14")},
			request: allocator.Request{Amount: allocator.Amount{CPUs: 2}, Reusable: on("6,14")},
			want:    "6,14", why: "reused, 2 CPUs in 1 whole core on NUMA node 1",
		},
		{
			name: "and what is next to it", taken: []allocator.Placement{on("6")},
			request: allocator.Request{Amount: allocator.Amount{CPUs: 3}, Reusable: on("6")},
			want:    "6-7,14",
		},
		{
			name: "a restart in place", taken: []allocator.Placement{on("3,5")},
			request: allocator.Request{Amount: allocator.Amount{CPUs: 2}, Held: on("3,5")},
			want:    "3,5",
		},
		{
			name: "growth takes the same core first", taken: []allocator.Placement{on("6")},
			request: allocator.Request{Amount: allocator.Amount{CPUs: 2}, Held: on("6")},
			want:    "6,14", why: "grown, 2 CPUs in 1 whole core on NUMA node 1",
		},
		{
			name: "then the same cache", taken: []allocator.Placement{on("6,14"), on("1,9")},
			request: allocator.Request{Amount: allocator.Amount{CPUs: 4}, Held: on("6,14")},
			want:    "6-7,14-15",
		},
		{
			name: "then the same node", taken: []allocator.Placement{on("6-7,14-15"), on("1,9")},
			request: allocator.Request{Amount: allocator.Amount{CPUs: 6}, Held: on("6-7,14-15")},
			want:    "4,6-7,12,14-15",
		},
		{
			name: "growth that does not fit", taken: []allocator.Placement{on("6,14"), on("1-5,7-13")},
			request: allocator.Request{Amount: allocator.Amount{CPUs: 4}, Held: on("6,14")},
			want:    "UnexpectedAdmissionError",
		},
		{
			name: "shrinking keeps a whole core", taken: []allocator.Placement{on("5-7,14")},
			request: allocator.Request{Amount: allocator.Amount{CPUs: 2}, Held: on("5-7,14")},
			want:    "6,14", why: "shrunk, 2 CPUs in 1 whole core on NUMA node 1",
		},
		{
			name: "shrinking to a part of a core with full-pcpus-only", taken: []allocator.Placement{on("5-6,13-14")},
			change:  func(p *allocator.Policy) { p.Options.FullPCPUsOnly = true },
			request: allocator.Request{Amount: allocator.Amount{CPUs: 3}, Held: on("5-6,13-14")},
			want:    "SMTAlignmentError",
		},
		{
			name: "to the shared pool", taken: []allocator.Placement{on("5,13")},
			request: allocator.Request{Held: on("5,13")},
			want:    "", why: "shared pool",
		},
		{
			name: "growth beyond a node under single-numa-node", taken: []allocator.Placement{on("4-7,12-15")},
			change:  func(p *allocator.Policy) { p.TopologyManager = allocator.TopologyManagerSingleNUMANode },
			request: allocator.Request{Amount: allocator.Amount{CPUs: 10}, Held: on("4-7,12-15")},
			want:    "TopologyAffinityError",
		},
		{
			name:    "single-numa-node",
			change:  func(p *allocator.Policy) { p.TopologyManager = allocator.TopologyManagerSingleNUMANode },
			taken:   []allocator.Placement{on("1-2,4-5,9")},
			request: request(6, 0),
			want:    "6-7,12-15",
		},
		{
			name:    "single-numa-node where no node has them",
			change:  func(p *allocator.Policy) { p.TopologyManager = allocator.TopologyManagerSingleNUMANode },
			taken:   []allocator.Placement{on("1-2,4-6,9")},
			request: request(6, 0),
			want:    "TopologyAffinityError",
		},
		{
			name:    "a device draws its container to its node",
			change:  func(p *allocator.Policy) { p.TopologyManager = allocator.TopologyManagerRestricted },
			request: allocator.Request{Amount: allocator.Amount{CPUs: 2}, Devices: []allocator.Device{{Name: "nic", Nodes: cpuset.New(1)}}},
			want:    "4,12",
		},
		{
			name:   "two devices on two nodes and CPUs that need one",
			change: func(p *allocator.Policy) { p.TopologyManager = allocator.TopologyManagerRestricted },
			request: allocator.Request{
				Amount: allocator.Amount{CPUs: 2}, Devices: []allocator.Device{{Nodes: cpuset.New(0)}, {Nodes: cpuset.New(1)}},
			},
			want: "TopologyAffinityError",
		},
		{
			name:    "a device that is on no node has no opinion",
			change:  func(p *allocator.Policy) { p.TopologyManager = allocator.TopologyManagerRestricted },
			request: allocator.Request{Amount: allocator.Amount{CPUs: 2}, Devices: []allocator.Device{{Name: "null"}}},
			want:    "1,9",
		},
		{
			name: "memory follows the CPUs", request: request(2, 4),
			change: func(p *allocator.Policy) { withMemory(p); p.TopologyManager = allocator.TopologyManagerBestEffort },
			taken:  []allocator.Placement{on("1-3,8-11")},
			want:   "4,12", mems: "1", why: "packed, 2 CPUs in 1 whole core on NUMA node 1; memory on NUMA node 1",
		},
		{
			name: "CPUs follow the memory", request: request(2, 8),
			change: func(p *allocator.Policy) { withMemory(p); p.TopologyManager = allocator.TopologyManagerRestricted },
			want:   "4,12", mems: "1",
		},
		{
			name: "memory without CPUs of its own", request: request(0, 3), change: withMemory,
			want: "", mems: "0", why: "shared pool; memory on NUMA node 0",
		},
		{
			name: "memory of two nodes", request: request(0, 9), change: withMemory,
			want: "", mems: "0-1",
		},
		{
			name: "memory without the CPU manager", request: request(2, 3),
			change: func(p *allocator.Policy) { withMemory(p); p.CPUManager = allocator.CPUManagerNone },
			want:   "", mems: "0", why: "memory on NUMA node 0",
		},
		{
			name: "a node in use alone is not grouped", request: request(0, 9), change: withMemory,
			taken: []allocator.Placement{{Blocks: []allocator.Block{
				{Type: "memory", Nodes: cpuset.New(1), Bytes: map[int]uint64{1: gib}},
			}}},
			want: "UnexpectedAdmissionError",
		},
		{
			name: "a node in a group is not used alone", request: request(0, 1), change: withMemory,
			taken: []allocator.Placement{{Blocks: []allocator.Block{
				{Type: "memory", Nodes: cpuset.New(0, 1), Bytes: map[int]uint64{0: 7 * gib, 1: 2 * gib}},
			}}},
			want: "", mems: "0-1",
		},
		{
			name: "CPUs on one node do not lead memory out of its group", request: request(2, 1),
			change: func(p *allocator.Policy) { withMemory(p); p.TopologyManager = allocator.TopologyManagerBestEffort },
			taken: []allocator.Placement{{Blocks: []allocator.Block{
				{Type: "memory", Nodes: cpuset.New(0, 1), Bytes: map[int]uint64{0: 7 * gib, 1: 2 * gib}},
			}}},
			want: "1,9", mems: "0-1",
		},
		{
			name: "huge pages that are not there", change: withMemory,
			request: allocator.Request{Amount: allocator.Amount{Memory: allocator.Memory{"memory": gib, "hugepages-1Gi": gib}}},
			want:    "UnexpectedAdmissionError",
		},
		{
			name:   "CPUs follow the memory that a container has",
			change: func(p *allocator.Policy) { withMemory(p); p.TopologyManager = allocator.TopologyManagerBestEffort },
			request: allocator.Request{
				Amount: request(2, 1).Amount,
				Held: allocator.Placement{Blocks: []allocator.Block{
					{Type: "memory", Nodes: cpuset.New(1), Bytes: map[int]uint64{1: gib}},
				}},
			},
			want: "4,12", mems: "1",
		},
		{
			name: "the pod's total decides, not the container's",
			change: func(p *allocator.Policy) {
				p.TopologyManager = allocator.TopologyManagerSingleNUMANode
				p.Scope = allocator.ScopePod
			},
			request: allocator.Request{Amount: allocator.Amount{CPUs: 2}, Pod: &allocator.Amount{CPUs: 10}},
			want:    "TopologyAffinityError",
		},
		{
			name: "the other containers go where the first one went",
			change: func(p *allocator.Policy) {
				p.TopologyManager = allocator.TopologyManagerSingleNUMANode
				p.Scope = allocator.ScopePod
			},
			request: allocator.Request{Amount: allocator.Amount{CPUs: 2}, Affinity: &allocator.Affinity{Nodes: cpuset.New(0), Preferred: true}},
			want:    "1,9",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := *twoNodes(t)
			m.Isolated = cpuset.MustParse(test.isolate)
			a, err := allocator.New(&m, static(test.change))
			if err != nil {
				t.Fatal(err)
			}
			u := a.NewUsage()
			for _, p := range test.taken {
				u.Take(p)
			}
			got, err := a.Place(u, test.request)
			if refusal := new(allocator.Refusal); errors.As(err, &refusal) {
				if string(refusal.Reason) != test.want {
					t.Errorf("got %v, want %q", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.CPUs.String() != test.want || got.Mems().String() != test.mems {
				t.Errorf("got CPUs %q mems %q, want %q %q", got.CPUs, got.Mems(), test.want, test.mems)
			}
			if test.why != "" && got.Why != test.why {
				t.Errorf("why: got %q, want %q", got.Why, test.why)
			}
		})
	}
}

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

func TestRefusals(t *testing.T) {
	restricted := func(p *allocator.Policy) { withMemory(p); p.TopologyManager = allocator.TopologyManagerRestricted }
	tests := []struct {
		name    string
		change  func(*allocator.Policy)
		taken   string
		request allocator.Request
		want    string
	}{
		{
			"not enough CPUs", nil, "1-13", request(4, 0),
			"UnexpectedAdmissionError: cpuManagerPolicy static: 4 CPUs asked, 2 free (node 1: 2 CPUs free: 14-15)",
		},
		{
			"not a multiple", func(p *allocator.Policy) { p.Options.FullPCPUsOnly = true }, "", request(3, 0),
			"SMTAlignmentError: full-pcpus-only: 3 CPUs asked, and a core has 2: ask for a multiple",
		},
		{
			"no node", func(p *allocator.Policy) { p.TopologyManager = allocator.TopologyManagerSingleNUMANode }, "1-2,4-5,9", request(7, 0),
			"TopologyAffinityError: topologyManagerPolicy single-numa-node: 7 CPUs asked, which no NUMA node has free together " +
				"(node 0: 4 CPUs free: 3,8,10-11; node 1: 6 CPUs free: 6-7,12-15)",
		},
		{
			"no node has it free", restricted, "1-2,4-5,9", request(7, 2),
			"TopologyAffinityError: topologyManagerPolicy restricted: 7 CPUs, 2Gi memory asked, which fits on one NUMA node, and none has it free " +
				"(node 0: 4 CPUs free: 3,8,10-11, 7Gi memory free; node 1: 6 CPUs free: 6-7,12-15, 8Gi memory free)",
		},
		{
			"no two opinions alike", restricted, "", request(2, 9),
			"TopologyAffinityError: topologyManagerPolicy restricted: 2 CPUs, 9Gi memory asked, which would take different numbers of NUMA nodes: " +
				"CPUs 1, memory 2 (node 0: 7 CPUs free: 1-3,8-11, 7Gi memory free; node 1: 8 CPUs free: 4-7,12-15, 8Gi memory free)",
		},
		{
			"no memory", withMemory, "", request(0, 16),
			"UnexpectedAdmissionError: memoryManagerPolicy Static: 16Gi memory asked, which no NUMA nodes have free together " +
				"(node 0: 7Gi memory free; node 1: 8Gi memory free)",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a, err := allocator.New(twoNodes(t), static(test.change))
			if err != nil {
				t.Fatal(err)
			}
			u := a.NewUsage()
			u.Take(on(test.taken))
			if _, err := a.Place(u, test.request); err == nil || err.Error() != test.want {
				t.Errorf("got\n%v\nwant\n%s", err, test.want)
			}
		})
	}
}

// A refusal ends up in the pod's events: it may not grow with the machine.
func TestRefusalsAreShort(t *testing.T) {
	m := shape{packages: 8, nodes: 8, caches: 1, cores: 8, threads: 2, memoryGiB: 8}.machine(t)
	a, err := allocator.New(m, static(func(p *allocator.Policy) { withMemory(p); p.TopologyManager = allocator.TopologyManagerSingleNUMANode }))
	if err != nil {
		t.Fatal(err)
	}
	u := a.NewUsage()
	for cpu := 2; cpu < m.Online.Len(); cpu += 2 {
		u.Take(allocator.Placement{CPUs: cpuset.New(cpu)})
	}
	r := request(32, 9)
	for range 20 {
		r.Devices = append(r.Devices, allocator.Device{Name: strings.Repeat("x", 1000), Nodes: cpuset.Range(0, 63)})
	}
	_, err = a.Place(u, r)
	if err == nil || len(err.Error()) > 2000 || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %d bytes: %v", len(err.Error()), err)
	}
}

func TestKeeps(t *testing.T) {
	tests := []struct {
		name    string
		isolate string
		change  func(*allocator.Policy)
		has     allocator.Placement
		want    string // in the error; empty for none
	}{
		{"CPUs and memory that are there", "", withMemory, allocator.Placement{
			CPUs: cpuset.New(1, 9), Blocks: []allocator.Block{{Type: "memory", Nodes: cpuset.New(0, 1)}},
		}, ""},
		{"nothing", "", nil, allocator.Placement{}, ""},
		{"CPUs that went offline", "", nil, on("15-17"), "CPUs 16-17 are not online"},
		{"CPUs that are reserved now", "", nil, on("0-1"), "CPUs 0 are reserved"},
		{"CPUs that are isolated", "5", nil, on("5,13"), "CPUs 5 are isolated"},
		{"CPUs that are isolated, and exclusive", "5", func(p *allocator.Policy) { p.Isolated = allocator.IsolatedExclusive }, on("5,13"), ""},
		{"CPUs under policy none", "", func(p *allocator.Policy) { p.CPUManager = allocator.CPUManagerNone }, on("5,13"), "no exclusive CPUs"},
		{"half cores", "", func(p *allocator.Policy) { p.Options.FullPCPUsOnly = true }, on("5,6"), "CPUs 5-6 are parts of cores"},
		{"one CPU", "", func(p *allocator.Policy) { p.Options.FullPCPUsOnly = true }, on("5"), "a core has 2"},
		{"whole cores", "", func(p *allocator.Policy) { p.Options.FullPCPUsOnly = true }, on("5,13"), ""},
		{"the rest of a core that is reserved in part", "", func(p *allocator.Policy) {
			p.Options.FullPCPUsOnly = true
			p.ReservedCPUs = cpuset.New(0, 1)
		}, on("8,9"), ""},
		{"memory of a node that has gone", "", withMemory, allocator.Placement{
			Blocks: []allocator.Block{{Type: "memory", Nodes: cpuset.New(2)}},
		}, "NUMA nodes 2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := *twoNodes(t)
			m.Isolated = cpuset.MustParse(test.isolate)
			a, err := allocator.New(&m, static(test.change))
			if err != nil {
				t.Fatal(err)
			}
			err = a.Keeps(test.has)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestTransfer(t *testing.T) {
	block := func(nodes cpuset.Set, bytes map[int]uint64) allocator.Block {
		return allocator.Block{Type: "memory", Nodes: nodes, Bytes: bytes}
	}
	left := allocator.Placement{CPUs: cpuset.Range(1, 4), Blocks: []allocator.Block{block(cpuset.New(0, 1), map[int]uint64{0: 5, 1: 3})}}
	tests := []struct {
		name  string
		taken allocator.Placement
		want  allocator.Placement
	}{
		{"nothing", allocator.Placement{}, left},
		{"CPUs", on("2-3,7"), allocator.Placement{CPUs: cpuset.New(1, 4), Blocks: left.Blocks}},
		{
			"part of the memory",
			allocator.Placement{Blocks: []allocator.Block{block(cpuset.New(0, 1), map[int]uint64{0: 5, 1: 1})}},
			allocator.Placement{CPUs: left.CPUs, Blocks: []allocator.Block{block(cpuset.New(0, 1), map[int]uint64{1: 2})}},
		},
		{
			"more than all of it",
			allocator.Placement{Blocks: []allocator.Block{block(cpuset.New(0, 1), map[int]uint64{0: 6, 1: 3})}},
			allocator.Placement{CPUs: left.CPUs},
		},
		{
			"memory of other nodes",
			allocator.Placement{Blocks: []allocator.Block{block(cpuset.New(0), map[int]uint64{0: 5})}},
			left,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, allocator.Transfer(left, test.taken), cmp.Comparer(cpuset.Set.Equal)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
