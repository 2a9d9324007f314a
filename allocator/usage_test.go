package allocator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

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
