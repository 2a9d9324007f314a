package kubelet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/plugin/simulate"
)

// randomScenario makes up settings that the machine may have, and pods that come and go.
func randomScenario(name string, m *Machine, random *rand.Rand) (*simulate.Scenario, error) {
	config, err := json.Marshal(randomConfig(m, random))
	if err != nil {
		return nil, err
	}
	s := &simulate.Scenario{Name: name, Topology: m.Name, Config: config}
	var there []string
	for i := range 4 + random.IntN(24) {
		if len(there) > 0 && random.IntN(4) == 0 {
			k := random.IntN(len(there))
			s.Steps = append(s.Steps, simulate.Step{Remove: there[k]})
			there = append(there[:k], there[k+1:]...)
			continue
		}
		pod := randomPod(fmt.Sprintf("pod-%d", i), m, random)
		there = append(there, pod.Name)
		s.Steps = append(s.Steps, simulate.Step{Add: pod})
	}
	return s, nil
}

func randomConfig(m *Machine, random *rand.Rand) map[string]any {
	c := map[string]any{
		"cpuManagerPolicy":      "static",
		"memoryManagerPolicy":   pick(random, "None", "Static"),
		"topologyManagerPolicy": pick(random, "none", "best-effort", "best-effort", "restricted", "restricted", "single-numa-node"),
		"topologyManagerScope":  pick(random, "container", "container", "pod"),
		// Both read a described machine, which has no isolated CPUs; ours is told to treat it as the kubelet does all the same.
		"isolatedCPUs": "ignore",
	}
	if options := randomOptions(m, c["topologyManagerPolicy"] == "single-numa-node", random); len(options) > 0 {
		c["cpuManagerPolicyOptions"] = options
	}
	// The kubelet looks distances up by node number in a list by place, and panics where numbers are left out.
	dense := m.Nodes[len(m.Nodes)-1].ID == len(m.Nodes)-1
	if c["topologyManagerPolicy"] != "none" && dense && random.IntN(3) == 0 {
		c["topologyManagerPolicyOptions"] = map[string]string{"prefer-closest-numa-nodes": "true"}
	}
	reserveCPUs(c, m, random)
	if c["memoryManagerPolicy"] == "Static" {
		c["reservedMemory"] = randomReservedMemory(m, random)
	}
	return c
}

// randomOptions returns options that go together, with each other and with the machine.
func randomOptions(m *Machine, singleNUMANode bool, random *rand.Rand) map[string]string {
	on := map[string]string{}
	set := func(name string, oneOf int) {
		if random.IntN(oneOf) == 0 {
			on[name] = "true"
		}
	}
	switch random.IntN(5) {
	case 0:
		on["distribute-cpus-across-cores"] = "true"
	case 1:
		if len(m.Nodes) <= 4 { // beyond, the kubelet's search goes wrong, or on for ever
			on["distribute-cpus-across-numa"] = "true"
		}
		set("full-pcpus-only", 2)
	case 2:
		on["prefer-align-cpus-by-uncorecache"] = "true"
		set("full-pcpus-only", 2)
	default:
		set("full-pcpus-only", 2)
	}
	set("strict-cpu-reservation", 4)
	if !singleNUMANode && m.sockets() <= m.nodesWithCPUs() {
		set("align-by-socket", 5)
	}
	return on
}

func reserveCPUs(c map[string]any, m *Machine, random *rand.Rand) {
	if random.IntN(2) == 0 {
		c["systemReserved"] = map[string]string{"cpu": pick(random, "500m", "1", "1500m", "2", "3", "4")}
		if random.IntN(3) == 0 {
			c["kubeReserved"] = map[string]string{"cpu": pick(random, "500m", "250m", "1")}
		}
		return
	}
	ids := map[int]bool{}
	for range 1 + random.IntN(4) {
		ids[m.CPUs[random.IntN(len(m.CPUs))].ID] = true
	}
	var list []string
	for id := range len(m.CPUs) {
		if ids[id] {
			list = append(list, fmt.Sprint(id))
		}
	}
	c["reservedSystemCPUs"] = strings.Join(list, ",")
}

func randomReservedMemory(m *Machine, random *rand.Rand) []map[string]any {
	var reserved []map[string]any
	for i := range m.Nodes {
		if i > 0 && random.IntN(2) == 0 {
			continue
		}
		limits := map[string]string{"memory": pick(random, "256Mi", "1Gi", "512Mi")}
		if m.Nodes[i].HugePages["1048576"] > 1 && random.IntN(6) == 0 {
			limits["hugepages-1Gi"] = "1Gi"
		}
		reserved = append(reserved, map[string]any{"numaNode": m.Nodes[i].ID, "limits": limits})
	}
	return reserved
}

func randomPod(name string, m *Machine, random *rand.Rand) *kubepod.Pod {
	pod := &kubepod.Pod{Name: name}
	kind := random.IntN(10)
	for i := range pick(random, 1, 1, 1, 1, 1, 1, 2, 3) {
		c := kubepod.Container{Name: fmt.Sprintf("c%d", i)}
		switch kind {
		case 0: // BestEffort
		case 1: // Burstable
			c.Requests = resources("cpu", pick(random, "250m", "1", "2"), "memory", "64Mi")
		default:
			c.Limits = guaranteed(m, random)
			c.Requests = c.Limits
		}
		pod.Containers = append(pod.Containers, c)
	}
	return pod
}

// guaranteed asks for little mostly, and now and then for more than one node has.
func guaranteed(m *Machine, random *rand.Rand) kubepod.Resources {
	cpus := fmt.Sprint(1 + random.IntN(6))
	switch random.IntN(8) {
	case 0:
		cpus = pick(random, "1500m", "250m", "700m")
	case 1, 2:
		cpus = fmt.Sprint(1 + random.IntN(1+len(m.CPUs)*3/4))
	}
	total := m.Nodes[0].MemoryKiB >> 10
	mib := 64 + random.Uint64N(total/4)
	if random.IntN(5) == 0 {
		mib = 64 + random.Uint64N(total*2)
	}
	r := resources("cpu", cpus, "memory", fmt.Sprintf("%dMi", mib))
	for size, name := range map[string]string{"2048": "hugepages-2Mi", "1048576": "hugepages-1Gi"} {
		count := m.Nodes[0].HugePages[size]
		if count == 0 {
			continue
		}
		if random.IntN(4) > 0 {
			continue
		}
		pages := 1 + random.Uint64N(count)
		if random.IntN(4) == 0 {
			pages = 1 + random.Uint64N(2*count)
		}
		page := uint64(2)
		if size == "1048576" {
			page = 1024
		}
		r[name] = resource.MustParse(fmt.Sprintf("%dMi", pages*page))
	}
	return r
}

func resources(pairs ...string) kubepod.Resources {
	r := kubepod.Resources{}
	for i := 0; i < len(pairs); i += 2 {
		r[pairs[i]] = resource.MustParse(pairs[i+1])
	}
	return r
}

func (m *Machine) sockets() int { return m.count(func(c *CPU) int { return c.Socket }) }

func (m *Machine) nodesWithCPUs() int { return m.count(func(c *CPU) int { return c.NUMA }) }

func (m *Machine) count(of func(*CPU) int) int {
	seen := map[int]bool{}
	for i := range m.CPUs {
		seen[of(&m.CPUs[i])] = true
	}
	return len(seen)
}
