// Package webtest makes up reports of busy nodes, for tests and screenshots of what shows them.
package webtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"nri-cpuset/plugin/web"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// Shape is a regular machine. The threads of a core are numbered apart, as x86 numbers them: the first thread of every core comes first.
type Shape struct {
	Packages, Nodes, Caches, Cores, Threads int // of the machine; in each package; in each node; at each cache; in each core
}

// The machines that pictures are looked at on.
var (
	Laptop = Shape{Packages: 1, Nodes: 1, Caches: 1, Cores: 4, Threads: 2}
	Server = Shape{Packages: 2, Nodes: 2, Caches: 4, Cores: 4, Threads: 2}
	Giant  = Shape{Packages: 2, Nodes: 4, Caches: 4, Cores: 8, Threads: 2}
)

// CPUs returns how many CPUs the machine has.
func (s Shape) CPUs() int { return s.Packages * s.Nodes * s.Caches * s.Cores * s.Threads }

// Machine returns the machine, some CPUs of which are offline.
func (s Shape) Machine(offline ...int) *topology.Machine {
	type cpu struct {
		ID     int `json:"id"`
		Core   int `json:"core"`
		Socket int `json:"socket"`
		NUMA   int `json:"numa"`
		LLC    int `json:"llc"`
	}
	type node struct {
		ID        int            `json:"id"`
		MemoryKiB int            `json:"memoryKiB"`
		HugePages map[string]int `json:"hugePages"`
	}
	var d struct {
		CPUs      []cpu  `json:"cpus"`
		NUMANodes []node `json:"numaNodes"`
	}
	cores := s.CPUs() / s.Threads
	for id := range s.CPUs() {
		if slices.Contains(offline, id) {
			continue
		}
		core := id % cores
		llc := core / s.Cores
		numa := llc / s.Caches
		d.CPUs = append(d.CPUs, cpu{ID: id, Core: core, Socket: numa / s.Nodes, NUMA: numa, LLC: llc})
	}
	for id := range s.Packages * s.Nodes {
		d.NUMANodes = append(d.NUMANodes, node{ID: id, MemoryKiB: 64 << 20, HugePages: map[string]int{"2048": 512}})
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	m, err := topology.ParseDescription(text)
	if err != nil {
		panic(err)
	}
	m.Offline = cpuset.New(offline...)
	return m
}

// Now is when the reports were made.
var Now = time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC)

// Report returns the report of a machine on which the first core is reserved, the last is isolated, and about half of the rest is handed out,
// to containers of 1, 2, 4 and 8 cores.
func (s Shape) Report() web.Report {
	m := s.Machine()
	first, last := m.Cores[0].CPUs, m.Cores[len(m.Cores)-1].CPUs
	m.Isolated = last
	r := web.Report{
		Node: fmt.Sprintf("worker-%d", s.CPUs()), Version: "v1.0.0 (3f2c91e)", Time: Now, Started: Now.Add(-49 * time.Hour),
		Runtime: &web.Runtime{Name: "containerd", Version: "v2.4.2", NRI: "v0.12.3"}, Ready: true,
		Policy: "static", PolicyOptions: []string{"full-pcpus-only", "prefer-align-cpus-by-uncorecache"},
		MemoryManagerPolicy: "Static", TopologyManagerPolicy: "single-numa-node", TopologyManagerScope: "pod",
		Config: config, Machine: m, Online: m.Online, Reserved: first, Isolated: last,
		Containers: []web.Container{}, Refusals: refusals,
	}
	sizes := []int{1, 2, 4, 8}
	names := []string{"web/frontend-6d5f/nginx", "db/postgres-0/postgres", "edge/packet-core-upf-0/upf", "ml/trainer-7c9b/worker"}
	for core, i := 1, 0; core < len(m.Cores)-1; i++ {
		kind := i % len(sizes)
		var cpus cpuset.Set
		for end := core + sizes[kind]; core < end && core < len(m.Cores)-1; core++ {
			cpus = cpus.Union(m.Cores[core].CPUs)
		}
		core += sizes[(i+1)%len(sizes)] // left to the shared pool
		r.Exclusive = r.Exclusive.Union(cpus)
		cpu, _ := m.CPU(cpus.First())
		r.Containers = append(r.Containers, exclusive(fmt.Sprintf("%s-%d", names[kind], i), cpus, m.Nodes[cpu.Node].ID, i))
	}
	r.Shared = m.Online.Difference(r.Exclusive).Difference(m.Isolated)
	for i, name := range []string{"kube-system/coredns-5d78c/coredns", "kube-system/kube-proxy-x2x8z/kube-proxy", "web/sidecar-injected-1/envoy"} {
		c := container(name, 100+i)
		c.Policy, c.Why = web.PolicyShared, "its pod is not Guaranteed"
		r.Containers = append(r.Containers, c)
	}
	return r
}

func exclusive(name string, cpus cpuset.Set, node, i int) web.Container {
	c := container(name, i)
	c.Exclusive, c.Policy, c.CPUs, c.Mems = true, web.PolicyExclusive, cpus, cpuset.New(node)
	c.Why = fmt.Sprintf("whole cores on NUMA node %d, which had the fewest free CPUs that were enough", node)
	return c
}

func container(name string, i int) web.Container {
	parts := strings.Split(name, "/")
	return web.Container{
		Namespace: parts[0], Pod: parts[1], Name: parts[2], PodUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), ID: fmt.Sprintf("%064x", i),
		Phase: "running", Since: Now.Add(-time.Duration(i*i+3) * 7 * time.Minute / 3),
	}
}

var refusals = []web.Refusal{
	{
		Time: Now.Add(-4 * time.Minute), Namespace: "ml", Pod: "trainer-wide-0", Container: "worker",
		Message: "TopologyAffinityError: 24 CPUs were asked for, on one NUMA node (single-numa-node); free are 12 on node 0, 6 on node 1. " +
			"Ask for at most 12, or set topologyManagerPolicy to best-effort.",
	},
	{
		Time: Now.Add(-3 * time.Hour), Namespace: "edge", Pod: "odd-0", Container: "main",
		Message: "SMTAlignmentError: 3 CPUs were asked for, and with full-pcpus-only they come in whole cores of 2 threads. Ask for 2 or 4.",
	},
}

const config = `cpuManagerPolicy: static
cpuManagerPolicyOptions:
  full-pcpus-only: "true"
  prefer-align-cpus-by-uncorecache: "true"
systemReserved:
  cpu: 500m
  memory: 1Gi
memoryManagerPolicy: Static
reservedMemory:
  - numaNode: 0
    limits:
      memory: 1Gi
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
exclusiveScope: pod
isolatedCPUs: exclude
disableCPUQuotaWithExclusiveCPUs: true
auditInterval: 30s
`
