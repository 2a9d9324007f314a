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

// sharings is what the CPUs say one by one, by CPU: with whom each shares its core, its package and its last-level cache, if it has one.
type sharings struct {
	cores, packages, caches map[int]sharing
}

// readPlaces reads where each online CPU sits, all but its node. Who shares a core or a package is told by the sets, not by core_id and
// physical_package_id, which are unique in a die only on some machines, and -1 on others.
func readPlaces(sys tree, online cpuset.Set) ([]place, error) {
	cpus, err := sys.folder(cpuFolder)
	if err != nil {
		return nil, err
	}
	defer cpus.close()
	places := make([]place, 0, online.Len())
	all := sharings{cores: map[int]sharing{}, packages: map[int]sharing{}, caches: map[int]sharing{}}
	for id := range online.All() {
		p, err := readPlace(cpus, id, online, &all)
		if err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	for i := range places {
		if err := places[i].settle(&all); err != nil {
			return nil, err
		}
	}
	return places, nil
}

// readPlace reads one CPU's folder.
func readPlace(cpus folder, id int, online cpuset.Set, all *sharings) (place, error) {
	p := place{cpu: id, cache: none}
	cpu, err := cpus.folder(cpuName(id))
	if err != nil {
		return p, fmt.Errorf("CPU %d is online, but: %w", id, err)
	}
	defer cpu.close()
	topology, err := cpu.folder("topology")
	if err != nil {
		return p, fmt.Errorf("CPU %d is online, but: %w", id, err)
	}
	defer topology.close()

	core, err := topology.set(coreCPUs)
	if err != nil {
		return p, err
	}
	pkg, err := topology.set(packageCPUs)
	if err != nil {
		return p, err
	}
	all.cores[id], all.packages[id] = core.within(online), pkg.within(online)
	// The numbers are the same for all who share, so they are read once.
	if all.cores[id].cpus.First() == id {
		if p.coreID, err = topology.integer("core_id"); err != nil {
			return p, err
		}
	}
	if all.packages[id].cpus.First() == id {
		if p.packageID, err = topology.integer("physical_package_id"); err != nil {
			return p, err
		}
	}
	cache, found, err := readCache(cpu)
	if err != nil {
		return p, err
	}
	p.from = source{pkg: pkg.file, cache: cpu.path("cache")}
	if found {
		all.caches[id] = cache.within(online)
		p.from.cache = cache.file
	}
	return p, nil
}

// settle fills in with whom p shares, when all CPUs are known.
func (p *place) settle(all *sharings) (err error) {
	if p.core, err = lowestSharing(all.cores, p.cpu); err != nil {
		return err
	}
	if p.pkg, err = lowestSharing(all.packages, p.cpu); err != nil {
		return err
	}
	if _, found := all.caches[p.cpu]; found {
		p.cache, err = lowestSharing(all.caches, p.cpu)
	}
	return err
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
