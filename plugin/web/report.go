package web

import (
	"time"

	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// Report is the state of one node at one moment. docs/api.md describes its JSON field by field.
type Report struct {
	Node    string    `json:"node"`
	Version string    `json:"version"`
	Time    time.Time `json:"time"`    // of the report
	Started time.Time `json:"started"` // when the plugin began
	Runtime *Runtime  `json:"runtime"` // nil while not connected
	Ready   bool      `json:"ready"`   // connected, and synchronized with what runs

	Policy                string   `json:"policy"`        // cpuManagerPolicy
	PolicyOptions         []string `json:"policyOptions"` // those of cpuManagerPolicyOptions that are on
	MemoryManagerPolicy   string   `json:"memoryManagerPolicy"`
	TopologyManagerPolicy string   `json:"topologyManagerPolicy"`
	TopologyManagerScope  string   `json:"topologyManagerScope"`
	Config                string   `json:"config"`                // the settings in force, as YAML
	ConfigErr             string   `json:"configError,omitempty"` // why the file's settings are not in force
	Conflict              string   `json:"conflict,omitempty"`    // what is left to the kubelet, whose own managers are on
	StateErr              string   `json:"stateError,omitempty"`  // why the state file could not be written

	Machine *topology.Machine `json:"machine"`

	Online    cpuset.Set `json:"online"`
	Reserved  cpuset.Set `json:"reserved"`
	Isolated  cpuset.Set `json:"isolated"`
	Shared    cpuset.Set `json:"shared"`
	Exclusive cpuset.Set `json:"exclusive"`

	Containers []Container `json:"containers"` // by namespace, pod and name
	Refusals   []Refusal   `json:"refusals"`   // the newest first
}

// Runtime is the container runtime that the plugin is connected to.
type Runtime struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	NRI     string `json:"nri"` // the version of NRI in it; empty where it does not tell
}

// Container is one container and what it has been given.
type Container struct {
	Namespace string          `json:"namespace"`
	Pod       string          `json:"pod"`
	PodUID    string          `json:"podUID"`
	Name      string          `json:"name"`
	ID        string          `json:"id"`    // the runtime's
	Phase     string          `json:"phase"` // creating, created, running or exited
	Exclusive bool            `json:"exclusive"`
	Policy    ContainerPolicy `json:"policy"`
	CPUs      cpuset.Set      `json:"cpus"` // exclusive ones; empty in the shared pool
	Mems      cpuset.Set      `json:"mems"` // NUMA nodes; empty where its memory is not bound
	Why       string          `json:"why"`  // the decision's reason
	Unsettled string          `json:"unsettled,omitempty"`
	Since     time.Time       `json:"since"` // of the placement
}

// ContainerPolicy is how a container is treated.
type ContainerPolicy string

// How a container is treated.
const (
	PolicyExclusive ContainerPolicy = "exclusive" // it has CPUs of its own
	PolicyShared    ContainerPolicy = "shared"    // it runs in the shared pool
	PolicyIgnored   ContainerPolicy = "ignored"   // ignoredPods means it: in the shared pool whatever it asks for
	PolicyNone      ContainerPolicy = "none"      // cpuManagerPolicy is none: it runs where it likes
)

// Refusal is a container that was not placed.
type Refusal struct {
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Container string    `json:"container"`
	Message   string    `json:"message"` // the refusal's name, and what was asked, what was there, and where
}
