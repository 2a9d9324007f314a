// Package topology knows the machine: its CPUs, cores, packages, last-level caches, NUMA nodes, memory and PCI devices.
//
// [Read] reads it from sysfs, under any root, and [ParseDescription] from the JSON that a scenario names; [Open] does what fits a path. Each
// gives a [Machine], an immutable value: nothing in it may be changed, so it can be shared between goroutines without a lock. A CPU that goes
// offline makes a new Machine; [ReadOnline] tells cheaply that it is time for one. [Machine.Draw] draws it for people.
package topology

import (
	"maps"
	"slices"

	"nri-cpuset/topology/cpuset"
)

// Machine is one node's hardware as the kernel shows it. All slices are ordered by the lowest CPU of their elements, but for Nodes, which
// are ordered by id, and PCIDevices, by address. Only online CPUs are in any of its sets, but for Offline and for Isolated.
type Machine struct {
	Name string // of a described machine; empty for a real one

	Online   cpuset.Set // devices/system/cpu/online
	Offline  cpuset.Set // CPUs that are there (devices/system/cpu/present) and not online
	Isolated cpuset.Set // devices/system/cpu/isolated: the isolcpus= of the kernel's command line

	Packages   []Package
	Cores      []Core
	Caches     []Cache // last-level caches, which the kubelet calls uncore caches; empty where the kernel shows none
	Nodes      []Node
	PCIDevices []PCIDevice
	LeftOut    []LeftOut // by node number

	cpus []CPU // by id; the zero CPU stands where none is online
}

// CPU is one online logical CPU (a hardware thread) and where it sits. Core, Package and Node are indexes into the Machine's slices, not the
// kernel's numbers. Cache is -1 where the kernel shows no last-level cache for it. Node is -1 where it is on none of the Nodes, which no real
// kernel shows.
type CPU struct {
	ID      int
	Core    int
	Package int
	Cache   int
	Node    int
}

// Core is one physical core. Package and Node are indexes, as in [CPU].
type Core struct {
	ID      int // the kernel's core_id: unique in its package at most, not in the machine
	CPUs    cpuset.Set
	Package int
	Node    int
}

// Package is one physical package, which the kubelet calls a socket.
type Package struct {
	ID   int // the kernel's physical_package_id: not always unique, and -1 for all of them on some POWER machines
	CPUs cpuset.Set
}

// Cache is one last-level cache.
type Cache struct {
	CPUs cpuset.Set
}

// Node is one NUMA node. It may have no CPUs (memory of its own kind, such as CXL or HBM), or no memory, or neither, where the kernel lists it
// for the sake of a device near it (has_generic_initiator).
type Node struct {
	ID        int
	CPUs      cpuset.Set
	MemoryKiB uint64            // MemTotal of its meminfo; it includes the huge pages
	HugePages map[uint64]uint64 // page size in KiB -> number of pages, which may be 0
	Distances []int             // to each node, in the order of Machine.Nodes; nil where the kernel does not say
}

// PCIDevice is one PCI function and the CPUs near it.
type PCIDevice struct {
	Address   string // 0000:3b:00.0
	Class     uint32 // 0x020000: class, subclass and programming interface, a byte each
	Node      int    // the kernel's node number, not an index; -1 where the firmware does not say
	LocalCPUs cpuset.Set
}

// LeftOut is a NUMA node that the kernel lists and that is none of the Machine's Nodes: nothing may be placed on it. It may belong to a
// GPU, have neither CPUs nor memory, or share its CPUs with another node.
type LeftOut struct {
	Node   int // the kernel's number
	Reason string
}

// none stands for a cache or a node that is not there.
const none = -1

// CPU returns the online CPU with this number.
func (m *Machine) CPU(id int) (CPU, bool) {
	if !m.Online.Contains(id) {
		return CPU{}, false
	}
	return m.cpus[id], true
}

// NodeIndex returns where the NUMA node with this number stands in Nodes, or -1.
func (m *Machine) NodeIndex(id int) int {
	for i := range m.Nodes {
		if m.Nodes[i].ID == id {
			return i
		}
	}
	return -1
}

// NodeIDs returns the numbers of all NUMA nodes.
func (m *Machine) NodeIDs() cpuset.Set {
	var ids cpuset.Set
	for i := range m.Nodes {
		ids.Add(m.Nodes[i].ID)
	}
	return ids
}

// pageSizes returns the sizes of the node's huge pages in KiB, ascending.
func (n *Node) pageSizes() []uint64 {
	return slices.Sorted(maps.Keys(n.HugePages))
}
