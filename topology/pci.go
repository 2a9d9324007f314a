package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nri-cpuset/topology/cpuset"
)

// localCPUs is which CPUs are near a PCI device.
var localCPUs = attribute{"local_cpulist", "local_cpus"}

// readPCIDevices reads bus/pci/devices (Documentation/ABI/testing/sysfs-bus-pci). A machine may have no PCI at all.
func readPCIDevices(sys tree, online cpuset.Set) ([]PCIDevice, error) {
	const devicesFolder = "bus/pci/devices"
	folder, err := sys.folder(devicesFolder)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer folder.close()
	addresses, err := folder.names()
	if err != nil {
		return nil, err
	}
	slices.Sort(addresses)
	devices, err := readEach(len(addresses), func(i int) (PCIDevice, error) {
		device, err := readPCIDevice(sys, devicesFolder+"/"+addresses[i])
		if absent(err) {
			return PCIDevice{}, nil // unplugged since
		}
		device.Address = addresses[i]
		device.LocalCPUs = device.LocalCPUs.Intersect(online)
		return device, err
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(devices, func(d PCIDevice) bool { return d.Address == "" }), nil
}

func readPCIDevice(sys tree, name string) (PCIDevice, error) {
	var device PCIDevice
	folder, err := sys.folder(name)
	if err != nil {
		return device, err
	}
	defer folder.close()
	class, err := folder.read("class")
	if err != nil {
		return device, err
	}
	if device.Class, err = parsePCIClass(class); err != nil {
		return device, fmt.Errorf("%s: %w", folder.path("class"), err)
	}
	// Neither of the others is there in a kernel without NUMA.
	device.Node, err = folder.numaNode()
	if absent(err) {
		device.Node = none
	} else if err != nil {
		return device, err
	}
	local, err := folder.set(localCPUs)
	if err != nil && !absent(err) {
		return device, err
	}
	device.LocalCPUs = local.cpus
	return device, nil
}

// parsePCIClass reads "0x020000": class, subclass and programming interface, a byte each.
func parsePCIClass(text string) (uint32, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	class, err := strconv.ParseUint(digits, 16, 24)
	if err != nil || !ok {
		return 0, fmt.Errorf("%q is no class of PCI devices", clip(text))
	}
	return uint32(class), nil
}
