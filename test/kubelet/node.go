package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	kubeletsources "k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"nri-cpuset/plugin/kubepod"
)

// Node is the kubelet's resource managers on one machine, and the pods that they know of.
type Node struct {
	topology topologymanager.Manager
	cpu      cpumanager.Manager
	memory   memorymanager.Manager
	uids     int

	mu   sync.Mutex // the CPU manager looks at the pods from a goroutine of its own
	pods map[string]*core.Pod
}

// Its own logging would be part of what is measured; it is not what is compared.
var (
	logger  = logr.Discard()
	quiet   = klog.NewContext(context.Background(), logger)
	options = sync.OnceValue(func() error {
		return utilfeature.DefaultMutableFeatureGate.Set("CPUManagerPolicyAlphaOptions=true,CPUManagerPolicyBetaOptions=true")
	})
)

// NewNode starts the managers, with their state files in a directory of the caller's. The error is what the kubelet would not start with.
func NewNode(m *Machine, config []byte, stateDir string) (*Node, error) {
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
	n := &Node{pods: map[string]*core.Pod{}}
	n.topology, err = topologymanager.NewManager(logger, info.Topology, s.TopologyManagerPolicy, s.TopologyManagerScope, s.TopologyManagerPolicyOptions)
	if err != nil {
		return nil, fmt.Errorf("topology manager: %w", err)
	}
	n.cpu, err = cpumanager.NewManager(logger, s.CPUManagerPolicy, s.CPUManagerPolicyOptions, never, info, s.reservedCPUs, s.reservation, stateDir, n.topology)
	if err != nil {
		return nil, fmt.Errorf("CPU manager: %w", err)
	}
	n.topology.AddHintProvider(logger, n.cpu)
	n.memory, err = memorymanager.NewManager(logger, s.MemoryManagerPolicy, info, s.reservation, s.reservedMemory, stateDir, n.topology)
	if err != nil {
		return nil, fmt.Errorf("memory manager: %w", err)
	}
	n.topology.AddHintProvider(logger, n.memory)
	return n, n.start()
}

// never is how often the CPU manager reconciles running containers, of which there are none.
const never = 1000 * time.Hour

// start starts the managers as a kubelet does that has seen all its pods.
func (n *Node) start() error {
	ready := kubeletsources.NewSourcesReady(func(sets.Set[string]) bool { return true })
	if err := n.cpu.Start(quiet, n.activePods, ready, noStatus{}, nil, containermap.NewContainerMap()); err != nil {
		return fmt.Errorf("CPU manager: %w", err)
	}
	if err := n.memory.Start(quiet, n.activePods, ready, noStatus{}, nil, containermap.NewContainerMap()); err != nil {
		return fmt.Errorf("memory manager: %w", err)
	}
	return nil
}

// noStatus knows of no running container, so that there is nobody whose cpuset the CPU manager would write.
type noStatus struct{}

func (noStatus) GetPodStatus(types.UID) (core.PodStatus, bool) { return core.PodStatus{}, false }

// Add shows a pod to the managers, as the kubelet does when it has been bound to the node. A pod that is refused holds nothing afterwards.
func (n *Node) Add(p *kubepod.Pod) lifecycle.PodAdmitResult {
	n.uids++
	pod := podOf(p, types.UID(fmt.Sprintf("uid-%d", n.uids)))
	n.mu.Lock()
	n.pods[p.Name] = pod
	n.mu.Unlock()
	result := n.topology.Admit(quiet, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
	if !result.Admit {
		n.Remove(p.Name)
	}
	return result
}

// Remove takes a pod away. One that is not there changes nothing.
func (n *Node) Remove(name string) {
	n.mu.Lock()
	delete(n.pods, name)
	n.mu.Unlock()
	n.collect()
}

// collect makes the managers let go of what pods had that are no longer there. They do so before every decision, this one about nobody.
func (n *Node) collect() {
	nobody := &core.Pod{}
	n.cpu.GetPodTopologyHints(logger, nobody, lifecycle.AddOperation)
	n.memory.GetPodTopologyHints(logger, nobody, lifecycle.AddOperation)
}

// CPUs returns a container's exclusive CPUs, none in the shared pool.
func (n *Node) CPUs(pod, container string) cpuset.CPUSet {
	return n.cpu.GetExclusiveCPUs(string(n.pods[pod].UID), container)
}

// Mems returns the NUMA nodes that a container is bound to, none where it is not.
func (n *Node) Mems(pod, container string) cpuset.CPUSet {
	nodes := n.memory.GetMemoryNUMANodes(logger, n.pods[pod], &core.Container{Name: container})
	return cpuset.New(nodes.UnsortedList()...)
}

// Shared returns the shared pool.
func (n *Node) Shared() cpuset.CPUSet { return n.cpu.State().GetDefaultCPUSet() }

func (n *Node) activePods() []*core.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	active := make([]*core.Pod, 0, len(n.pods))
	for _, pod := range n.pods {
		active = append(active, pod)
	}
	return active
}
