package allocator

import (
	"strconv"

	"nri-cpuset/topology/cpuset"
)

// why writes the reason of a placement for people, in one line: "packed, 4 CPUs in 2 whole cores on NUMA node 0; memory on NUMA node 0".
func (a *Allocator) why(r *Request, p *Placement) string {
	text := make([]byte, 0, 128)
	switch {
	case !p.CPUs.IsEmpty():
		text = a.appendCPUs(append(text, a.how(r, p)...), p)
	case a.policy.CPUManager == CPUManagerStatic:
		text = append(text, "shared pool"...)
	}
	if len(p.Blocks) > 0 {
		if len(text) > 0 {
			text = append(text, "; "...)
		}
		text = appendNodes(append(text, "memory"...), p.Mems())
	}
	return string(text)
}

func (a *Allocator) appendCPUs(text []byte, p *Placement) []byte {
	text = appendCount(append(text, ", "...), p.CPUs.Len(), " CPU")
	if cores := a.countWholeCores(p.CPUs); cores > 0 {
		text = appendCount(append(text, " in "...), cores, " whole core")
	}
	text = appendNodes(text, a.numbersOf(a.nodesOf(p.CPUs)))
	if !p.Affinity.Nodes.IsEmpty() && !p.CPUs.IsSubsetOf(a.aligned(a.maskOf(p.Affinity.Nodes))) {
		text = append(text, ", more than the topology manager chose"...)
	}
	return text
}

func appendCount(text []byte, n int, noun string) []byte {
	text = append(strconv.AppendInt(text, int64(n), 10), noun...)
	if n != 1 {
		text = append(text, 's')
	}
	return text
}

func appendNodes(text []byte, nodes cpuset.Set) []byte {
	if nodes.IsEmpty() {
		return text
	}
	text = append(text, " on NUMA node"...)
	if nodes.Len() > 1 {
		text = append(text, 's')
	}
	text = append(text, ' ')
	return append(text, nodes.String()...)
}

// how names what decided on the CPUs.
func (a *Allocator) how(r *Request, p *Placement) string {
	held, o := r.Held.CPUs, &a.policy.Options
	switch {
	case !held.IsEmpty() && p.CPUs.Len() > held.Len():
		return "grown"
	case !held.IsEmpty() && p.CPUs.Len() < held.Len():
		return "shrunk"
	case p.CPUs.Overlaps(r.Reusable.CPUs):
		return "reused"
	case o.DistributeCPUsAcrossNUMA && a.isEven(p.CPUs):
		return "distributed"
	case o.DistributeCPUsAcrossCores:
		return "spread over cores"
	case o.PreferAlignCPUsByUncoreCache:
		return "packed by last-level cache"
	default:
		return "packed"
	}
}

// isEven tells whether CPUs are on several NUMA nodes and as many on each, but for a core.
func (a *Allocator) isEven(cpus cpuset.Set) bool {
	nodes, least, most := 0, cpuset.MaxID, 0
	for _, node := range a.layout.nodes {
		if n := node.cpus.IntersectLen(cpus); n > 0 {
			nodes++
			least, most = min(least, n), max(most, n)
		}
	}
	return nodes > 1 && most-least <= a.layout.threads
}

// countWholeCores returns how many cores CPUs make up, and 0 where they have parts of some or cores have one thread anyway.
func (a *Allocator) countWholeCores(cpus cpuset.Set) int {
	if a.layout.threads == 1 {
		return 0
	}
	cores := 0
	for _, core := range a.layout.cores {
		if core.cpus.Overlaps(cpus) {
			if !core.cpus.IsSubsetOf(cpus) {
				return 0
			}
			cores++
		}
	}
	return cores
}
