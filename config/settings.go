package config

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

// settings is how each setting is read into c.
func settings(c *Config) map[string]field {
	def := Default()
	return map[string]field{
		"cpuManagerPolicy": set(&c.CPUManagerPolicy, def.CPUManagerPolicy,
			oneOf(allocator.CPUManagerNone, allocator.CPUManagerStatic)),
		"cpuManagerPolicyOptions": set(&c.CPUManagerPolicyOptions, nil, mapOf(cpuManagerOption)),
		"kubeReserved":            set(&c.KubeReserved, nil, mapOf(reservation)),
		"systemReserved":          set(&c.SystemReserved, nil, mapOf(reservation)),
		"reservedSystemCPUs":      set(&c.ReservedSystemCPUs, cpuset.Set{}, cpus),
		"memoryManagerPolicy": set(&c.MemoryManagerPolicy, def.MemoryManagerPolicy,
			oneOf(allocator.MemoryManagerNone, allocator.MemoryManagerStatic)),
		"reservedMemory": set(&c.ReservedMemory, nil, reservedMemory),
		"topologyManagerPolicy": set(&c.TopologyManagerPolicy, def.TopologyManagerPolicy,
			oneOf(allocator.TopologyManagerNone, allocator.TopologyManagerBestEffort,
				allocator.TopologyManagerRestricted, allocator.TopologyManagerSingleNUMANode)),
		"topologyManagerScope": set(&c.TopologyManagerScope, def.TopologyManagerScope,
			oneOf(allocator.ScopeContainer, allocator.ScopePod)),
		"topologyManagerPolicyOptions": set(&c.TopologyManagerPolicyOptions, nil, mapOf(topologyManagerOption)),

		"exclusiveScope": set(&c.ExclusiveScope, def.ExclusiveScope, oneOf(ExclusiveScopePod, ExclusiveScopeContainer)),
		"isolatedCPUs": set(&c.IsolatedCPUs, def.IsolatedCPUs,
			oneOf(allocator.IsolatedExclude, allocator.IsolatedExclusive, allocator.IsolatedIgnore)),
		"disableCPUQuotaWithExclusiveCPUs": set(&c.DisableCPUQuotaWithExclusiveCPUs, def.DisableCPUQuotaWithExclusiveCPUs, boolean),
		"auditInterval":                    set(&c.AuditInterval, def.AuditInterval, interval),
		"podAnnotations":                   set(&c.PodAnnotations, def.PodAnnotations, list(oneOf(PodExclusiveCPUs))),
		"ignoredPods":                      set(&c.IgnoredPods, def.IgnoredPods, list(podSelector)),
	}
}

// foreign is what gets pasted along with the settings that are known here, and what to do about it.
var foreign = map[string]string{
	"apiVersion":                "this file is no Kubernetes object; leave apiVersion and kind out",
	"kind":                      "this file is no Kubernetes object; leave apiVersion and kind out",
	"cpuManagerReconcilePeriod": "only the kubelet has it; auditInterval comes nearest here",
	"evictionHard":              "only the kubelet has it; leave it out",
	"featureGates":              "only the kubelet has it; leave it out, no option here needs a gate",
}

// cpuManagerOption reads one option of the static policy. It is a string for the kubelet, whatever is in it.
func cpuManagerOption(r *reader, v value) string {
	if _, known := cpuManagerOptions[v.key]; !known {
		r.failKey(v, "unknown option; known are %s", words(slices.Sorted(maps.Keys(cpuManagerOptions))))
		return ""
	}
	return checked(r, v, parseBool)
}

// topologyManagerOption reads one option of the topology manager.
func topologyManagerOption(r *reader, v value) string {
	switch v.key {
	case preferClosestNUMANodes:
		return checked(r, v, parseBool)
	case maxAllowableNUMANodes:
		return checked(r, v, parseNodeLimit)
	default:
		r.failKey(v, "unknown option; known are %s", words([]string{maxAllowableNUMANodes, preferClosestNUMANodes}))
		return ""
	}
}

// checked reads a string that parse must be able to read when it is needed.
func checked[T any](r *reader, v value, parse func(string) (T, error)) string {
	text, ok := r.text(v)
	if !ok {
		return ""
	}
	if _, err := parse(text); err != nil {
		r.fail(v, "%v", err)
	}
	return text
}

// reserved are the resources that the kubelet can keep for daemons.
var reserved = []string{"cpu", "memory", "ephemeral-storage", "pid"}

// reservation reads one quantity of kubeReserved or systemReserved.
func reservation(r *reader, v value) string {
	if !slices.Contains(reserved, v.key) {
		r.failKey(v, "unknown resource; known are %s", words(reserved))
		return ""
	}
	text, q := quantity(r, v)
	if mostCPUs := resource.NewQuantity(cpuset.MaxID+1, resource.DecimalSI); v.key == "cpu" && q.Cmp(*mostCPUs) > 0 {
		r.fail(v, "%s CPUs are more than Linux can have, which is %s", text, mostCPUs)
	}
	return text
}

// reservedMemory reads the list of what is kept on each NUMA node, where one resource of one node may come once.
func reservedMemory(r *reader, v value) []MemoryReservation {
	type nodeResource struct {
		node     int
		resource string
	}
	seen := map[nodeResource]bool{}
	var all []MemoryReservation
	for entry := range r.items(v) {
		m := MemoryReservation{NUMANode: -1}
		if !r.fields(entry, map[string]field{
			"numaNode": set(&m.NUMANode, -1, nodeNumber),
			"limits":   set(&m.Limits, nil, mapOf(memoryLimit)),
		}) {
			continue
		}
		if m.NUMANode < 0 || len(m.Limits) == 0 {
			r.fail(entry, `reserves nothing: give numaNode: 0, limits: {memory: 1Gi}`)
		}
		for _, name := range slices.Sorted(maps.Keys(m.Limits)) {
			key := nodeResource{m.NUMANode, name}
			if seen[key] {
				r.fail(entry, "%s of NUMA node %d is in an entry before this one", name, m.NUMANode)
			}
			seen[key] = true
		}
		all = append(all, m)
	}
	return all
}

func nodeNumber(r *reader, v value) int {
	n := number(r, v)
	if n < 0 || n > cpuset.MaxID {
		r.fail(v, "%d is no NUMA node's number", n)
	}
	return n
}

// memoryLimit reads one quantity of reservedMemory.
func memoryLimit(r *reader, v value) string {
	if size, isHuge := strings.CutPrefix(v.key, "hugepages-"); v.key != "memory" && !isHuge {
		r.failKey(v, "unknown resource; known are memory and hugepages-SIZE, as in hugepages-2Mi")
		return ""
	} else if q, err := parseQuantity(size); isHuge && (err != nil || q.IsZero()) {
		r.failKey(v, "%s is no page size; they are written as in hugepages-2Mi", quote(size))
		return ""
	}
	text, q := quantity(r, v)
	if q.IsZero() {
		r.fail(v, "nothing is reserved: leave it out or give an amount, as in 1Gi")
	}
	return text
}

// quantity reads an amount of a resource, which may be a number as in the manifest of a Pod.
func quantity(r *reader, v value) (string, resource.Quantity) {
	if !v.isScalar("!!str") && !v.isScalar("!!int") && !v.isScalar("!!float") {
		r.fail(v, "want an amount, as in 500m or 1Gi, got %s", v.kind())
		return "", resource.Quantity{}
	}
	q, err := parseQuantity(v.node.Value)
	if err != nil {
		r.fail(v, "%v", err)
	}
	return v.node.Value, q
}

func cpus(r *reader, v value) cpuset.Set {
	text, ok := r.text(v)
	if !ok {
		return cpuset.Set{}
	}
	set, err := cpuset.Parse(text)
	if err != nil {
		r.fail(v, "%v", err)
	}
	return set
}

// minInterval keeps an audit, which reads a file of every container, from becoming a load of its own.
const minInterval = time.Second

func interval(r *reader, v value) Duration {
	var d Duration
	if !v.isScalar("!!str") && v.node.Value != "0" {
		r.fail(v, "want a duration, as in 30s, or 0, got %s", v.kind())
	} else if err := d.UnmarshalText([]byte(v.node.Value)); err != nil {
		r.fail(v, "%s is no duration: write it as in 30s, or 0 for never", quote(v.node.Value))
	} else if d != 0 && time.Duration(d) < minInterval {
		r.fail(v, "%s is shorter than %s: give at least that, or 0 for never", quote(v.node.Value), minInterval)
	}
	return d
}

func podSelector(r *reader, v value) PodSelector {
	var s PodSelector
	if r.fields(v, map[string]field{
		"namespaces": set(&s.Namespaces, nil, list(pattern)),
		"labels":     set(&s.Labels, nil, mapOf(label)),
	}) && len(s.Namespaces) == 0 && len(s.Labels) == 0 {
		r.fail(v, `would mean every pod: give namespaces: ["NAME"] or labels: {KEY: VALUE}, or both`)
	}
	return s
}

func label(r *reader, v value) string {
	text, _ := r.text(v)
	return text
}

// pattern reads a name, or a pattern with *, ? and [abc].
func pattern(r *reader, v value) string {
	text, ok := r.text(v)
	if ok && text == "" {
		r.fail(v, `an empty name matches nothing: write "*" for every name`)
	}
	if _, err := path.Match(text, ""); err != nil {
		r.fail(v, "%s is no pattern: write a name, with *, ? or [abc] where it varies", quote(text))
	}
	return text
}
