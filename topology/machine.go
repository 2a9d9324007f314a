// Package topology knows the machine: its CPUs, cores, packages, last-level caches, NUMA nodes, memory and PCI devices.
//
// [Read] reads it from sysfs, under any root, and [ParseDescription] from the JSON that a scenario names. Both give a [Machine], an
// immutable value: nothing in it may be changed, so it can be shared between goroutines without a lock. A CPU that goes offline makes a
// new Machine.
package topology

import (
	"nri-cpuset/topology/cpuset"
)

// Machine is one node's hardware as the kernel shows it. All slices are ordered by the lowest CPU of their elements, but for Nodes, which
// are ordered by id, and PCIDevices, by address. Only online CPUs are in any of its sets, but for Offline and for Isolated.
type Machine struct {
	Name string // of a described machine; empty for a real one

	Online   cpuset.Set // devices/system/cpu/online
	Offline  cpuset.Set // devices/system/cpu/offline, which may name CPUs that do not exist
	Isolated cpuset.Set // devices/system/cpu/isolated: the isolcpus= of the kernel's command line

	Packages   []Package
	Cores      []Core
	Caches     []Cache // last-level caches, which the kubelet calls uncore caches; empty where the kernel shows none
	Nodes      []Node
	PCIDevices []PCIDevice

	cpus []CPU // by id; the zero CPU stands where none is online
}

// CPU is one online logical CPU (a hardware thread) and where it sits. Core, Package and Node are indexes into the Machine's slices, not the
// kernel's numbers; Cache is -1 where the kernel shows no last-level cache for it.
type CPU struct {
	ID      int
	Core    int
	Package int
	Cache   int
	Node    int
}

// Core is one physical core.
type Core struct {
	ID      int // the kernel's core_id: unique in its package only, not in the machine
	CPUs    cpuset.Set
	Package int
	Node    int
}

// Package is one physical package, which the kubelet calls a socket.
type Package struct {
	ID   int // physical_package_id
	CPUs cpuset.Set
}

// Cache is one last-level cache.
type Cache struct {
	CPUs cpuset.Set
}

// Node is one NUMA node. It may have no CPUs or no memory, but not neither.
type Node struct {
	ID        int
	CPUs      cpuset.Set
	MemoryKiB uint64            // MemTotal of its meminfo; it includes the huge pages
	HugePages map[uint64]uint64 // page size in KiB -> number of pages
	Distances []int             // to each node, in the order of Machine.Nodes; nil where the kernel does not say
}

// PCIDevice is one PCI function and the CPUs near it.
type PCIDevice struct {
	Address   string // 0000:3b:00.0
	Node      int    // the kernel's node number, not an index; -1 where the firmware does not say
	LocalCPUs cpuset.Set
}

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
