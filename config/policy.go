package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"nri-cpuset/allocator"
)

// Policy returns what the settings say about placement. It gives no error for settings from [Parse] or [Load]. Whether they go together and
// fit a machine is for [allocator.New] to say.
func (c *Config) Policy() (allocator.Policy, error) {
	p := allocator.Policy{
		CPUManager:      c.CPUManagerPolicy,
		Isolated:        c.IsolatedCPUs,
		ReservedCPUs:    c.ReservedSystemCPUs,
		MemoryManager:   c.MemoryManagerPolicy,
		TopologyManager: c.TopologyManagerPolicy,
		Scope:           c.TopologyManagerScope,
	}
	for name, text := range c.CPUManagerPolicyOptions {
		option, known := cpuManagerOptions[name]
		if !known {
			return p, fmt.Errorf("cpuManagerPolicyOptions: unknown option %s", quote(name))
		}
		on, err := parseBool(text)
		if err != nil {
			return p, fmt.Errorf("cpuManagerPolicyOptions.%s: %w", name, err)
		}
		*option(&p.Options) = on
	}
	if text, given := c.TopologyManagerPolicyOptions[preferClosestNUMANodes]; given {
		on, err := parseBool(text)
		if err != nil {
			return p, fmt.Errorf("topologyManagerPolicyOptions.%s: %w", preferClosestNUMANodes, err)
		}
		p.PreferClosestNUMANodes = on
	}
	var err error
	if p.ReservedCount, err = c.reservedCount(); err != nil {
		return p, err
	}
	p.ReservedMemory, err = c.memoryByNode()
	return p, err
}

// cpuManagerOptions are the static policy's options, by their names in cpuManagerPolicyOptions.
var cpuManagerOptions = map[string]func(*allocator.Options) *bool{
	"full-pcpus-only":                  func(o *allocator.Options) *bool { return &o.FullPCPUsOnly },
	"distribute-cpus-across-numa":      func(o *allocator.Options) *bool { return &o.DistributeCPUsAcrossNUMA },
	"align-by-socket":                  func(o *allocator.Options) *bool { return &o.AlignBySocket },
	"distribute-cpus-across-cores":     func(o *allocator.Options) *bool { return &o.DistributeCPUsAcrossCores },
	"strict-cpu-reservation":           func(o *allocator.Options) *bool { return &o.StrictCPUReservation },
	"prefer-align-cpus-by-uncorecache": func(o *allocator.Options) *bool { return &o.PreferAlignCPUsByUncoreCache },
}

// The topology manager's options.
const (
	preferClosestNUMANodes = "prefer-closest-numa-nodes"
	maxAllowableNUMANodes  = "max-allowable-numa-nodes"
)

// reservedCount is the number of CPUs that kubeReserved and systemReserved come to, rounded up as in the kubelet.
func (c *Config) reservedCount() (int, error) {
	var sum resource.Quantity
	for field, reserved := range map[string]map[string]string{"kubeReserved": c.KubeReserved, "systemReserved": c.SystemReserved} {
		text, given := reserved["cpu"]
		if !given {
			continue
		}
		q, err := parseQuantity(text)
		if err != nil {
			return 0, fmt.Errorf("%s.cpu: %w", field, err)
		}
		sum.Add(q)
	}
	return int(sum.Value()), nil
}

// memoryByNode is reservedMemory in bytes, ordered by node and resource.
func (c *Config) memoryByNode() ([]allocator.ReservedMemory, error) {
	var all []allocator.ReservedMemory
	for _, m := range c.ReservedMemory {
		for _, name := range slices.Sorted(maps.Keys(m.Limits)) {
			q, err := parseQuantity(m.Limits[name])
			if err != nil {
				return nil, fmt.Errorf("reservedMemory: NUMA node %d: %s: %w", m.NUMANode, name, err)
			}
			bytes := uint64(q.Value()) //nolint:gosec // parseQuantity takes nothing negative
			all = append(all, allocator.ReservedMemory{Node: m.NUMANode, Type: name, Bytes: bytes})
		}
	}
	slices.SortStableFunc(all, func(a, b allocator.ReservedMemory) int { return a.Node - b.Node })
	return all, nil
}

// parseQuantity reads an amount of a resource that is not negative.
func parseQuantity(text string) (resource.Quantity, error) {
	wrong := fmt.Errorf("%s is no amount: write it as in 500m or 1Gi", quote(text))
	if isAbsurd(text) {
		return resource.Quantity{}, wrong
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, wrong
	}
	if q.Sign() < 0 {
		return q, fmt.Errorf("%s is less than nothing", quote(text))
	}
	return q, nil
}

// isAbsurd tells whether a text is too long for an amount, or has an exponent, as in 1e10000000, on which resource.ParseQuantity computes
// for seconds or for ever.
func isAbsurd(text string) bool {
	const mostDigits, mostExponent = 64, 30
	if len(text) > mostDigits {
		return true
	}
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	n, err := strconv.Atoi(exponent)
	return errors.Is(err, strconv.ErrRange) || n < -mostExponent || n > mostExponent
}

// parseBool reads the value of an option as the kubelet does: 1, t, T, TRUE, true, True and their opposites.
func parseBool(text string) (bool, error) {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf(`%s is neither "true" nor "false"`, quote(text))
	}
	return on, nil
}

// minNodeLimit is the kubelet's own limit, below which it takes no max-allowable-numa-nodes.
const minNodeLimit = 8

func parseNodeLimit(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < minNodeLimit {
		return 0, fmt.Errorf("%s is no whole number of at least %d", quote(text), minNodeLimit)
	}
	return n, nil
}
