package state

import (
	"time"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

// Key names a container across its restarts: a restart in place has the same key and another ID.
type Key struct {
	PodUID string `json:"podUID"`
	Name   string `json:"name"`
}

// Phase is how far one attempt of a container has come.
type Phase string

// The phases of a container. CPUs belong to it from Creating on, and stay its pod's when it has Exited.
const (
	Creating Phase = "creating" // we have answered CreateContainer; the runtime does not know it yet, and an update would be lost
	Created  Phase = "created"
	Running  Phase = "running"
	Exited   Phase = "exited"
)

// Container is what the node knows of one container and what it has been given. It is handed out by value.
type Container struct {
	Key

	ID        string `json:"id"`      // the runtime's, of the latest attempt
	Sandbox   string `json:"sandbox"` // the runtime's ID of the pod sandbox
	Pod       string `json:"pod"`
	Namespace string `json:"namespace"`

	Labels map[string]string `json:"-"` // the pod's; the runtime brings them again

	Demand    Demand              `json:"demand"`
	Placement allocator.Placement `json:"placement"`
	Phase     Phase               `json:"phase"`
	// CreatedMilliCPU is the CPU request with which this attempt was created, or first seen. A runtime that has been restarted may show that
	// although the container has been resized since.
	CreatedMilliCPU int64     `json:"createdMilliCPU,omitempty"`
	Since           time.Time `json:"since"` // of the placement

	// Managed says that we have set this container's cpuset at least once, so that policy `none` has something to give back.
	Managed bool `json:"managed"`
	// Unsettled says why the container is not where the rules want it, where nothing better was to be had; empty for all others.
	Unsettled string `json:"unsettled,omitempty"`
	// PodQuota and PodPeriod are the CFS quota of the pod's cgroup as the kubelet set it, in microseconds; 0 where it has none, or nobody knows.
	PodQuota  int64  `json:"podQuota,omitempty"`
	PodPeriod uint64 `json:"podPeriod,omitempty"`
	// CgroupsPath is the container's cgroup as the runtime names it: a path, or slice:prefix:name for the systemd driver.
	CgroupsPath string `json:"cgroupsPath,omitempty"`

	encoded []byte // its JSON; nil when it has changed since
}

// Exclusive tells whether c has CPUs of its own.
func (c *Container) Exclusive() bool { return !c.Placement.CPUs.IsEmpty() }

// Demand is what a container asks for in the terms of the pod's manifest, as far as the runtime tells. Whether that means exclusive CPUs is
// for the rules in force to say, and they can change while the container runs.
type Demand struct {
	Guaranteed bool `json:"guaranteed"` // the pod's QoS class

	MilliCPU      int64 `json:"milliCPU"`      // the CPU request
	LimitMilliCPU int64 `json:"limitMilliCPU"` // the CPU limit; 0 for none

	Memory  allocator.Memory   `json:"memory,omitempty"` // limits in bytes by type
	Devices []allocator.Device `json:"devices,omitempty"`

	// Quota and Period are the CFS quota as the kubelet set it, in microseconds, to be put back when the container is no longer exclusive.
	Quota  int64  `json:"quota"`
	Period uint64 `json:"period"`
}

// WholeCPUs returns how many whole CPUs the demand is for, and 0 for one that is fractional or whose limit is not its request.
func (d *Demand) WholeCPUs() int {
	if d.MilliCPU <= 0 || d.MilliCPU%1000 != 0 || d.LimitMilliCPU != d.MilliCPU {
		return 0
	}
	return int(d.MilliCPU / 1000)
}

// Wanted is what a container should have now.
type Wanted struct {
	CPUs cpuset.Set
	// Unlimited says that the CFS quota should be lifted; otherwise it should be as the kubelet set it: Quota in microseconds a Period, 0 for
	// none.
	Unlimited bool
	Quota     int64
	Period    uint64
}
