package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Resources are a container's, as a pod's manifest has them. 0 is none; a request that is not given equals its limit.
type Resources struct {
	MilliCPURequest, MilliCPULimit int64
	MemoryRequest, MemoryLimit     int64 // bytes
}

// Guaranteed returns equal requests and limits, which make a Guaranteed container: of whole CPUs, an exclusive one.
func Guaranteed(milliCPU, memory int64) Resources {
	return Resources{MilliCPURequest: milliCPU, MilliCPULimit: milliCPU, MemoryRequest: memory, MemoryLimit: memory}
}

// ContainerSpec is a container of a pod's manifest.
type ContainerSpec struct {
	Name      string
	Resources Resources
	// Command is what it runs. By default it says first where it may run, see [Container.Says], and then sleeps.
	Command []string
}

// PodSpec is a pod's manifest.
type PodSpec struct {
	Name        string
	Annotations map[string]string
	Containers  []ContainerSpec
}

// qosClass is the pod's class, as Kubernetes' documentation "Pod Quality of Service Classes" defines it.
func (s *PodSpec) qosClass() string {
	guaranteed, bestEffort := true, true
	for _, c := range s.Containers {
		r := c.Resources.withDefaults()
		if r != (Resources{}) {
			bestEffort = false
		}
		if r.MilliCPULimit == 0 || r.MemoryLimit == 0 || r.MilliCPURequest != r.MilliCPULimit || r.MemoryRequest != r.MemoryLimit {
			guaranteed = false
		}
	}
	switch {
	case bestEffort:
		return "besteffort"
	case guaranteed:
		return "guaranteed"
	}
	return "burstable"
}

func (r Resources) withDefaults() Resources {
	if r.MilliCPURequest == 0 {
		r.MilliCPURequest = r.MilliCPULimit
	}
	if r.MemoryRequest == 0 {
		r.MemoryRequest = r.MemoryLimit
	}
	return r
}

// toCRI returns the resources as the kubelet passes them to the runtime: shares of 1024 for a CPU (2 at least), quota in a period of 100 ms.
func (r Resources) toCRI() *cri.LinuxContainerResources {
	r = r.withDefaults()
	return &cri.LinuxContainerResources{
		CpuShares:          max(r.MilliCPURequest*1024/1000, 2),
		CpuPeriod:          100_000,
		CpuQuota:           quotaMicros(r.MilliCPULimit),
		MemoryLimitInBytes: r.MemoryLimit,
	}
}

func quotaMicros(milliCPU int64) int64 {
	if milliCPU == 0 {
		return 0
	}
	return max(milliCPU*100, 1000)
}

// Pod is a pod sandbox that runs.
type Pod struct {
	Spec   PodSpec
	UID    string
	Cgroup string // the pod's cgroup

	node       *Node
	id         string
	config     *cri.PodSandboxConfig
	containers map[string]*Container // by id
	attempts   map[string]uint32     // how often each container has been created
}

// RunPod makes the pod's cgroup, limited as the kubelet limits it, and starts its sandbox. There are no containers in it yet.
func (n *Node) RunPod(ctx context.Context, spec PodSpec) (*Pod, error) {
	n.nextPod++
	uid := fmt.Sprintf("%08x-0000-4000-8000-000000000000", n.nextPod)
	parent := n.Kubepods
	if qos := spec.qosClass(); qos != "guaranteed" {
		parent = filepath.Join(parent, qos)
	}
	p := &Pod{Spec: spec, UID: uid, Cgroup: filepath.Join(parent, "pod"+uid), node: n, containers: map[string]*Container{}, attempts: map[string]uint32{}}
	if err := n.Cgroups.Create(p.Cgroup); err != nil {
		return nil, err
	}
	if err := p.limit(); err != nil {
		return nil, err
	}
	p.config = &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: spec.Name, Uid: uid, Namespace: "default"},
		LogDirectory: filepath.Join(n.dir, "logs", spec.Name+"_"+uid),
		Labels: map[string]string{
			"io.kubernetes.pod.name": spec.Name, "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": uid,
		},
		Annotations: spec.Annotations,
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent:    p.Cgroup,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER}},
			Overhead:        &cri.LinuxContainerResources{},
			Resources:       spec.total().toCRI(),
		},
	}
	reply, err := n.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pod %s: %w", spec.Name, err), n.Cgroups.Remove(p.Cgroup))
	}
	p.id = reply.GetPodSandboxId()
	n.pods[p.id] = p
	return p, nil
}

// limit sets the CPU quota of the pod's cgroup.
func (p *Pod) limit() error {
	quota := quotaMicros(p.Spec.total().MilliCPULimit)
	if quota == 0 {
		quota = -1
	}
	return p.node.Cgroups.SetQuota(p.Cgroup, quota)
}

// note notes what a container asks for now.
func (p *Pod) note(name string, r Resources) {
	p.Spec.Containers = slices.Clone(p.Spec.Containers)
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			p.Spec.Containers[i].Resources = r
		}
	}
}

// total returns the sum over all containers. It has a CPU limit only if every one of them has, as the kubelet limits only such pods.
func (s *PodSpec) total() (sum Resources) {
	limited := true
	for _, c := range s.Containers {
		r := c.Resources.withDefaults()
		sum.MilliCPURequest += r.MilliCPURequest
		sum.MilliCPULimit += r.MilliCPULimit
		sum.MemoryRequest += r.MemoryRequest
		sum.MemoryLimit += r.MemoryLimit
		limited = limited && r.MilliCPULimit > 0
	}
	if !limited {
		sum.MilliCPULimit = 0
	}
	return sum
}

// Create creates a container of the pod, not started yet: runc has made its cgroup and its first process, which waits to be told to become
// the command. A container that exists by this name already, ended or not, stays: this is the next attempt.
func (p *Pod) Create(ctx context.Context, name string) (*Container, error) {
	i := slices.IndexFunc(p.Spec.Containers, func(c ContainerSpec) bool { return c.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("pod %s has no container %s", p.Spec.Name, name)
	}
	c := &Container{Spec: p.Spec.Containers[i], pod: p}
	if c.Spec.Command == nil {
		c.Spec.Command = []string{"/bin/sh", "-c", sayAllowed + "exec sleep inf"}
	}
	attempt := p.attempts[name]
	p.attempts[name]++
	c.logName = fmt.Sprintf("%s_%d.log", name, attempt)
	begin := time.Now()
	reply, err := p.node.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId:  p.id,
		SandboxConfig: p.config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: name, Attempt: attempt},
			Image:    &cri.ImageSpec{Image: imageName},
			Command:  c.Spec.Command,
			LogPath:  c.logName,
			Labels: map[string]string{
				"io.kubernetes.container.name": name, "io.kubernetes.pod.name": p.Spec.Name,
				"io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": p.UID,
			},
			Linux: &cri.LinuxContainerConfig{
				Resources:       c.Spec.Resources.toCRI(),
				SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: p.config.GetLinux().GetSecurityContext().GetNamespaceOptions()},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("container %s of pod %s: %w", name, p.Spec.Name, err)
	}
	c.CreateTime = time.Since(begin)
	c.id = reply.GetContainerId()
	p.containers[c.id] = c
	return c, nil
}

// Remove stops and removes the pod and all of its containers, and then its cgroup, as the kubelet does.
func (p *Pod) Remove(ctx context.Context) error {
	if _, err := p.node.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.id}); err != nil {
		return fmt.Errorf("stop pod %s: %w", p.Spec.Name, err)
	}
	if _, err := p.node.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.id}); err != nil {
		return fmt.Errorf("remove pod %s: %w", p.Spec.Name, err)
	}
	delete(p.node.pods, p.id)
	return p.node.Cgroups.Remove(p.Cgroup)
}
