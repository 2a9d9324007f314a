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
	outer     []outer
	caches    []unit
	cores     []unit // by lowest CPU, as in machine.Cores
	packages  []unit

	nodes []unit // NUMA nodes that have CPUs

	threads int  // of the largest core
	grain   int  // the greatest common divisor of all cores' threads: full-pcpus-only can give nothing but multiples of it
	uneven  bool // some core has fewer threads than another: a hybrid part, or threads are offline
}

// unit is some of the machine's CPUs that are taken together where they are all free.
type unit struct {
	cpus cpuset.Set
	size int
}

type outer struct {
	unit
	inner []inner
}

type inner struct {
	unit
	cores  []int // indexes of layout.cores
	caches []int // indexes of layout.caches
}

func newUnit(cpus cpuset.Set) unit { return unit{cpus: cpus, size: cpus.Len()} }

func newLayout(m *topology.Machine) *layout {
	l := &layout{machine: m}
	for i := range m.Nodes {
		if cpus := m.Nodes[i].CPUs; !cpus.IsEmpty() {
			l.nodes = append(l.nodes, newUnit(cpus))
		}
	}
	for i := range m.Caches {
		l.caches = append(l.caches, newUnit(m.Caches[i].CPUs))
	}
	for i := range m.Cores {
		l.cores = append(l.cores, newUnit(m.Cores[i].CPUs))
	}
	for i := range m.Packages {
		l.packages = append(l.packages, newUnit(m.Packages[i].CPUs))
	}
	l.measureCores()

	nodes, packages := nodeSets(m), packageSets(m)
	l.numaFirst = len(packages) >= len(nodes)
	top, below := packages, nodes
	if l.numaFirst {
		top, below = nodes, packages
	}
	for _, t := range top {
		o := outer{unit: newUnit(t)}
		for _, b := range below {
			if both := t.Intersect(b); !both.IsEmpty() {
				o.inner = append(o.inner, l.newInner(both))
			}
		}
		l.outer = append(l.outer, o)
	}
	return l
}

func (l *layout) newInner(cpus cpuset.Set) inner {
	in := inner{unit: newUnit(cpus)}
	for i := range l.cores {
		if l.cores[i].cpus.Overlaps(cpus) {
			in.cores = append(in.cores, i)
		}
	}
	for i := range l.caches {
		if l.caches[i].cpus.Overlaps(cpus) {
			in.caches = append(in.caches, i)
		}
	}
	return in
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
	for i := range l.cores {
		if l.cores[i].cpus.IsSubsetOf(cpus) {
			whole = whole.Union(l.cores[i].cpus)
		}
	}
	return whole
}

// surroundings returns the units around a CPU, from near to far.
func (l *layout) surroundings() [4][]unit { return [...][]unit{l.cores, l.caches, l.nodes, l.packages} }

// coresOf returns all threads of every core that has one in cpus.
func (l *layout) coresOf(cpus cpuset.Set) cpuset.Set {
	return around(cpus, l.cores)
}

// around returns the CPUs of those units that have one in cpus.
func around(cpus cpuset.Set, units []unit) cpuset.Set {
	var all cpuset.Set
	for i := range units {
		if units[i].cpus.Overlaps(cpus) {
			all = all.Union(units[i].cpus)
		}
	}
	return all
}
