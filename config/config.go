// Package config reads what the operator wants of a node: the kubelet's settings by the kubelet's names, and ours beside them.
//
// One file serves a whole cluster. Its top level is every node's default; the first entry of nodes that names a node overrides it there,
// and [Parse] gives what is then in force on that node. It is strict: what it does not know it refuses, with the line.
//
// Each setting is checked here by itself. What goes together with what, and with the machine, is decided in one place: [allocator.New].
package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"time"

	"go.yaml.in/yaml/v3"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

// Config is the settings in force on one node. The doc comments of its fields are the settings reference: docs/settings.md is made of them.
type Config struct {
	// Who may have exclusive CPUs: `none` (nobody) or `static` (containers of Guaranteed pods that ask for whole CPUs).
	CPUManagerPolicy allocator.CPUManager `json:"cpuManagerPolicy"`
	// Options of the static policy, each `"true"` or `"false"`: `full-pcpus-only`, `distribute-cpus-across-numa`, `align-by-socket`,
	// `distribute-cpus-across-cores`, `strict-cpu-reservation`, `prefer-align-cpus-by-uncorecache`. No feature gate has to be opened.
	CPUManagerPolicyOptions map[string]string `json:"cpuManagerPolicyOptions,omitempty"`
	// What is kept for Kubernetes' own daemons. Of its resources, `cpu` counts here: with that of `systemReserved`, and rounded up, it is the
	// number of reserved CPUs. Some must be reserved under `static`.
	KubeReserved map[string]string `json:"kubeReserved,omitempty"`
	// What is kept for the system's daemons, counted as `kubeReserved` is.
	SystemReserved map[string]string `json:"systemReserved,omitempty"`
	// The reserved CPUs by number, as in `0-1,32-33`, in place of the number from `kubeReserved` and `systemReserved`.
	ReservedSystemCPUs cpuset.Set `json:"reservedSystemCPUs,omitzero"`
	// Who is bound to NUMA nodes' memory: `None` (nobody) or `Static` (containers of Guaranteed pods).
	MemoryManagerPolicy allocator.MemoryManager `json:"memoryManagerPolicy"`
	// Memory and huge pages that are kept for the system on each NUMA node, under `Static`.
	ReservedMemory []MemoryReservation `json:"reservedMemory,omitempty"`
	// How CPUs, memory and devices are brought together: `none`, `best-effort`, `restricted` or `single-numa-node`.
	TopologyManagerPolicy allocator.TopologyManager `json:"topologyManagerPolicy"`
	// What is aligned as one: each `container`, or the whole `pod`.
	TopologyManagerScope allocator.Scope `json:"topologyManagerScope"`
	// Options of the topology manager: `prefer-closest-numa-nodes`, `"true"` or `"false"`; `max-allowable-numa-nodes`, a number from 8, is
	// accepted, and there is no limit here for it to lift.
	TopologyManagerPolicyOptions map[string]string `json:"topologyManagerPolicyOptions,omitempty"`

	// Whose resources make a container exclusive: the whole `pod`'s, which must be Guaranteed, as for the kubelet; or the `container`'s own,
	// so that it qualifies beside an injected sidecar too.
	ExclusiveScope ExclusiveScope `json:"exclusiveScope"`
	// What becomes of the CPUs in the kernel's `isolcpus=`: `exclude` (nobody gets them), `exclusive` (exclusive containers only, and
	// before others) or `ignore` (they are CPUs like any other, as for the kubelet).
	IsolatedCPUs allocator.IsolatedCPUs `json:"isolatedCPUs"`
	// Whether exclusive containers run without a CPU quota, which can only throttle them on CPUs that are theirs alone.
	DisableCPUQuotaWithExclusiveCPUs bool `json:"disableCPUQuotaWithExclusiveCPUs"`
	// How often the kernel's cpusets are compared with what was decided: a duration of at least 1s, or 0 for never.
	AuditInterval Duration `json:"auditInterval"`
	// Pods whose containers never get exclusive CPUs or NUMA nodes' memory, and are never refused.
	IgnoredPods []PodSelector `json:"ignoredPods"`
	// Which of our annotations are heeded on a pod, by what follows `nri-cpuset/`: `exclusive-cpus`, the number of CPUs that the pod's exclusive
	// containers need together, which with `topologyManagerScope: pod` is known exactly only from there.
	PodAnnotations []PodAnnotation `json:"podAnnotations"`
}

// PodAnnotation is an annotation that a pod may carry, without the nri-cpuset/ before it.
type PodAnnotation string

// PodExclusiveCPUs says how many CPUs a pod's exclusive containers need together.
const PodExclusiveCPUs PodAnnotation = "exclusive-cpus"

// ExclusiveScope says whose resources make a container exclusive.
type ExclusiveScope string

// Whose resources count.
const (
	ExclusiveScopePod       ExclusiveScope = "pod"
	ExclusiveScopeContainer ExclusiveScope = "container"
)

// MemoryReservation is KubeletConfiguration's MemoryReservation: what is kept for the system on one NUMA node.
type MemoryReservation struct {
	NUMANode int               `json:"numaNode"`
	Limits   map[string]string `json:"limits"` // quantities by resource: memory, hugepages-2Mi
}

// PodSelector means the pods that are in one of its namespaces and carry all of its labels. Namespaces may be patterns, as in "team-*"; no
// namespaces means any.
type PodSelector struct {
	Namespaces []string          `json:"namespaces,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// Duration is a time.Duration that is written as "30s".
type Duration time.Duration

// MarshalText writes d as "30s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads "30s", or "0".
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Default returns the settings of a file that names none.
func Default() *Config {
	return &Config{
		CPUManagerPolicy:      allocator.CPUManagerNone,
		MemoryManagerPolicy:   allocator.MemoryManagerNone,
		TopologyManagerPolicy: allocator.TopologyManagerNone,
		TopologyManagerScope:  allocator.ScopeContainer,

		ExclusiveScope:                   ExclusiveScopePod,
		IsolatedCPUs:                     allocator.IsolatedExclude,
		DisableCPUQuotaWithExclusiveCPUs: true,
		AuditInterval:                    Duration(30 * time.Second),
		IgnoredPods:                      []PodSelector{{Labels: map[string]string{"app.kubernetes.io/name": "nri-cpuset"}}},
		PodAnnotations:                   []PodAnnotation{PodExclusiveCPUs},
	}
}

// Ignores tells whether ignoredPods means the pod with this namespace and these labels.
func (c *Config) Ignores(namespace string, labels map[string]string) bool {
	for i := range c.IgnoredPods {
		if c.IgnoredPods[i].matches(namespace, labels) {
			return true
		}
	}
	return false
}

func (s *PodSelector) matches(namespace string, labels map[string]string) bool {
	if len(s.Namespaces) > 0 && !matchesAny(s.Namespaces, namespace) {
		return false
	}
	for key, want := range s.Labels {
		if got, ok := labels[key]; !ok || got != want {
			return false
		}
	}
	return true
}

// matchesAny tells whether one of the patterns matches name. They were checked when they were read.
func matchesAny(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}

// String writes the settings as YAML that Parse reads as the same settings. Two configurations are the same where their strings are.
func (c *Config) String() string {
	text, err := c.yaml()
	if err != nil {
		return fmt.Sprintf("# these settings cannot be written: %v\n", err)
	}
	return text
}

// yaml goes by way of JSON, which is YAML already: one set of field names then serves both.
func (c *Config) yaml() (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return "", err
	}
	plain(&document)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return "", err
	}
	return out.String(), nil
}

// plain takes away JSON's braces; quotes stay where a string needs them.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		plain(child)
	}
}
