package topology

import (
	"strconv"
)

// lastLevel is the level of the cache that counts as the last one: the L3 only. What some machines have beyond it belongs to a node's
// memory, and an L2 is no substitute: the kubelet's uncore caches are L3 too.
const lastLevel = 3

// cacheCPUs is which CPUs share one cache. The mask comes first because every kernel has it; the list came with 2.6.26.
var cacheCPUs = attribute{"shared_cpu_map", "shared_cpu_list"}

// readCache reads which CPUs share the last-level cache of one CPU, of the caches in cpuN/cache/indexM
// (Documentation/ABI/testing/sysfs-devices-system-cpu). It finds none where the kernel shows none, as on many virtual machines.
func readCache(cpu folder) (sharing, bool, error) {
	caches, err := cpu.folder("cache")
	if absent(err) {
		return sharing{}, false, nil
	}
	if err != nil {
		return sharing{}, false, err
	}
	defer caches.close()

	// An index is not a level, but after two L1 and the L2 the L3 has index 3, and looking there first saves listing the others.
	const usual = 3
	last, found, err := readIfLast(caches, usual)
	if found || err != nil {
		return last, found, err
	}
	indexes, err := listNumbered(caches, "index")
	if err != nil {
		return sharing{}, false, err
	}
	indexes.Remove(usual)
	for index := range indexes.All() {
		last, found, err = readIfLast(caches, index)
		if found || err != nil {
			return last, found, err
		}
	}
	return sharing{}, false, nil
}

// readIfLast reads one cache if it is a last-level one.
func readIfLast(caches folder, index int) (sharing, bool, error) {
	cache, err := caches.folder("index" + strconv.Itoa(index))
	if absent(err) {
		return sharing{}, false, nil
	}
	if err != nil {
		return sharing{}, false, err
	}
	defer cache.close()
	level, err := cache.integer("level")
	if err != nil || level != lastLevel {
		return sharing{}, false, err
	}
	last, err := cache.set(cacheCPUs)
	return last, err == nil, err
}
