package allocator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"nri-cpuset/topology"
)

// Check tells what of a policy contradicts itself, whatever the machine.
func (p *Policy) Check() error {
	if err := cmp.Or(p.validateNames(), p.validateOptions()); err != nil {
		return err
	}
	if p.CPUManager == CPUManagerStatic && p.ReservedCPUs.IsEmpty() && p.ReservedCount <= 0 {
		return fmt.Errorf("cpuManagerPolicy %s needs CPUs for the system: set reservedSystemCPUs, or kubeReserved.cpu or systemReserved.cpu",
			CPUManagerStatic)
	}
	if p.MemoryManager == MemoryManagerStatic && !slices.ContainsFunc(p.ReservedMemory, func(r ReservedMemory) bool { return r.Bytes > 0 }) {
		return errors.New("memoryManagerPolicy Static needs memory for the system: set reservedMemory")
	}
	return nil
}

// validate tells what of a policy contradicts itself or does not fit the machine. CPUs and memory that are to be reserved are looked at where
// they are reserved.
func (p *Policy) validate(m *topology.Machine) error {
	if err := p.Check(); err != nil {
		return err
	}
	if p.Options.AlignBySocket && len(m.Packages) > len(nodeSets(m)) {
		return fmt.Errorf("cpuManagerPolicyOptions: align-by-socket does not fit a machine with more sockets (%d) than NUMA nodes with CPUs (%d)",
			len(m.Packages), len(nodeSets(m)))
	}
	if needsMasks := p.MemoryManager == MemoryManagerStatic || p.aligns(); needsMasks && len(m.Nodes) > maxMaskNodes {
		return fmt.Errorf("topologyManagerPolicy %q, memoryManagerPolicy %q: the machine has %d NUMA nodes, and at most %d can be aligned: set none",
			p.TopologyManager, p.MemoryManager, len(m.Nodes), maxMaskNodes)
	}
	return nil
}

// aligns tells whether there is a topology manager.
func (p *Policy) aligns() bool {
	return p.TopologyManager != "" && p.TopologyManager != TopologyManagerNone
}

// validateNames looks for values that are none of those declared. An empty one is the kubelet's default: none, container and, of ours,
// exclude.
func (p *Policy) validateNames() error {
	return cmp.Or(
		known("cpuManagerPolicy", p.CPUManager, "", CPUManagerNone, CPUManagerStatic),
		known("memoryManagerPolicy", p.MemoryManager, "", MemoryManagerNone, MemoryManagerStatic),
		known("topologyManagerPolicy", p.TopologyManager,
			"", TopologyManagerNone, TopologyManagerBestEffort, TopologyManagerRestricted, TopologyManagerSingleNUMANode),
		known("topologyManagerScope", p.Scope, "", ScopeContainer, ScopePod),
		known("isolatedCPUs", p.Isolated, "", IsolatedExclude, IsolatedExclusive, IsolatedIgnore),
	)
}

func known[T ~string](setting string, value T, values ...T) error {
	if slices.Contains(values, value) {
		return nil
	}
	return fmt.Errorf("%s %q is unknown (known: %v)", setting, value, values[1:])
}

// validateOptions are the kubelet's rules for which options of the static policy go together.
func (p *Policy) validateOptions() error {
	o := &p.Options
	const (
		acrossCores = "distribute-cpus-across-cores"
		acrossNUMA  = "distribute-cpus-across-numa"
		uncoreCache = "prefer-align-cpus-by-uncorecache"
	)
	switch {
	case p.CPUManager != CPUManagerStatic && *o != Options{}:
		return fmt.Errorf("cpuManagerPolicyOptions go with cpuManagerPolicy %s only, not with %s", CPUManagerStatic, CPUManagerNone)
	case o.DistributeCPUsAcrossCores && o.FullPCPUsOnly:
		return exclude(acrossCores, "full-pcpus-only")
	case o.DistributeCPUsAcrossCores && o.DistributeCPUsAcrossNUMA:
		return exclude(acrossCores, acrossNUMA)
	case o.DistributeCPUsAcrossCores && o.PreferAlignCPUsByUncoreCache:
		return exclude(acrossCores, uncoreCache)
	case o.DistributeCPUsAcrossNUMA && o.PreferAlignCPUsByUncoreCache:
		return exclude(acrossNUMA, uncoreCache)
	case o.AlignBySocket && p.TopologyManager == TopologyManagerSingleNUMANode:
		return fmt.Errorf("cpuManagerPolicyOptions: align-by-socket does not go with topologyManagerPolicy %s", TopologyManagerSingleNUMANode)
	}
	return nil
}

func exclude(option, other string) error {
	return fmt.Errorf("cpuManagerPolicyOptions: %s and %s exclude each other", option, other)
}
