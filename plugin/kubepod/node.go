package kubepod

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"nri-cpuset/config"
)

// ExclusiveCPUs is the annotation of a pod that says how many CPUs its exclusive containers need together. Under the topology manager's pod
// scope the plugin needs that number with the first container, and NRI tells only the sum over all containers, fractions included.
const ExclusiveCPUs = "nri-cpuset/" + string(config.PodExclusiveCPUs)

// Runtime is a container runtime. The ways in which they show the same container differ a little.
type Runtime string

// The runtimes that speak NRI.
const (
	Containerd Runtime = "containerd"
	CRIO       Runtime = "cri-o"
)

// CgroupDriver is KubeletConfiguration's cgroupDriver: who names the cgroups.
type CgroupDriver string

// The cgroup drivers.
const (
	Cgroupfs CgroupDriver = "cgroupfs"
	Systemd  CgroupDriver = "systemd"
)

// Node is what of a node shows in its pods and containers. The zero value is a node with containerd and the cgroupfs driver.
type Node struct {
	Runtime      Runtime
	CgroupDriver CgroupDriver
	MemoryBytes  int64 // what the kubelet measures the OOM score of Burstable containers by; 0: not known, they all get the highest
}

// Sandbox returns the pod as NRI shows it in RunPodSandbox and with every container.
func (n Node) Sandbox(p *Pod, id string) *api.PodSandbox {
	namespace, uid := p.namespace(), p.uid()
	resources := podResources(p)

	annotations := copied(p.Annotations)
	if count := p.exclusiveCPUs(); p.QoS() == Guaranteed && count != milliCPUToShares(p.total(milliCPU))/1024 {
		annotations[ExclusiveCPUs] = strconv.FormatInt(count, 10)
	}
	if n.Runtime != CRIO {
		annotations["io.kubernetes.cri.container-type"] = "sandbox"
		annotations["io.kubernetes.cri.sandbox-id"] = id
		annotations["io.kubernetes.cri.sandbox-name"] = p.Name
		annotations["io.kubernetes.cri.sandbox-namespace"] = namespace
		annotations["io.kubernetes.cri.sandbox-uid"] = uid
		annotations["io.kubernetes.cri.sandbox-cpu-shares"] = strconv.FormatUint(resources.GetCpu().GetShares().GetValue(), 10)
		annotations["io.kubernetes.cri.sandbox-cpu-quota"] = strconv.FormatInt(resources.GetCpu().GetQuota().GetValue(), 10)
		annotations["io.kubernetes.cri.sandbox-cpu-period"] = strconv.FormatUint(resources.GetCpu().GetPeriod().GetValue(), 10)
		annotations["io.kubernetes.cri.sandbox-memory"] = strconv.FormatInt(resources.GetMemory().GetLimit().GetValue(), 10)
	}
	parent := n.CgroupParent(p.QoS(), uid)
	return &api.PodSandbox{
		Id:          id,
		Name:        p.Name,
		Uid:         uid,
		Namespace:   namespace,
		Labels:      p.labels(),
		Annotations: annotations,
		Linux: &api.LinuxPodSandbox{
			PodOverhead:  linuxResourcesOfNothing(),
			PodResources: resources,
			CgroupParent: parent,
			CgroupsPath:  n.cgroupsPath(parent, id),
			Resources:    &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(minShares)}},
		},
	}
}

// Container returns a container of the pod as NRI shows it in CreateContainer. The attempt counts how often the kubelet has created this
// container in this pod before.
func (n Node) Container(p *Pod, c *Container, sandbox *api.PodSandbox, id string, attempt int) *api.Container {
	labels := map[string]string{
		"io.kubernetes.container.name": c.Name,
		"io.kubernetes.pod.name":       sandbox.GetName(),
		"io.kubernetes.pod.namespace":  sandbox.GetNamespace(),
		"io.kubernetes.pod.uid":        sandbox.GetUid(),
	}
	annotations := map[string]string{"io.kubernetes.container.restartCount": strconv.Itoa(attempt)}
	if n.Runtime != CRIO {
		labels["io.cri-containerd.kind"] = "container"
		annotations["io.kubernetes.cri.container-type"] = "container"
		annotations["io.kubernetes.cri.container-name"] = c.Name
		annotations["io.kubernetes.cri.sandbox-id"] = sandbox.GetId()
		annotations["io.kubernetes.cri.sandbox-name"] = sandbox.GetName()
		annotations["io.kubernetes.cri.sandbox-namespace"] = sandbox.GetNamespace()
		annotations["io.kubernetes.cri.sandbox-uid"] = sandbox.GetUid()
	}
	return &api.Container{
		Id:           id,
		PodSandboxId: sandbox.GetId(),
		Name:         c.Name,
		State:        api.ContainerState_CONTAINER_CREATED,
		Labels:       labels,
		Annotations:  annotations,
		Linux: &api.LinuxContainer{
			Resources:   n.Resources(c),
			OomScoreAdj: api.Int(n.oomScoreAdj(p, c)),
			CgroupsPath: n.cgroupsPath(sandbox.GetLinux().GetCgroupParent(), id),
		},
	}
}

// CgroupParent returns the cgroup of a pod, which the kubelet makes: its path under the controller's mount.
func (n Node) CgroupParent(class QoS, uid string) string {
	qos := ""
	if class != Guaranteed {
		qos = strings.ToLower(string(class))
	}
	if n.CgroupDriver != Systemd {
		return path.Join("/kubepods", qos, "pod"+uid)
	}
	// A dash separates the levels of a slice's name, so that those of the UID have to go.
	uid = strings.ReplaceAll(uid, "-", "_")
	if qos == "" {
		return "/kubepods.slice/kubepods-pod" + uid + ".slice"
	}
	return "/kubepods.slice/kubepods-" + qos + ".slice/kubepods-" + qos + "-pod" + uid + ".slice"
}

// cgroupsPath is a container's linux.cgroupsPath of the OCI specification: a path, or slice:prefix:name for the systemd driver.
func (n Node) cgroupsPath(parent, id string) string {
	switch {
	case n.CgroupDriver == Systemd && n.Runtime == CRIO:
		return path.Base(parent) + ":crio:" + id
	case n.CgroupDriver == Systemd:
		return path.Base(parent) + ":cri-containerd:" + id
	case n.Runtime == CRIO:
		return path.Join(parent, "crio-"+id)
	default:
		return path.Join(parent, id)
	}
}

// exclusiveCPUs returns the CPUs that the pod's exclusive containers need together, fractional requests adding 0.
func (p *Pod) exclusiveCPUs() int64 {
	return p.total(func(c *Container) int64 { return int64(c.WholeCPUs()) })
}

func (p *Pod) namespace() string {
	if p.Namespace == "" {
		return "default"
	}
	return p.Namespace
}

// uid returns the pod's UID, or one made from its name, in the form that the API server gives them.
func (p *Pod) uid() string {
	if p.UID != "" {
		return p.UID
	}
	sum := sha256.Sum256([]byte(p.namespace() + "/" + p.Name))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func (p *Pod) labels() map[string]string {
	labels := copied(p.Labels)
	labels["io.kubernetes.pod.name"] = p.Name
	labels["io.kubernetes.pod.namespace"] = p.namespace()
	labels["io.kubernetes.pod.uid"] = p.uid()
	return labels
}

// linuxResourcesOfNothing is what containerd and CRI-O make of an overhead that is not given.
func linuxResourcesOfNothing() *api.LinuxResources {
	return &api.LinuxResources{
		Cpu:    &api.LinuxCPU{Shares: api.UInt64(0), Quota: api.Int64(0), Period: api.UInt64(0)},
		Memory: &api.LinuxMemory{Limit: api.Int64(0)},
	}
}

// copied returns a copy that can be added to, also of nil.
func copied(m map[string]string) map[string]string {
	c := make(map[string]string, len(m)+8)
	maps.Copy(c, m)
	return c
}
