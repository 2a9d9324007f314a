package topology_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nri-cpuset/topology/cpuset"
)

// files is a tree to be: path -> text, or "-> target" for a symbolic link. Paths begin with sys/ or proc/.
type files map[string]string

// with returns the tree with some files changed or added; a text of "-" takes away the file, or the folder with all that is in it.
func (f files) with(changes files) files {
	changed := maps.Clone(f)
	for gone, text := range changes {
		if text == "-" {
			maps.DeleteFunc(changed, func(name, _ string) bool { return name == gone || strings.HasPrefix(name, gone+"/") })
		}
	}
	for name, text := range changes {
		if text != "-" {
			changed[name] = text
		}
	}
	return changed
}

// write makes the tree and returns its sys folder.
func (f files) write(t testing.TB) string {
	t.Helper()
	root := tempFolder(t)
	for name, text := range f {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(text, "-> "); isLink {
			err = os.Symlink(target, name)
		} else {
			err = os.WriteFile(name, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "sys")
}

// regular is a machine of equal parts, its tree as a current kernel has it. CPUs are numbered as on most servers: first all first threads.
type regular struct {
	packages, nodes, caches, cores, threads int // each in one of what stands before it
}

func (r regular) tree() files {
	f := files{}
	caches := r.packages * r.nodes * r.caches
	cores := caches * r.cores
	all := cpuset.Range(0, cores*r.threads-1)
	for _, name := range []string{"online", "present", "possible"} {
		f["sys/devices/system/cpu/"+name] = all.String() + "\n"
	}
	f["sys/devices/system/cpu/offline"] = "\n"
	f["sys/devices/system/cpu/isolated"] = "\n"

	// block is one of n equal parts of the machine.
	block := func(n, i int) cpuset.Set {
		var s cpuset.Set
		for thread := range r.threads {
			first := thread*cores + i*cores/n
			s = s.Union(cpuset.Range(first, first+cores/n-1))
		}
		return s
	}
	for cpu := range all.All() {
		core := cpu % cores
		name := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		pkg := core * r.packages / cores
		f[name+"topology/core_id"] = fmt.Sprintln(core - pkg*cores/r.packages)
		f[name+"topology/physical_package_id"] = fmt.Sprintln(pkg)
		f[name+"topology/core_cpus_list"] = block(cores, core).String() + "\n"
		f[name+"topology/package_cpus_list"] = block(r.packages, pkg).String() + "\n"
		for index, level := range []string{"1", "1", "2", "3"} {
			f[fmt.Sprintf("%scache/index%d/level", name, index)] = level + "\n"
			f[fmt.Sprintf("%scache/index%d/shared_cpu_list", name, index)] = block(cores, core).String() + "\n"
		}
		f[name+"cache/index3/shared_cpu_list"] = block(caches, core*caches/cores).String() + "\n"
	}

	nodes := r.packages * r.nodes
	f["sys/devices/system/node/online"] = cpuset.Range(0, nodes-1).String() + "\n"
	for id := range nodes {
		name := fmt.Sprintf("sys/devices/system/node/node%d/", id)
		f[name+"cpulist"] = block(nodes, id).String() + "\n"
		f[name+"meminfo"] = fmt.Sprintf("Node %d MemTotal:       33554432 kB\nNode %d MemFree:        30000000 kB\n", id, id)
		f[name+"hugepages/hugepages-2048kB/nr_hugepages"] = "512\n"
		f[name+"hugepages/hugepages-1048576kB/nr_hugepages"] = "0\n"
		var distances []string
		for other := range nodes {
			switch {
			case other == id:
				distances = append(distances, "10")
			case other/r.nodes == id/r.nodes:
				distances = append(distances, "12")
			default:
				distances = append(distances, "32")
			}
		}
		f[name+"distance"] = strings.Join(distances, " ") + "\n"
	}
	return f
}

// withPCI adds PCI functions, spread over the nodes.
func (f files) withPCI(devices, nodes int) files {
	changes := files{}
	for i := range devices {
		address := fmt.Sprintf("0000:%02x:%02x.0", i/32, i%32)
		name := fmt.Sprintf("sys/devices/pci0000:%02x/%s/", i/32, address)
		changes[name+"class"] = "0x020000\n"
		changes[name+"numa_node"] = fmt.Sprintln(i % nodes)
		changes[name+"local_cpulist"] = f[fmt.Sprintf("sys/devices/system/node/node%d/cpulist", i%nodes)]
		changes["sys/bus/pci/devices/"+address] = fmt.Sprintf("-> ../../../devices/pci0000:%02x/%s", i/32, address)
	}
	return f.with(changes)
}
