package topology

import (
	"fmt"
	"path"
	"strings"

	"nri-cpuset/topology/cpuset"
)

// DeviceKind is one of the two kinds of device files.
type DeviceKind string

// The kinds of device files, as sysfs names them below dev.
const (
	CharDevice  DeviceKind = "char"
	BlockDevice DeviceKind = "block"
)

// DeviceNode returns the kernel's number of the NUMA node near a device file, given by kind and numbers: that of the PCI device, or of the
// first parent at all, that has one, on the way up from dev/KIND/MAJOR:MINOR (Documentation/ABI/testing/sysfs-dev). It is not ok where there
// is no opinion: the device has no entry there, as /dev/null has no parent, or its firmware names no node.
//
// The node may be one that [Read] leaves out; see [Machine.NodeIndex].
func DeviceNode(sysfsRoot string, kind DeviceKind, major, minor int64) (node int, ok bool, err error) {
	if kind != CharDevice && kind != BlockDevice {
		return 0, false, fmt.Errorf("%q is no kind of device: it is %s or %s", kind, CharDevice, BlockDevice)
	}
	sys, err := openTree(sysfsRoot)
	if err != nil {
		return 0, false, fmt.Errorf("reading the NUMA node of %s device %d:%d: %w", kind, major, minor, err)
	}
	defer sys.close()
	link := fmt.Sprintf("dev/%s/%d:%d", kind, major, minor)
	target, err := sys.root.Readlink(link)
	if absent(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, sys.named(link, err)
	}
	device := path.Join(path.Dir(link), target)
	if !strings.HasPrefix(device, "devices/") {
		return 0, false, fmt.Errorf("%s: it leads to %s, which is no device of %s", sys.path(link), clip(target), sys.name)
	}
	for ; device != "devices"; device = path.Dir(device) {
		node, err := readDeviceNode(sys, device)
		if absent(err) {
			continue
		}
		if err != nil || node == none {
			return 0, false, err
		}
		return node, true, nil
	}
	return 0, false, nil
}

func readDeviceNode(sys tree, device string) (int, error) {
	folder, err := sys.folder(device)
	if err != nil {
		return 0, err
	}
	defer folder.close()
	return folder.numaNode()
}

// numaNode reads the numa_node of a device, -1 for none.
func (f folder) numaNode() (int, error) {
	node, err := f.integer("numa_node")
	if err == nil && (node < none || node > cpuset.MaxID) {
		return 0, fmt.Errorf("%s: %d is no NUMA node", f.path("numa_node"), node)
	}
	return node, err
}
