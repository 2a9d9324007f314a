package allocator_test

import (
	"strings"
	"testing"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

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
			"TopologyAffinityError: topologyManagerPolicy restricted: 7 CPUs, 2Gi memory asked, which has to be on one NUMA node, and none has it free " +
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
