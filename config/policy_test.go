package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

func TestPolicy(t *testing.T) {
	with := func(change func(*allocator.Policy)) allocator.Policy {
		p := allocator.Policy{
			CPUManager:      allocator.CPUManagerNone,
			Isolated:        allocator.IsolatedExclude,
			MemoryManager:   allocator.MemoryManagerNone,
			TopologyManager: allocator.TopologyManagerNone,
			Scope:           allocator.ScopeContainer,
		}
		change(&p)
		return p
	}
	for _, test := range []struct {
		name string
		text string
		want allocator.Policy
	}{
		{"defaults", "", with(func(*allocator.Policy) {})},
		{
			"policies", "{cpuManagerPolicy: static, memoryManagerPolicy: Static, topologyManagerPolicy: best-effort, topologyManagerScope: pod, isolatedCPUs: ignore}",
			allocator.Policy{
				CPUManager: allocator.CPUManagerStatic, MemoryManager: allocator.MemoryManagerStatic, TopologyManager: allocator.TopologyManagerBestEffort,
				Scope: allocator.ScopePod, Isolated: allocator.IsolatedIgnore,
			},
		},
		{"half a CPU is one", "systemReserved: {cpu: 500m}", with(func(p *allocator.Policy) { p.ReservedCount = 1 })},
		{"halves are added before they are rounded", "{kubeReserved: {cpu: 500m}, systemReserved: {cpu: 1500m}}", with(func(p *allocator.Policy) { p.ReservedCount = 2 })},
		{"a little over is one more", "{kubeReserved: {cpu: 1}, systemReserved: {cpu: 1m}}", with(func(p *allocator.Policy) { p.ReservedCount = 2 })},
		{"memory reserves no CPU", "kubeReserved: {memory: 4Gi}", with(func(*allocator.Policy) {})},
		{"reserved by number", `reservedSystemCPUs: "0,8"`, with(func(p *allocator.Policy) { p.ReservedCPUs = cpuset.New(0, 8) })},
		{
			"options of the static policy",
			`cpuManagerPolicyOptions: {full-pcpus-only: "true", distribute-cpus-across-numa: "T", align-by-socket: "1", ` +
				`distribute-cpus-across-cores: "True", strict-cpu-reservation: "TRUE", prefer-align-cpus-by-uncorecache: "t"}`,
			with(func(p *allocator.Policy) {
				p.Options = allocator.Options{
					FullPCPUsOnly: true, DistributeCPUsAcrossNUMA: true, AlignBySocket: true,
					DistributeCPUsAcrossCores: true, StrictCPUReservation: true, PreferAlignCPUsByUncoreCache: true,
				}
			}),
		},
		{"an option that is off", `cpuManagerPolicyOptions: {full-pcpus-only: "false"}`, with(func(*allocator.Policy) {})},
		{
			"options of the topology manager", `topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true", max-allowable-numa-nodes: "64"}`,
			with(func(p *allocator.Policy) { p.PreferClosestNUMANodes = true }),
		},
		{
			"memory, ordered by node and resource",
			"reservedMemory: [{numaNode: 1, limits: {memory: 1Gi}}, {numaNode: 0, limits: {memory: 512Mi, hugepages-2Mi: 4Mi, hugepages-1Gi: 1Gi}}, {numaNode: 0, limits: {hugepages-64Ki: 1M}}]",
			with(func(p *allocator.Policy) {
				p.ReservedMemory = []allocator.ReservedMemory{
					{Node: 0, Type: "hugepages-1Gi", Bytes: 1 << 30},
					{Node: 0, Type: "hugepages-2Mi", Bytes: 4 << 20},
					{Node: 0, Type: "memory", Bytes: 512 << 20},
					{Node: 0, Type: "hugepages-64Ki", Bytes: 1_000_000},
					{Node: 1, Type: "memory", Bytes: 1 << 30},
				}
			}),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Parse([]byte(test.text), "")
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Policy()
			if err != nil {
				t.Fatalf("Policy: %v", err)
			}
			if diff := cmp.Diff(test.want, got, exact); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPolicyErrors is about settings that nobody parsed.
func TestPolicyErrors(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings Config
		want     string
	}{
		{"option", Config{CPUManagerPolicyOptions: map[string]string{"full": "true"}}, `cpuManagerPolicyOptions: unknown option "full"`},
		{
			"value",
			Config{CPUManagerPolicyOptions: map[string]string{"full-pcpus-only": "on"}},
			`cpuManagerPolicyOptions.full-pcpus-only: "on" is neither "true" nor "false"`,
		},
		{
			"topology",
			Config{TopologyManagerPolicyOptions: map[string]string{"prefer-closest-numa-nodes": "on"}},
			`topologyManagerPolicyOptions.prefer-closest-numa-nodes: "on" is neither "true" nor "false"`,
		},
		{"CPUs", Config{KubeReserved: map[string]string{"cpu": "one"}}, `kubeReserved.cpu: "one" is no amount: write it as in 500m or 1Gi`},
		{
			"memory",
			Config{ReservedMemory: []MemoryReservation{{NUMANode: 1, Limits: map[string]string{"memory": "-1"}}}},
			`reservedMemory: NUMA node 1: memory: "-1" is less than nothing`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := test.settings.Policy(); err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
