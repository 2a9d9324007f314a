package plugin

import (
	"context"
	"fmt"

	"github.com/containerd/nri/pkg/api"

	"nri-cpuset/allocator"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// maxDevices bounds how many devices of one container are looked up.
const maxDevices = 64

// devices finds out on which NUMA nodes a container's devices sit.
type devices struct {
	sysfs string // empty: nobody knows
}

// of returns the devices that the runtime gives a container and that have a node. A device that cannot be looked up has no opinion.
func (d *devices) of(_ context.Context, _ *api.PodSandbox, ctr *api.Container) []allocator.Device {
	if d.sysfs == "" {
		return nil
	}
	var found []allocator.Device
	for i, dev := range ctr.GetLinux().GetDevices() {
		if i == maxDevices {
			break
		}
		kind := topology.CharDevice
		if dev.GetType() == "b" {
			kind = topology.BlockDevice
		}
		node, ok, err := topology.DeviceNode(d.sysfs, kind, dev.GetMajor(), dev.GetMinor())
		if err != nil || !ok {
			continue
		}
		found = append(found, allocator.Device{Name: fmt.Sprintf("%s %d:%d", kind, dev.GetMajor(), dev.GetMinor()), Nodes: cpuset.New(node)})
	}
	return found
}
