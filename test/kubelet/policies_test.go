package kubelet

import (
	"context"
	"math"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	cputopology "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"nri-cpuset/plugin/kubepod"
)

// policies are the kubelet's static policies under its topology manager, with their state in memory: what the managers decide, without their
// files and without their looking for pods that have gone. A benchmark of decisions needs no more.
type policies struct {
	topology topologymanager.Manager
	cpu      cpuPolicy
	memory   memoryPolicy
	pods     map[string]*core.Pod
}

func newPolicies(m *Machine, config []byte) (*policies, error) {
	if err := options(); err != nil {
		return nil, err
	}
	info, err := m.info()
	if err != nil {
		return nil, err
	}
	s, err := parseSettings(config)
	if err != nil {
		return nil, err
	}
	p := &policies{pods: map[string]*core.Pod{}}
	p.topology, err = topologymanager.NewManager(logger, info.Topology, s.TopologyManagerPolicy, s.TopologyManagerScope, s.TopologyManagerPolicyOptions)
	if err != nil {
		return nil, err
	}
	cpus, err := cputopology.Discover(logger, info)
	if err != nil {
		return nil, err
	}
	reserved := s.reservation[core.ResourceCPU]
	p.cpu.state = cpustate.NewMemoryState(logger)
	p.cpu.Policy, err = cpumanager.NewStaticPolicy(logger, cpus, int(math.Ceil(reserved.AsApproximateFloat64())), s.reservedCPUs, p.topology, s.CPUManagerPolicyOptions)
	if err != nil {
		return nil, err
	}
	byNode := map[int]map[core.ResourceName]uint64{}
	for i := range m.Nodes {
		byNode[m.Nodes[i].ID] = map[core.ResourceName]uint64{}
	}
	for _, r := range s.reservedMemory {
		for name, amount := range r.Limits {
			byNode[int(r.NumaNode)][name] = uint64(amount.Value())
		}
	}
	p.memory.state = memorystate.NewMemoryState(logger)
	if p.memory.Policy, err = memorymanager.NewPolicyStatic(logger, info, byNode, p.topology); err != nil {
		return nil, err
	}
	p.topology.AddHintProvider(logger, &p.cpu)
	p.topology.AddHintProvider(logger, &p.memory)
	if err := p.cpu.Start(logger, p.cpu.state); err != nil {
		return nil, err
	}
	return p, p.memory.Start(logger, p.memory.state)
}

func (p *policies) add(spec *kubepod.Pod) bool {
	pod := podOf(spec, types.UID(spec.Name))
	p.pods[spec.Name] = pod
	if result := p.topology.Admit(quiet, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation}); result.Admit {
		return true
	}
	p.remove(spec.Name)
	return false
}

func (p *policies) remove(name string) {
	pod := p.pods[name]
	delete(p.pods, name)
	for i := range pod.Spec.Containers {
		container := pod.Spec.Containers[i].Name
		if err := p.cpu.RemoveContainer(logger, p.cpu.state, string(pod.UID), container); err != nil {
			panic(err) // the state is in memory
		}
		p.memory.RemoveContainer(logger, p.memory.state, string(pod.UID), container)
	}
}

func (p *policies) shared() string { return p.cpu.state.GetDefaultCPUSet().String() }

// cpuPolicy and memoryPolicy are the policies as the topology manager wants them.
type cpuPolicy struct {
	cpumanager.Policy
	state cpustate.State
}

func (c *cpuPolicy) GetTopologyHints(l klog.Logger, pod *core.Pod, container *core.Container, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return c.Policy.GetTopologyHints(l, c.state, pod, container, operation)
}

func (c *cpuPolicy) GetPodTopologyHints(l klog.Logger, pod *core.Pod, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return c.Policy.GetPodTopologyHints(l, c.state, pod, operation)
}

func (c *cpuPolicy) AllocatePod(l klog.Logger, pod *core.Pod, operation lifecycle.Operation) error {
	return c.Policy.AllocatePod(l, c.state, pod, operation)
}

func (c *cpuPolicy) Allocate(_ context.Context, pod *core.Pod, container *core.Container, operation lifecycle.Operation) error {
	return c.Policy.Allocate(logger, c.state, pod, container, operation)
}

type memoryPolicy struct {
	memorymanager.Policy
	state memorystate.State
}

func (m *memoryPolicy) GetTopologyHints(l klog.Logger, pod *core.Pod, container *core.Container, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return m.Policy.GetTopologyHints(l, m.state, pod, container, operation)
}

func (m *memoryPolicy) GetPodTopologyHints(l klog.Logger, pod *core.Pod, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return m.Policy.GetPodTopologyHints(l, m.state, pod, operation)
}

func (m *memoryPolicy) AllocatePod(l klog.Logger, pod *core.Pod, operation lifecycle.Operation) error {
	return m.Policy.AllocatePod(l, m.state, pod, operation)
}

func (m *memoryPolicy) Allocate(ctx context.Context, pod *core.Pod, container *core.Container, operation lifecycle.Operation) error {
	return m.Policy.Allocate(ctx, m.state, pod, container, operation)
}
