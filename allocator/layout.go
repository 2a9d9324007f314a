package allocator

import (
	"cmp"
	"slices"

	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// layout is how a machine nests, in the order in which packed placement goes through it: with as many packages as NUMA nodes or more, NUMA
// node > package > core, and with fewer package > NUMA node > core. The units at the top are outer, those in them inner.
type layout struct {
	machine   *topology.Machine
	numaFirst bool
	outer     []*unit

	packages []*unit
	nodes    []*unit // NUMA nodes that have CPUs
	caches   []*unit
	cores    []*unit // by lowest CPU, as in machine.Cores

	threads int  // of the largest core
	grain   int  // the greatest common divisor of all cores' threads: full-pcpus-only can give nothing but multiples of it
	uneven  bool // some core has fewer threads than another: a hybrid part, or threads are offline
}

// unit is some of the machine's CPUs that are taken together where they are all free.
type unit struct {
	cpus   cpuset.Set
	size   int
	inner  []*unit // of an outer unit
	caches []*unit // that have CPUs in it
	cores  []*unit // of an inner unit
}

func newLayout(m *topology.Machine) *layout {
	l := &layout{machine: m}
	for i := range m.Caches {
		l.caches = append(l.caches, newUnit(m.Caches[i].CPUs))
	}
	for i := range m.Cores {
		l.cores = append(l.cores, newUnit(m.Cores[i].CPUs))
	}
	for _, cpus := range packageSets(m) {
		l.packages = append(l.packages, newUnit(cpus))
	}
	for _, cpus := range nodeSets(m) {
		l.nodes = append(l.nodes, newUnit(cpus))
	}
	l.measureCores()
	l.nest()
	return l
}

func newUnit(cpus cpuset.Set) *unit { return &unit{cpus: cpus, size: cpus.Len()} }

// nest builds the outer units and what is in them.
func (l *layout) nest() {
	l.numaFirst = len(l.packages) >= len(l.nodes)
	top, below := l.packages, l.nodes
	if l.numaFirst {
		top, below = l.nodes, l.packages
	}
	for _, t := range top {
		o := newUnit(t.cpus)
		o.caches = overlapping(l.caches, o.cpus)
		for _, b := range below {
			both := t.cpus.Intersect(b.cpus)
			if both.IsEmpty() {
				continue
			}
			in := newUnit(both)
			in.caches = overlapping(l.caches, both)
			in.cores = overlapping(l.cores, both)
			o.inner = append(o.inner, in)
		}
		l.outer = append(l.outer, o)
	}
}

// overlapping returns those units that have a CPU in a set.
func overlapping(units []*unit, cpus cpuset.Set) []*unit {
	var some []*unit
	for _, u := range units {
		if u.cpus.Overlaps(cpus) {
			some = append(some, u)
		}
	}
	return some
}

func (l *layout) measureCores() {
	smallest := cpuset.MaxID
	for _, c := range l.cores {
		l.threads = max(l.threads, c.size)
		smallest = min(smallest, c.size)
		l.grain = gcd(l.grain, c.size)
	}
	l.uneven = smallest != l.threads
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// nodeSets returns the CPUs of every NUMA node that has some, by node number. CPUs that are on no node, which no real kernel shows, come
// last, as one more.
func nodeSets(m *topology.Machine) []cpuset.Set {
	var sets []cpuset.Set
	homeless := m.Online
	for i := range m.Nodes {
		if cpus := m.Nodes[i].CPUs; !cpus.IsEmpty() {
			sets = append(sets, cpus)
			homeless = homeless.Difference(cpus)
		}
	}
	if !homeless.IsEmpty() {
		sets = append(sets, homeless)
	}
	return sets
}

// packageSets returns the CPUs of every package, by the kernel's package number and, where that is not unique, by lowest CPU.
func packageSets(m *topology.Machine) []cpuset.Set {
	packages := slices.Clone(m.Packages)
	slices.SortStableFunc(packages, func(a, b topology.Package) int { return cmp.Compare(a.ID, b.ID) })
	sets := make([]cpuset.Set, len(packages))
	for i := range packages {
		sets[i] = packages[i].CPUs
	}
	return sets
}

// wholeCores returns those CPUs of a set that make up whole cores.
func (l *layout) wholeCores(cpus cpuset.Set) cpuset.Set {
	var whole cpuset.Set
	for _, c := range l.cores {
		if c.cpus.IsSubsetOf(cpus) {
			whole = whole.Union(c.cpus)
		}
	}
	return whole
}

// surroundings returns the units around a CPU, from near to far.
func (l *layout) surroundings() [4][]*unit {
	return [...][]*unit{l.cores, l.caches, l.nodes, l.packages}
}

// around returns the CPUs of those units that have one in cpus.
func around(cpus cpuset.Set, units []*unit) cpuset.Set {
	var all cpuset.Set
	for _, u := range units {
		if u.cpus.Overlaps(cpus) {
			all = all.Union(u.cpus)
		}
	}
	return all
}
