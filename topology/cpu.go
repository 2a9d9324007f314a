package topology

import (
	"fmt"
	"strconv"
	"strings"

	"nri-cpuset/topology/cpuset"
)

const cpuFolder = "devices/system/cpu"

// presence is what devices/system/cpu says of the CPUs as a whole (Documentation/admin-guide/cputopology.rst).
type presence struct {
	online, offline, isolated cpuset.Set
}

func readPresence(sys tree) (presence, error) {
	var p presence
	var err error
	if p.online, err = readOnline(sys); err != nil {
		return p, err
	}
	cpus, err := sys.folder(cpuFolder)
	if err != nil {
		return p, err
	}
	defer cpus.close()
	if p.isolated, err = cpus.optionalList("isolated"); err != nil {
		return p, err
	}
	// "offline" also lists the numbers up to the kernel's limit that no CPU has, so it is taken from what is present.
	present, err := cpus.list("present")
	if absent(err) {
		present, err = listCPUs(cpus)
	}
	if err != nil {
		return p, err
	}
	p.offline = present.Difference(p.online)
	return p, nil
}

// readOnline reads devices/system/cpu/online, or, on kernels before 2.6.26, which have no such file, the "online" of every CPU.
func readOnline(sys tree) (cpuset.Set, error) {
	cpus, err := sys.folder(cpuFolder)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("%s is no sysfs, such as /sys: %w", sys.name, err)
	}
	defer cpus.close()
	online, err := cpus.list("online")
	if absent(err) {
		online, err = readEachOnline(cpus)
	}
	if err != nil {
		return cpuset.Set{}, err
	}
	if online.IsEmpty() {
		return cpuset.Set{}, fmt.Errorf("%s: no CPU is online", cpus.path("online"))
	}
	return online, nil
}

func readEachOnline(cpus folder) (cpuset.Set, error) {
	online, err := listCPUs(cpus)
	if err != nil {
		return cpuset.Set{}, err
	}
	for cpu := range online.All() {
		one, err := cpus.folder(cpuName(cpu))
		if err != nil {
			return cpuset.Set{}, err
		}
		state, err := one.integer("online")
		one.close()
		switch {
		case absent(err): // a CPU that cannot go offline, as CPU 0 of x86, has no such file
		case err != nil:
			return cpuset.Set{}, err
		case state == 0:
			online.Remove(cpu)
		}
	}
	return online, nil
}

// listCPUs tells the CPUs by their folders.
func listCPUs(cpus folder) (cpuset.Set, error) {
	return listNumbered(cpus, "cpu")
}

// listNumbered returns the numbers of the entries named prefix and number.
func listNumbered(f folder, prefix string) (cpuset.Set, error) {
	names, err := f.names()
	if err != nil {
		return cpuset.Set{}, err
	}
	var ids cpuset.Set
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, prefix)
		if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
			continue // cpufreq, has_cpu
		}
		id, err := strconv.Atoi(digits)
		if err != nil || id > cpuset.MaxID {
			return cpuset.Set{}, fmt.Errorf("%s: %w", f.path(name), &cpuset.RangeError{ID: id})
		}
		ids.Add(id)
	}
	return ids, nil
}

func cpuName(cpu int) string { return "cpu" + strconv.Itoa(cpu) }

// The CPUs of one core and of one package: the names since Linux 5.3, those before, and the masks of kernels before 2.6.26.
var (
	coreCPUs    = attribute{"core_cpus_list", "thread_siblings_list", "core_cpus", "thread_siblings"}
	packageCPUs = attribute{"package_cpus_list", "core_siblings_list", "package_cpus", "core_siblings"}
)

// cpuReading is what one CPU's folder says: where it sits, and with whom it shares its core, its package and its last-level cache, if it
// has one.
type cpuReading struct {
	place            place
	core, pkg, cache sharing
	hasCache         bool
}

// readPlaces reads where each online CPU sits, all but its node. Who shares a core or a package is told by the sets, not by core_id and
// physical_package_id, which are unique in a die only on some machines, and -1 on others.
func readPlaces(sys tree, online cpuset.Set) ([]place, error) {
	cpus, err := sys.folder(cpuFolder)
	if err != nil {
		return nil, err
	}
	defer cpus.close()
	ids := online.IDs()
	readings, err := readEach(len(ids), func(i int) (cpuReading, error) { return readCPU(cpus, ids[i], online) })
	if err != nil {
		return nil, err
	}
	cores, packages, caches := map[int]sharing{}, map[int]sharing{}, map[int]sharing{}
	for _, r := range readings {
		cores[r.place.cpu], packages[r.place.cpu] = r.core, r.pkg
		if r.hasCache {
			caches[r.place.cpu] = r.cache
		}
	}
	places := make([]place, 0, len(readings))
	for _, r := range readings {
		p := r.place
		if p.core, err = lowestSharing(cores, p.cpu); err != nil {
			return nil, err
		}
		if p.pkg, err = lowestSharing(packages, p.cpu); err != nil {
			return nil, err
		}
		if r.hasCache {
			if p.cache, err = lowestSharing(caches, p.cpu); err != nil {
				return nil, err
			}
		}
		places = append(places, p)
	}
	return places, nil
}

// readCPU reads cpuN/topology and cpuN/cache.
func readCPU(cpus folder, id int, online cpuset.Set) (cpuReading, error) {
	r := cpuReading{place: place{cpu: id, cache: none}}
	cpu, err := cpus.folder(cpuName(id))
	if err != nil {
		return r, fmt.Errorf("CPU %d is online, but: %w", id, err)
	}
	defer cpu.close()
	topology, err := cpu.folder("topology")
	if err != nil {
		return r, fmt.Errorf("CPU %d is online, but: %w", id, err)
	}
	defer topology.close()

	if r.core, err = topology.set(coreCPUs); err != nil {
		return r, err
	}
	if r.pkg, err = topology.set(packageCPUs); err != nil {
		return r, err
	}
	r.core, r.pkg = r.core.within(online), r.pkg.within(online)
	// The numbers are the same for all who share, so they are read once.
	if r.core.cpus.First() == id {
		if r.place.coreID, err = topology.integer("core_id"); err != nil {
			return r, err
		}
	}
	if r.pkg.cpus.First() == id {
		if r.place.packageID, err = topology.integer("physical_package_id"); err != nil {
			return r, err
		}
	}
	if r.cache, r.hasCache, err = readCache(cpu); err != nil {
		return r, err
	}
	r.cache = r.cache.within(online)
	r.place.from = source{pkg: r.pkg.file, cache: cpu.path("cache")}
	if r.hasCache {
		r.place.from.cache = r.cache.file
	}
	return r, nil
}

func (s sharing) within(online cpuset.Set) sharing {
	s.cpus = s.cpus.Intersect(online)
	return s
}

// lowestSharing returns the lowest CPU of those that share something with cpu, which stands for all of them. Each of them has to say the same.
func lowestSharing(of map[int]sharing, cpu int) (int, error) {
	own := of[cpu]
	if !own.cpus.Contains(cpu) {
		return 0, fmt.Errorf("%s: %q does not hold CPU %d itself", own.file, own.cpus, cpu)
	}
	lowest := own.cpus.First()
	other, ok := of[lowest]
	if !ok {
		return 0, fmt.Errorf("%s: CPU %d shares with %s, but CPU %d has no such file", own.file, cpu, own.cpus, lowest)
	}
	if !other.cpus.Equal(own.cpus) {
		return 0, fmt.Errorf("%s: CPU %d shares with %s, but %s says %s", own.file, cpu, own.cpus, other.file, other.cpus)
	}
	return lowest, nil
}
