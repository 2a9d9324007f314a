// Package kubepod makes what an NRI plugin sees of a pod out of what a pod asks for: it plays the kubelet and the runtime up to the NRI
// socket, so that the plugin can be shown pods that do not exist.
//
// [Node.Sandbox] and [Node.Container] fill in what NRI really carries and nothing else: no requests, no QoS class, no mark for init
// containers. What a plugin makes of it is what it would make of the real thing.
package kubepod

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Names of the resources that bear on placement, as Kubernetes has them. Huge pages are hugepages-<size>.
const (
	resourceCPU     = "cpu"
	resourceMemory  = "memory"
	hugepagesPrefix = "hugepages-"
)

// Pod is what a pod asks for: the part of a Kubernetes Pod that bears on placement. Its JSON is that of a scenario's "add".
type Pod struct {
	Name           string            `json:"name"`
	Namespace      string            `json:"namespace,omitempty"` // empty: default
	UID            string            `json:"uid,omitempty"`       // empty: made from namespace and name
	Labels         map[string]string `json:"labels,omitempty"`
	Annotations    map[string]string `json:"annotations,omitempty"`
	InitContainers []Container       `json:"initContainers,omitempty"`
	Containers     []Container       `json:"containers"`
}

// Container is one container of a pod.
type Container struct {
	Name          string        `json:"name"`
	RestartPolicy RestartPolicy `json:"restartPolicy,omitempty"`
	Requests      Resources     `json:"requests,omitempty"`
	Limits        Resources     `json:"limits,omitempty"`
}

// RestartPolicy of a container: only an init container has one.
type RestartPolicy string

// RestartAlways makes an init container a sidecar: it is started in its turn and keeps running.
const RestartAlways RestartPolicy = "Always"

// Resources are amounts by the name of the Kubernetes resource: cpu in CPUs, the others in bytes or pieces.
type Resources map[string]resource.Quantity

// QoS is a pod's quality of service class.
type QoS string

// The QoS classes.
const (
	Guaranteed QoS = "Guaranteed"
	Burstable  QoS = "Burstable"
	BestEffort QoS = "BestEffort"
)

// Check says what is wrong with a pod, as the API server would: names missing or doubled, a request above its limit, a negative amount.
func (p *Pod) Check() error {
	if p.Name == "" {
		return errors.New("a pod without a name")
	}
	if len(p.Containers) == 0 {
		return fmt.Errorf("pod %q has no containers", p.Name)
	}
	seen := map[string]bool{}
	for _, c := range p.Ordered() {
		if c.Name == "" {
			return fmt.Errorf("pod %q has a container without a name", p.Name)
		}
		if seen[c.Name] {
			return fmt.Errorf("pod %q has two containers named %q", p.Name, c.Name)
		}
		seen[c.Name] = true
		if err := c.check(); err != nil {
			return fmt.Errorf("pod %q, container %q: %w", p.Name, c.Name, err)
		}
	}
	for i := range p.Containers {
		if p.Containers[i].RestartPolicy != "" {
			return fmt.Errorf("pod %q, container %q: only an init container has a restartPolicy of its own", p.Name, p.Containers[i].Name)
		}
	}
	return nil
}

func (c *Container) check() error {
	if c.RestartPolicy != "" && c.RestartPolicy != RestartAlways {
		return fmt.Errorf("restartPolicy %q is not known, only %s is", c.RestartPolicy, RestartAlways)
	}
	for name, request := range c.Requests {
		if request.Sign() < 0 {
			return fmt.Errorf("the request of %s %s is negative", request.String(), name)
		}
		if limit, given := c.Limits[name]; given && request.Cmp(limit) > 0 {
			return fmt.Errorf("the request of %s %s is above its limit of %s", request.String(), name, limit.String())
		}
	}
	for name, limit := range c.Limits {
		if limit.Sign() < 0 {
			return fmt.Errorf("the limit of %s %s is negative", limit.String(), name)
		}
	}
	return nil
}

// Ordered returns the containers in the order in which the kubelet creates them: init containers and sidecars as listed, then the others.
func (p *Pod) Ordered() []*Container {
	ordered := make([]*Container, 0, len(p.InitContainers)+len(p.Containers))
	for i := range p.InitContainers {
		ordered = append(ordered, &p.InitContainers[i])
	}
	for i := range p.Containers {
		ordered = append(ordered, &p.Containers[i])
	}
	return ordered
}

// Sidecar tells whether an init container keeps running beside the containers that follow it.
func (c *Container) Sidecar() bool { return c.RestartPolicy == RestartAlways }

// Request returns what the container requests of a resource; what is not requested is the limit, as the API server has it.
func (c *Container) Request(name string) resource.Quantity {
	if q, given := c.Requests[name]; given {
		return q
	}
	return c.Limits[name]
}

// ResourceNames returns the names of what the container requests or limits, CPU and memory first.
func (c *Container) ResourceNames() []string {
	names := slices.Collect(maps.Keys(c.Limits))
	for name := range c.Requests {
		if _, given := c.Limits[name]; !given {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(resourceOrder(a), resourceOrder(b)), cmp.Compare(a, b))
	})
	return names
}

func resourceOrder(name string) int {
	switch name {
	case resourceCPU:
		return 0
	case resourceMemory:
		return 1
	default:
		return 2
	}
}

// QoS returns the pod's class, told by the CPU and memory of all its containers (k8s.io/kubernetes/pkg/apis/core/v1/helper/qos).
func (p *Pod) QoS() QoS {
	class := Guaranteed
	asks := false
	for _, c := range p.Ordered() {
		for _, name := range []string{resourceCPU, resourceMemory} {
			request, limit := c.Request(name), c.Limits[name]
			if !request.IsZero() || !limit.IsZero() {
				asks = true
			}
			if limit.IsZero() || request.Cmp(limit) != 0 {
				class = Burstable
			}
		}
	}
	if !asks {
		return BestEffort
	}
	return class
}

// WholeCPUs returns how many exclusive CPUs the container could get, looked at alone: its request, where that is a whole number and equals
// its limit; else 0.
func (c *Container) WholeCPUs() int {
	request, limit := c.Request(resourceCPU), c.Limits[resourceCPU]
	milli := request.MilliValue()
	if milli%1000 != 0 || request.Cmp(limit) != 0 {
		return 0
	}
	return int(milli / 1000)
}

// total adds up one amount over a pod as the scheduler and the kubelet do (k8s.io/component-helpers/resource, PodRequests): what the
// containers and sidecars need together, or what an init container needs beside the sidecars before it, where that is more.
func (p *Pod) total(amount func(*Container) int64) int64 {
	var apps, sidecars, starting int64
	for i := range p.InitContainers {
		c := &p.InitContainers[i]
		if c.Sidecar() {
			sidecars += amount(c)
			continue
		}
		starting = max(starting, sidecars+amount(c))
	}
	for i := range p.Containers {
		apps += amount(&p.Containers[i])
	}
	return max(starting, apps+sidecars)
}
