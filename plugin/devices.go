package plugin

import (
	"context"
	"fmt"

	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"nri-cpuset/allocator"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// maxDevices bounds how many devices of one container are looked up.
const maxDevices = 64

// devices finds out on which NUMA nodes a container's devices sit: from the device files that the runtime gives it, and from what the kubelet's
// device manager says. It may wait for the kubelet, so the plugin's lock is not held.
type devices struct {
	sysfs   string // empty: device files are not looked up
	kubelet podResources
	log     *logrus.Entry
}

// of returns the devices of a container that have a node. One that cannot be looked up has no opinion.
func (d *devices) of(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) []allocator.Device {
	found := d.files(ctr)
	known, err := d.kubelet.devices(ctx, pod.GetNamespace(), pod.GetName(), ctr.GetName())
	if err != nil {
		d.log.WithError(err).WithField("pod", pod.GetNamespace()+"/"+pod.GetName()).Debug("placed without the kubelet's word on its devices")
	}
	return append(found, known...)
}

// files looks up the container's device files in sysfs.
func (d *devices) files(ctr *api.Container) []allocator.Device {
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
		if err != nil {
			d.log.WithError(err).Debug("a device without an opinion on NUMA nodes")
		}
		if ok && node >= 0 && node <= cpuset.MaxID {
			found = append(found, allocator.Device{Name: fmt.Sprintf("%s %d:%d", kind, dev.GetMajor(), dev.GetMinor()), Nodes: cpuset.New(node)})
		}
	}
	return found
}
