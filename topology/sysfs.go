package topology

import (
	"fmt"

	"nri-cpuset/topology/cpuset"
)

// maxAttempts is how often a machine is read whose CPUs come and go meanwhile.
const maxAttempts = 3

// Read reads the machine from sysfs, mounted at sysfsRoot: /sys, or a fixture with devices/system/{cpu,node}, bus/pci and kernel/mm in it.
// Two things that sysfs does not have are taken from the proc folder beside it, where there is one: the memory of a machine without NUMA
// (meminfo), and which NUMA nodes are a GPU's (driver/nvidia).
//
// An error names the file that is missing, malformed, or contradicts another one. Memory is in KiB, as the kernel counts it.
func Read(sysfsRoot string) (*Machine, error) {
	sys, err := openTree(sysfsRoot)
	if err != nil {
		return nil, fmt.Errorf("reading the machine's topology: %w", err)
	}
	defer sys.close()

	return readStill(func() (cpuset.Set, error) { return readOnline(sys) }, func() (*Machine, error) { return readMachine(sys) })
}

// readStill reads a machine that keeps still meanwhile. A CPU that goes offline takes its files with it, in the middle of our reading: then
// what was read, or could not be, says nothing, and it is read again.
func readStill(online func() (cpuset.Set, error), read func() (*Machine, error)) (*Machine, error) {
	before, err := online()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		m, readErr := read()
		after, err := online()
		if err != nil {
			return nil, err
		}
		if before.Equal(after) || attempt == maxAttempts {
			return m, readErr
		}
		before = after
	}
}

// ReadOnline reads only which CPUs are online (devices/system/cpu/online), to see cheaply whether the machine has changed.
func ReadOnline(sysfsRoot string) (cpuset.Set, error) {
	sys, err := openTree(sysfsRoot)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("reading which CPUs are online: %w", err)
	}
	defer sys.close()
	return readOnline(sys)
}

func readMachine(sys tree) (*Machine, error) {
	presence, err := readPresence(sys)
	if err != nil {
		return nil, err
	}
	places, err := readPlaces(sys, presence.online)
	if err != nil {
		return nil, err
	}
	nodes, err := readNodes(sys, presence.online)
	if err != nil {
		return nil, err
	}
	nodes.place(places)
	m, err := assemble(places, nodes.nodes)
	if err != nil {
		return nil, err
	}
	m.Offline, m.Isolated, m.LeftOut = presence.offline, presence.isolated, nodes.leftOut
	m.PCIDevices, err = readPCIDevices(sys, presence.online)
	if err != nil {
		return nil, err
	}
	return m, nil
}
