package web

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// group is a box in the picture of the machine: a package, a NUMA node or a last-level cache, and what is in it.
type group struct {
	Kind   string // package, node or cache: the outermost, where it stands for several
	Titles []string
	Groups []group
	Cores  []core

	Across  int // how many cores stand side by side in it, or in each of its groups
	Columns int // how many of its groups stand side by side; 0: as many as there is room for
}

// Label names the group for those who do not see it.
func (g *group) Label() string { return strings.Join(g.Titles, ", ") }

// level is one way to divide the machine.
type level struct {
	kind  string
	sets  []cpuset.Set
	title func(i int) string
}

// layout draws a machine as boxes in boxes: packages > NUMA nodes > last-level caches > cores, but for a machine on which a node holds
// several packages, say; there the larger is outside. A set that crosses another's border is drawn in parts.
func layout(m *topology.Machine, draw func(cpu int) thread) []group {
	p := picture{machine: m, draw: draw, levels: []level{packageLevel(m), nodeLevel(m), cacheLevel(m)}}
	for range p.levels {
		for i := 1; i < len(p.levels); i++ {
			if outer, inner := &p.levels[i-1], &p.levels[i]; inner.encloses(outer) && !outer.encloses(inner) {
				*outer, *inner = *inner, *outer
			}
		}
	}
	return append(p.divide(m.Online, 0).Groups, memoryOnly(m)...)
}

func packageLevel(m *topology.Machine) level {
	l := level{kind: "package", title: func(i int) string { return "package " + strconv.Itoa(i) }}
	for i := range m.Packages {
		l.sets = append(l.sets, m.Packages[i].CPUs)
	}
	return l
}

func nodeLevel(m *topology.Machine) level {
	l := level{kind: "node", title: func(i int) string { return nodeTitle(&m.Nodes[i]) }}
	for i := range m.Nodes {
		l.sets = append(l.sets, m.Nodes[i].CPUs)
	}
	return l
}

func cacheLevel(m *topology.Machine) level {
	l := level{kind: "cache", title: func(i int) string { return "LLC " + strconv.Itoa(i) }}
	for i := range m.Caches {
		l.sets = append(l.sets, m.Caches[i].CPUs)
	}
	return l
}

// memoryOnly are the NUMA nodes without CPUs.
func memoryOnly(m *topology.Machine) []group {
	var groups []group
	for i := range m.Nodes {
		if n := &m.Nodes[i]; n.CPUs.IsEmpty() {
			groups = append(groups, group{Kind: "node", Titles: []string{nodeTitle(n), "no CPUs"}})
		}
	}
	return groups
}

func nodeTitle(n *topology.Node) string {
	parts := []string{fmt.Sprintf("NUMA node %d", n.ID), amount(n.MemoryKiB)}
	for _, kib := range slices.Sorted(maps.Keys(n.HugePages)) {
		if count := n.HugePages[kib]; count > 0 {
			parts = append(parts, fmt.Sprintf("%d × %s", count, amount(kib)))
		}
	}
	return strings.Join(parts, " · ")
}

// encloses tells whether each set of inner is within one of l's.
func (l *level) encloses(inner *level) bool {
	return !slices.ContainsFunc(inner.sets, func(in cpuset.Set) bool {
		return !slices.ContainsFunc(l.sets, in.IsSubsetOf)
	})
}

type picture struct {
	machine *topology.Machine
	draw    func(cpu int) thread
	levels  []level // the outermost first
}

// divide draws some CPUs, divided by the level at this depth, and what comes of it by the next. What a level leaves in one piece gets no box
// of its own, but a second title.
func (p *picture) divide(cpus cpuset.Set, depth int) group {
	if depth == len(p.levels) {
		cores := p.cores(cpus)
		return group{Cores: cores, Across: coresAcross(len(cores))}
	}
	l := &p.levels[depth]
	var parts []group
	add := func(part cpuset.Set, title string) {
		g := p.divide(part, depth+1)
		g.Kind, g.Titles = l.kind, append([]string{title}, g.Titles...)
		parts = append(parts, g)
	}
	rest := cpus
	for i, set := range l.sets {
		part := set.Intersect(cpus)
		rest = rest.Difference(part)
		switch {
		case part.IsEmpty():
		case part.Equal(set):
			add(part, l.title(i))
		default:
			add(part, l.title(i)+" (part)")
		}
	}
	if len(parts) == 0 && depth > 0 {
		return p.divide(rest, depth+1)
	}
	if !rest.IsEmpty() {
		add(rest, "no "+l.kind)
	}
	if len(parts) == 1 && depth > 0 {
		return parts[0]
	}
	g := group{Groups: parts}
	if innermost := depth == len(p.levels)-1; innermost {
		for i := range parts {
			g.Across = max(g.Across, parts[i].Across)
		}
		g.Columns = groupsAcross(len(parts), g.Across)
	}
	return g
}

// cores draws cores, by their lowest CPU.
func (p *picture) cores(cpus cpuset.Set) []core {
	var cores []core
	for rest := cpus; !rest.IsEmpty(); {
		cpu, _ := p.machine.CPU(rest.First())
		threads := p.machine.Cores[cpu.Core].CPUs
		rest = rest.Difference(threads)
		var c core
		for id := range threads.All() {
			c = append(c, p.draw(id))
		}
		cores = append(cores, c)
	}
	return cores
}

// coresAcross returns how many of n cores stand side by side.
func coresAcross(n int) int {
	if n <= 8 {
		return n
	}
	return across(n, 1.3, 16)
}

// maxCoresAcross is how many cores fit side by side on a page, in whatever boxes they are.
const maxCoresAcross = 32

// groupsAcross returns how many of n boxes stand side by side that are some cores wide each.
func groupsAcross(n, cores int) int {
	if n*cores <= maxCoresAcross/4 {
		return n
	}
	return across(n, 1, min(max(1, maxCoresAcross/cores), 16))
}

// across returns how many of n equal things stand side by side so that they fill a rectangle, wider than high by the ratio or a little more.
func across(n int, ratio float64, most int) int {
	for columns := int(math.Ceil(ratio * math.Sqrt(float64(n)))); columns <= min(n, most); columns++ {
		if n%columns == 0 {
			return columns
		}
	}
	return min(n, most, 8)
}

// amount writes an amount of memory.
func amount(kib uint64) string {
	const mib, gib = 1 << 10, 1 << 20
	switch {
	case kib >= gib && kib%gib == 0:
		return fmt.Sprintf("%d GiB", kib/gib)
	case kib >= gib:
		return fmt.Sprintf("%.1f GiB", float64(kib)/gib)
	case kib >= mib:
		return fmt.Sprintf("%d MiB", kib/mib)
	default:
		return fmt.Sprintf("%d KiB", kib)
	}
}
