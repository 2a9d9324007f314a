package allocator

import "nri-cpuset/topology/cpuset"

// CPUManager is KubeletConfiguration's cpuManagerPolicy.
type CPUManager string

// The CPU manager's policies.
const (
	CPUManagerNone   CPUManager = "none"
	CPUManagerStatic CPUManager = "static"
)

// MemoryManager is KubeletConfiguration's memoryManagerPolicy.
type MemoryManager string

// The memory manager's policies.
const (
	MemoryManagerNone   MemoryManager = "None"
	MemoryManagerStatic MemoryManager = "Static"
)

// TopologyManager is KubeletConfiguration's topologyManagerPolicy.
type TopologyManager string

// The topology manager's policies.
const (
	TopologyManagerNone           TopologyManager = "none"
	TopologyManagerBestEffort     TopologyManager = "best-effort"
	TopologyManagerRestricted     TopologyManager = "restricted"
	TopologyManagerSingleNUMANode TopologyManager = "single-numa-node"
)

// Scope is KubeletConfiguration's topologyManagerScope: whose request is aligned as one.
type Scope string

// The topology manager's scopes.
const (
	ScopeContainer Scope = "container"
	ScopePod       Scope = "pod"
)

// IsolatedCPUs says who gets the CPUs of the kernel's isolcpus=.
type IsolatedCPUs string

// What may become of isolated CPUs.
const (
	IsolatedExclude   IsolatedCPUs = "exclude"   // nobody gets them
	IsolatedExclusive IsolatedCPUs = "exclusive" // exclusive containers only, and before others
	IsolatedIgnore    IsolatedCPUs = "ignore"    // they are CPUs like any other, as for the kubelet
)

// Options are the static policy's options, KubeletConfiguration's cpuManagerPolicyOptions.
type Options struct {
	FullPCPUsOnly                bool // full-pcpus-only
	DistributeCPUsAcrossNUMA     bool // distribute-cpus-across-numa
	AlignBySocket                bool // align-by-socket
	DistributeCPUsAcrossCores    bool // distribute-cpus-across-cores
	StrictCPUReservation         bool // strict-cpu-reservation
	PreferAlignCPUsByUncoreCache bool // prefer-align-cpus-by-uncorecache
}

// Policy is everything that the operator chose and that bears on placement.
type Policy struct {
	CPUManager CPUManager
	Options    Options
	Isolated   IsolatedCPUs

	// ReservedCPUs are the CPUs named in reservedSystemCPUs. Where it is empty, ReservedCount CPUs (kubeReserved + systemReserved, rounded
	// up) are picked by the placement algorithm itself.
	ReservedCPUs  cpuset.Set
	ReservedCount int

	MemoryManager  MemoryManager
	ReservedMemory []ReservedMemory

	TopologyManager        TopologyManager
	Scope                  Scope
	PreferClosestNUMANodes bool // prefer-closest-numa-nodes of topologyManagerPolicyOptions
}

// ReservedMemory is one type of memory that the memory manager keeps for the system on one NUMA node: an entry of KubeletConfiguration's
// reservedMemory.
type ReservedMemory struct {
	Node  int // the kernel's node number
	Type  string
	Bytes uint64
}
