package allocator_test

import (
	"errors"
	"testing"

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
