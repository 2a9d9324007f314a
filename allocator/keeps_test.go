package allocator_test

import (
	"strings"
	"testing"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

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
