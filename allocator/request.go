package allocator

import "nri-cpuset/topology/cpuset"

// Memory is an amount of memory in bytes by type: "memory", "hugepages-2Mi", "hugepages-1Gi", named as the Kubernetes resources are.
type Memory map[string]uint64

// Amount is what somebody asks for.
type Amount struct {
	CPUs   int    // whole exclusive CPUs; 0 for the shared pool
	Memory Memory // nil: takes no part in memory placement
}

// Device is one thing that a container gets and that sits on NUMA nodes.
type Device struct {
	Name  string
	Nodes cpuset.Set // the kernel's node numbers; empty: the device has no opinion
}

// Request is one container that wants to be placed.
type Request struct {
	Amount
	Devices []Device

	// Held is what this very container has already. As much of it stays as Amount allows: with the same amount the answer is Held itself,
	// with more CPUs it grows next to it, with fewer it shrinks to a part of it.
	Held Placement

	// Reusable is what containers of the same pod that have exited left behind. It counts as free for this container and is taken first.
	Reusable Placement

	// KeepShared says that somebody else runs in the shared pool, so that an allocation which would empty it is refused.
	KeepShared bool

	// Pod is the pod's total, given under ScopePod for the first container of a pod: the topology manager aligns that instead of Amount.
	Pod *Amount
	// Affinity is what the topology manager said of the pod's first container under ScopePod; given for its other containers.
	Affinity *Affinity
}

// Affinity is the topology manager's answer: the NUMA nodes to place on.
type Affinity struct {
	Nodes     cpuset.Set `json:"nodes"` // the kernel's node numbers; empty: any
	Preferred bool       `json:"preferred"`
}

// Placement is what one container has.
type Placement struct {
	CPUs     cpuset.Set `json:"cpus"`             // exclusive CPUs; empty: it runs in the shared pool
	Blocks   []Block    `json:"blocks,omitempty"` // memory
	Affinity Affinity   `json:"affinity"`
	Why      string     `json:"why,omitempty"` // the decision's reason, one line for people
}

// Block is one type of memory that a container has, on a group of NUMA nodes.
type Block struct {
	Type  string         `json:"type"`
	Nodes cpuset.Set     `json:"nodes"` // the whole mask, nodes that gave no bytes included
	Bytes map[int]uint64 `json:"bytes"` // what each node gave, by the kernel's node number
}

// Mems returns the NUMA nodes for cpuset.mems: the whole masks of all blocks. Empty: unpinned.
func (p *Placement) Mems() cpuset.Set {
	var mems cpuset.Set
	for i := range p.Blocks {
		mems = mems.Union(p.Blocks[i].Nodes)
	}
	return mems
}

// Reason is the name of a refusal, as the kubelet has them.
type Reason string

// The reasons for a refusal.
const (
	TopologyAffinityError    Reason = "TopologyAffinityError"
	SMTAlignmentError        Reason = "SMTAlignmentError"
	UnexpectedAdmissionError Reason = "UnexpectedAdmissionError"
)

// Refusal is the error of a request that cannot be met. Its text says what was asked, what was free, and where.
type Refusal struct {
	Reason  Reason
	Message string
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Message }
