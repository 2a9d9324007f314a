package topology_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// small is 2 packages of 1 node, 1 cache and 2 cores of 2 threads each: cores 0,4 1,5 and 2,6 3,7.
var small = regular{packages: 2, nodes: 1, caches: 1, cores: 2, threads: 2}.tree()

const (
	cpuDir  = "sys/devices/system/cpu/"
	nodeDir = "sys/devices/system/node/"
)

// shape is the machine in short, as far as cases look at it.
type shape struct {
	Online, Offline, Isolated      string
	Packages, Cores, Caches, Nodes []string
	MemoryKiB                      []uint64
	HugePages                      []map[uint64]uint64
	Distances                      [][]int
	LeftOut                        []topology.LeftOut
}

func shapeOf(m *topology.Machine) shape {
	s := shape{Online: m.Online.String(), Offline: m.Offline.String(), Isolated: m.Isolated.String(), LeftOut: m.LeftOut}
	for _, p := range m.Packages {
		s.Packages = append(s.Packages, p.CPUs.String())
	}
	for _, c := range m.Cores {
		s.Cores = append(s.Cores, c.CPUs.String())
	}
	for _, c := range m.Caches {
		s.Caches = append(s.Caches, c.CPUs.String())
	}
	for _, n := range m.Nodes {
		s.Nodes = append(s.Nodes, n.CPUs.String())
		s.MemoryKiB = append(s.MemoryKiB, n.MemoryKiB)
		s.HugePages = append(s.HugePages, n.HugePages)
		s.Distances = append(s.Distances, n.Distances)
	}
	return s
}

func TestRead(t *testing.T) {
	const memory = 33554432
	plain := shape{
		Online: "0-7", Packages: []string{"0-1,4-5", "2-3,6-7"}, Cores: []string{"0,4", "1,5", "2,6", "3,7"}, Caches: []string{"0-1,4-5", "2-3,6-7"},
		Nodes: []string{"0-1,4-5", "2-3,6-7"}, MemoryKiB: []uint64{memory, memory}, Distances: [][]int{{10, 32}, {32, 10}},
		HugePages: []map[uint64]uint64{{2048: 512, 1048576: 0}, {2048: 512, 1048576: 0}},
	}
	tests := []struct {
		name   string
		change files
		want   func(*shape)
	}{
		{"as a current kernel shows it", nil, func(*shape) {}},
		{"a CPU offline, which sets of others still hold", files{
			cpuDir + "online":        "0-5,7\n",
			cpuDir + "offline":       "6,8-1023\n", // the numbers up to the kernel's limit are not there
			cpuDir + "cpu6/topology": "-", cpuDir + "cpu6/cache": "-",
		}, func(s *shape) {
			s.Online, s.Offline = "0-5,7", "6"
			s.Cores = []string{"0,4", "1,5", "2", "3,7"}
			s.Packages[1], s.Caches[1], s.Nodes[1] = "2-3,7", "2-3,7", "2-3,7"
		}},
		{"CPUs isolated by the kernel's command line", files{cpuDir + "isolated": "3,7\n"}, func(s *shape) { s.Isolated = "3,7" }},
		{"no list of who is online or present", files{
			cpuDir + "online": "-", cpuDir + "present": "-", cpuDir + "offline": "-", cpuDir + "isolated": "-",
			cpuDir + "cpu1/online": "1\n", cpuDir + "cpu7/online": "0\n", cpuDir + "cpuidle/current_driver": "none\n",
		}, func(s *shape) {
			s.Online, s.Offline = "0-6", "7"
			s.Cores[3] = "3"
			s.Packages[1], s.Caches[1], s.Nodes[1] = "2-3,6", "2-3,6", "2-3,6"
		}},
		{"masks and no lists", masks(small), func(*shape) {}},
		{"no caches", cachesOf(8, "-"), func(s *shape) { s.Caches = nil }},
		{"the last-level cache at another index", cachesAtIndex(8, 2), func(*shape) {}},
		{"caches, and none of them an L3", files{
			cpuDir + "cpu0/cache/index3": "-", cpuDir + "cpu4/cache/index3": "-", cpuDir + "cpu1/cache/index3": "-", cpuDir + "cpu5/cache/index3": "-",
		}, func(s *shape) { s.Caches = s.Caches[1:] }},
		{"no huge pages", files{nodeDir + "node0/hugepages": "-", nodeDir + "node1/hugepages": "-"}, func(s *shape) {
			s.HugePages = []map[uint64]uint64{{}, {}}
		}},
		{"no distances", files{nodeDir + "node0/distance": "-", nodeDir + "node1/distance": "-"}, func(s *shape) { s.Distances = [][]int{nil, nil} }},
		{"no list of nodes", files{nodeDir + "online": "-", nodeDir + "has_cpu": "0-1\n"}, func(*shape) {}},
		{"no NUMA, and nobody to tell the memory", files{"sys/devices/system/node": "-"}, func(s *shape) { s.isOneNode(0, map[uint64]uint64{}) }},
		{"an empty node folder", files{"sys/devices/system/node": "-", nodeDir + "has_cpu": "\n"}, func(s *shape) { s.isOneNode(0, map[uint64]uint64{}) }},
		{"no NUMA, with proc and huge pages beside it", files{
			"sys/devices/system/node": "-", "proc/meminfo": "MemTotal:  1048576 kB\nMemFree: 7 kB\n",
			"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "3\n",
		}, func(s *shape) { s.isOneNode(1048576, map[uint64]uint64{2048: 3}) }},
		{"a node of memory only, a GPU's, an empty one and one for a device", files{
			nodeDir + "online":                                 "0-1,4-7\n",
			nodeDir + "node0/distance":                         "10 32 41 42 43 44\n",
			nodeDir + "node1/distance":                         "32 10 51 52 53 54\n",
			nodeDir + "node4/cpulist":                          "\n",
			nodeDir + "node4/meminfo":                          "Node 4 MemTotal: 1000 kB\n",
			nodeDir + "node4/distance":                         "41 51 10 62 63 64\n",
			nodeDir + "node5/cpulist":                          "\n",
			nodeDir + "node5/meminfo":                          "Node 5 MemTotal: 2000 kB\n",
			nodeDir + "node5/distance":                         "42 52 62 10 73 74\n",
			nodeDir + "node6/cpulist":                          "\n",
			nodeDir + "node6/meminfo":                          "Node 6 MemTotal: 0 kB\n",
			nodeDir + "node6/distance":                         "43 53 63 73 10 84\n",
			nodeDir + "node7/cpulist":                          "\n",
			nodeDir + "node7/meminfo":                          "Node 7 MemTotal: 0 kB\n",
			nodeDir + "node7/distance":                         "44 54 64 74 84 10\n",
			nodeDir + "has_generic_initiator":                  "7\n",
			"proc/driver/nvidia/gpus/0004:04:00.0/model":       "V100\n",
			"proc/driver/nvidia/gpus/0004:05:00.0/numa_status": "Node: 5\nStatus: online\n",
			"proc/driver/nvidia/gpus/0004:06:00.0/numa_status": "Node: -1\n",
		}, func(s *shape) {
			s.Nodes = append(s.Nodes, "", "")
			s.MemoryKiB = append(s.MemoryKiB, 1000, 0)
			s.HugePages = append(s.HugePages, map[uint64]uint64{}, map[uint64]uint64{})
			s.Distances = [][]int{{10, 32, 41, 44}, {32, 10, 51, 54}, {41, 51, 10, 64}, {44, 54, 64, 10}}
			s.LeftOut = []topology.LeftOut{{Node: 5, Reason: "it is the memory of GPU 0004:05:00.0"}, {Node: 6, Reason: "it has neither CPUs nor memory"}}
		}},
		{"emulated nodes share CPUs", files{
			nodeDir + "node1/cpulist": "0-7\n", nodeDir + "node0/cpulist": "0-7\n",
		}, func(s *shape) {
			s.Nodes, s.MemoryKiB, s.HugePages, s.Distances = []string{"0-7"}, s.MemoryKiB[:1], s.HugePages[:1], [][]int{{10}}
			s.LeftOut = []topology.LeftOut{{Node: 1, Reason: "its CPUs 0-7 are on node 0 too"}}
		}},
		{"a core of a package that has no number", packageIDs(8, "-1\n"), func(*shape) {}},
		{"NULs after a set, as some kernels write", files{nodeDir + "node0/cpulist": "0-1,4-5\n\x00"}, func(*shape) {}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := plain
			want.Packages, want.Cores, want.Caches = slices.Clone(plain.Packages), slices.Clone(plain.Cores), slices.Clone(plain.Caches)
			want.Nodes, want.MemoryKiB, want.HugePages = slices.Clone(plain.Nodes), slices.Clone(plain.MemoryKiB), slices.Clone(plain.HugePages)
			tt.want(&want)
			m, err := topology.Read(small.with(tt.change).write(t))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, shapeOf(m)); diff != "" {
				t.Errorf("read the wrong machine (-want +got):\n%s", diff)
			}
		})
	}
}

func (s *shape) isOneNode(kib uint64, hugePages map[uint64]uint64) {
	s.Nodes, s.MemoryKiB, s.HugePages, s.Distances = []string{"0-7"}, []uint64{kib}, []map[uint64]uint64{hugePages}, [][]int{nil}
}

// masks is the change to a tree after which it has masks where it had lists, under the names of old kernels.
func masks(tree files) files {
	names := map[string]string{
		"core_cpus_list": "thread_siblings", "package_cpus_list": "core_siblings", "shared_cpu_list": "shared_cpu_map", "cpulist": "cpumap",
	}
	changes := files{}
	for name, text := range tree {
		if mask, ok := names[filepath.Base(name)]; ok {
			changes[name] = "-"
			bits := uint64(0)
			for cpu := range cpuset.MustParse(text).All() {
				bits |= 1 << cpu
			}
			changes[filepath.Dir(name)+"/"+mask] = "00000000," + string("0123456789abcdef"[bits>>4]) + string("0123456789abcdef"[bits&15]) + "\n"
		}
	}
	return changes
}

func cachesOf(cpus int, text string) files {
	changes := files{}
	for cpu := range cpus {
		changes[cpuPath(cpu, "cache")] = text
	}
	return changes
}

func cachesAtIndex(cpus int, index int) files {
	changes := cachesOf(cpus, "-")
	for cpu := range cpus {
		at := cpuPath(cpu, "cache/index"+string(rune('0'+index)))
		changes[at+"/level"] = "3\n"
		changes[at+"/shared_cpu_list"] = small[cpuPath(cpu, "cache/index3/shared_cpu_list")]
		changes[cpuPath(cpu, "cache/index9/level")] = "4\n"
		changes[cpuPath(cpu, "cache/index9/shared_cpu_list")] = "0-7\n"
	}
	return changes
}

func packageIDs(cpus int, text string) files {
	changes := files{}
	for cpu := range cpus {
		changes[cpuPath(cpu, "topology/physical_package_id")] = text
	}
	return changes
}

func cpuPath(cpu int, name string) string { return cpuDir + "cpu" + string(rune('0'+cpu)) + "/" + name }

// What contradicts itself or is malformed is refused, with the name of the file where that is.
func TestReadRefuses(t *testing.T) {
	withPCI := func(change files) files {
		all := files{}
		for name, text := range small.withPCI(1, 2) {
			if small[name] != text {
				all[name] = text
			}
		}
		return all.with(change)
	}
	tests := []struct {
		name     string
		change   files
		wantFile string // the error names it
		wantErr  string // and says this
	}{
		{"no sysfs", files{"sys/devices": "-", "sys/other": ""}, "devices/system/cpu", "is no sysfs, such as /sys"},
		{"no CPU online", files{cpuDir + "online": "\n"}, "cpu/online", "no CPU is online"},
		{"online is no list", files{cpuDir + "online": "0-\n"}, "cpu/online", "is not a CPU list"},
		{"more CPUs than Linux can have", files{cpuDir + "online": "0-9000\n"}, "cpu/online", "9000 is outside 0-8191"},
		{"isolated is no list", files{cpuDir + "isolated": "some\n"}, "cpu/isolated", "is not a CPU list"},
		{"present is no list", files{cpuDir + "present": "some\n"}, "cpu/present", "is not a CPU list"},
		{"a CPU's online is no number", files{cpuDir + "online": "-", cpuDir + "cpu3/online": "yes\n"}, "cpu3/online", `"yes" is no number`},
		{"a folder's number is too large", files{cpuDir + "online": "-", cpuDir + "cpu99999/online": "1\n"}, "cpu/cpu99999", "99999 is outside 0-8191"},
		{"a CPU online that is not there", files{cpuDir + "online": "0-8\n"}, "cpu/cpu8", "CPU 8 is online, but"},
		{"a CPU without topology", files{cpuDir + "cpu3/topology": "-"}, "cpu3/topology", "CPU 3 is online, but"},
		{"no core_id", files{cpuDir + "cpu3/topology/core_id": "-"}, "cpu3/topology/core_id", "no such file"},
		{"core_id is no number", files{cpuDir + "cpu3/topology/core_id": "three\n"}, "cpu3/topology/core_id", `"three" is no number`},
		{"no set of threads", files{cpuDir + "cpu3/topology/core_cpus_list": "-"}, "cpu3/topology/core_cpus_list", "no such file"},
		{"no set of the package", files{cpuDir + "cpu3/topology/package_cpus_list": "-"}, "cpu3/topology/package_cpus_list", "no such file"},
		{"a core without the CPU itself", files{cpuDir + "cpu3/topology/core_cpus_list": "7\n"}, "cpu3/topology/core_cpus_list", "does not hold CPU 3 itself"},
		{"threads that disagree", files{cpuDir + "cpu3/topology/core_cpus_list": "3\n"}, "cpu7/topology/core_cpus_list", "cpu3/topology/core_cpus_list says 3"},
		{"packages that disagree", files{cpuDir + "cpu6/topology/package_cpus_list": "2-7\n"}, "cpu6/topology/package_cpus_list", "says 2-3,6-7"},
		{"a mask that is none", masks(small).with(files{cpuDir + "cpu3/topology/thread_siblings": "0-3\n"}), "cpu3/topology/thread_siblings", "hexadecimal word"},
		{"a core over two packages", files{
			cpuDir + "cpu0/topology/package_cpus_list": "0-3\n", cpuDir + "cpu1/topology/package_cpus_list": "0-3\n",
			cpuDir + "cpu2/topology/package_cpus_list": "0-3\n", cpuDir + "cpu3/topology/package_cpus_list": "0-3\n",
			cpuDir + "cpu4/topology/package_cpus_list": "4-7\n", cpuDir + "cpu5/topology/package_cpus_list": "4-7\n",
			cpuDir + "cpu6/topology/package_cpus_list": "4-7\n", cpuDir + "cpu7/topology/package_cpus_list": "4-7\n",
		}, "cpu4/topology/package_cpus_list", "CPUs 0 and 4 are threads of one core, but not in one package"},
		{"a core over two nodes", files{
			nodeDir + "node0/cpulist": "0-3\n", nodeDir + "node1/cpulist": "4-7\n",
		}, "node1/cpulist", "CPUs 0 and 4 are threads of one core, but not on one NUMA node"},
		{"a core half on no node", files{nodeDir + "node0/cpulist": "0-1,4\n"}, "system/node", "CPUs 1 and 5 are threads of one core"},
		{"a core over two caches", files{
			cpuDir + "cpu0/cache/index3/shared_cpu_list": "0-1\n", cpuDir + "cpu1/cache/index3/shared_cpu_list": "0-1\n",
			cpuDir + "cpu4/cache/index3/shared_cpu_list": "4-5\n", cpuDir + "cpu5/cache/index3/shared_cpu_list": "4-5\n",
		}, "cpu4/cache/index3/shared_cpu_list", "CPUs 0 and 4 are threads of one core, but not at one last-level cache"},
		{"a cache that one of its CPUs does not show", files{cpuDir + "cpu0/cache": "-"}, "cpu1/cache/index3/shared_cpu_list", "CPU 0 has no such file"},
		{"a cache without a level", files{cpuDir + "cpu3/cache/index3/level": "-"}, "cpu3/cache/index3/level", "no such file"},
		{"a cache without its CPUs", files{cpuDir + "cpu3/cache/index3/shared_cpu_list": "-"}, "cpu3/cache/index3/shared_cpu_map", "no such file"},
		{"a node online that is not there", files{
			nodeDir + "online": "0-2\n", nodeDir + "node0/distance": "-", nodeDir + "node1/distance": "-",
		}, "node/node2", "no such file"},
		{"a node online that the distances do not know", files{nodeDir + "online": "0-2\n"}, "node0/distance", "holds 2 distances, and there are 3 nodes"},
		{"a node without CPUs' file", files{nodeDir + "node1/cpulist": "-"}, "node1/cpulist", "no such file"},
		{"a node without meminfo", files{nodeDir + "node1/meminfo": "-"}, "node1/meminfo", "no such file"},
		{"the meminfo of another node", files{nodeDir + "node1/meminfo": small[nodeDir+"node0/meminfo"]}, "node1/meminfo", `no line begins with "Node 1 MemTotal:"`},
		{"too few distances", files{nodeDir + "node1/distance": "32\n"}, "node1/distance", "holds 1 distances, and there are 2 nodes"},
		{"a size of huge pages that is none", files{nodeDir + "node1/hugepages/hugepages-2M/nr_hugepages": "1\n"}, "node1/hugepages/hugepages-2M", "no size of huge pages"},
		{"no number of huge pages", files{nodeDir + "node1/hugepages/hugepages-2048kB/nr_hugepages": "\n"}, "hugepages-2048kB/nr_hugepages", `"" is no number`},
		{"a negative number of them", files{nodeDir + "node1/hugepages/hugepages-2048kB/nr_hugepages": "-1\n"}, "hugepages-2048kB/nr_hugepages", "-1 is no number of pages"},
		{"more huge pages than memory", files{nodeDir + "node1/hugepages/hugepages-1048576kB/nr_hugepages": "32\n"}, "node1/hugepages", "32 huge pages of 1048576 KiB do not fit"},
		{"a GPU's node that is none", files{"proc/driver/nvidia/gpus/0/numa_status": "Node: x\n"}, "gpus/0/numa_status", "names no node"},
		{"proc's memory is malformed", files{"sys/devices/system/node": "-", "proc/meminfo": "MemTotal: 1 GB\n"}, "proc/meminfo", "is not in kB"},
		{"a PCI device's node is none", withPCI(files{"sys/devices/pci0000:00/0000:00:00.0/numa_node": "-2\n"}), "0000:00:00.0/numa_node", "-2 is no NUMA node"},
		{"a PCI device's class is none", withPCI(files{"sys/devices/pci0000:00/0000:00:00.0/class": "net\n"}), "0000:00:00.0/class", "no class of PCI devices"},
		{"a PCI device's CPUs are none", withPCI(files{"sys/devices/pci0000:00/0000:00:00.0/local_cpulist": "x\n"}), "0000:00:00.0/local_cpulist", "not a CPU list"},
		{"a link out of the tree", withPCI(files{"sys/bus/pci/devices/0000:00:00.0": "-> /etc"}), "bus/pci/devices/0000:00:00.0", "escapes"},
		{"a link instead of a file", files{cpuDir + "cpu3/topology/core_id": "-> ../../cpu2/topology/core_id"}, "cpu3/topology/core_id", "symbolic link"},
		{"a file larger than the kernel writes", files{cpuDir + "online": strings.Repeat("0,", 64<<10)}, "cpu/online", "larger than 65536 bytes"},
		{"a folder instead of a file", files{cpuDir + "cpu3/topology/core_id": "-", cpuDir + "cpu3/topology/core_id/x": ""}, "cpu3/topology/core_id", "directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := topology.Read(small.with(tt.change).write(t))
			if err == nil {
				t.Fatalf("read %v, want an error that names %s", shapeOf(m), tt.wantFile)
			}
			if !strings.Contains(err.Error(), tt.wantFile) || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("error is %q, want one that names %q and says %q", err, tt.wantFile, tt.wantErr)
			}
		})
	}
}

// A pipe in the place of a file would keep us waiting for a writer that never comes.
func TestReadDoesNotWaitForPipes(t *testing.T) {
	root := small.with(files{cpuDir + "cpu3/topology/core_id": "-"}).write(t)
	if err := syscall.Mkfifo(filepath.Join(root, "devices/system/cpu/cpu3/topology/core_id"), 0o600); err != nil {
		t.Skipf("no pipes here: %v", err)
	}
	if _, err := topology.Read(root); err == nil {
		t.Error("read a machine whose core_id is a pipe, want an error")
	}
}

func TestReadPCIDevices(t *testing.T) {
	tree := small.withPCI(3, 2).with(files{
		"sys/devices/pci0000:00/0000:00:01.0/numa_node":     "-1\n",
		"sys/devices/pci0000:00/0000:00:01.0/local_cpulist": "-",
		"sys/devices/pci0000:00/0000:00:01.0/local_cpus":    "ff\n",
		"sys/devices/pci0000:00/0000:00:02.0/numa_node":     "-",
		"sys/devices/pci0000:00/0000:00:02.0/local_cpulist": "-",
		"sys/bus/pci/devices/0000:00:09.0":                  "-> ../../../devices/pci0000:00/0000:00:09.0", // unplugged just now
	})
	m, err := topology.Read(tree.write(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []topology.PCIDevice{
		{Address: "0000:00:00.0", Class: 0x020000, Node: 0, LocalCPUs: cpuset.MustParse("0-1,4-5")},
		{Address: "0000:00:01.0", Class: 0x020000, Node: -1, LocalCPUs: cpuset.MustParse("0-7")},
		{Address: "0000:00:02.0", Class: 0x020000, Node: -1},
	}
	if diff := cmp.Diff(want, m.PCIDevices); diff != "" {
		t.Errorf("wrong devices (-want +got):\n%s", diff)
	}
}

func TestReadOnline(t *testing.T) {
	root := small.write(t)
	if got, err := topology.ReadOnline(root); err != nil || got.String() != "0-7" {
		t.Errorf("ReadOnline = %s, %v; want 0-7", got, err)
	}
	if err := os.WriteFile(filepath.Join(root, "devices/system/cpu/online"), []byte("0-3,5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := topology.ReadOnline(root); err != nil || got.String() != "0-3,5" {
		t.Errorf("after two went: ReadOnline = %s, %v; want 0-3,5", got, err)
	}
	if _, err := topology.ReadOnline(filepath.Join(root, "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("without a tree: error is %v, want one that names it", err)
	}
}

func TestDeviceNode(t *testing.T) {
	const pci = "sys/devices/pci0000:3a/0000:3a:00.0/"
	tree := files{
		"sys/dev/char/238:0":   "-> ../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/nvme/nvme0",
		"sys/dev/block/259:0":  "-> ../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/nvme/nvme0/nvme0n1",
		"sys/dev/block/259:1":  "-> ../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/nvme/nvme0/nvme0n1/nvme0n1p1",
		"sys/dev/char/1:3":     "-> ../../devices/virtual/mem/null",
		"sys/dev/char/10:1":    "-> ../../devices/pci0000:3a/0000:3a:01.0/misc/unknown",
		"sys/dev/char/10:2":    "-> ../../devices/pci0000:3a/0000:3a:02.0/misc/broken",
		"sys/dev/char/10:3":    "-> ../../../../../../etc/passwd",
		"sys/dev/char/10:4":    "-> /etc/passwd",
		"sys/dev/char/10:5":    "-> ../../class/misc",
		"sys/dev/char/10:6":    "no link\n",
		"sys/dev/char/10:7":    "-> ../../devices/gone/misc/gone",
		"sys/dev/char/10:8":    "-> ../../devices/link/misc/outside",
		"sys/devices/link":     "-> /etc",
		pci + "numa_node":      "1\n",
		pci + "class":          "0x060400\n",
		pci + "0000:3b:00.0/x": "",
		pci + "0000:3b:00.0/nvme/nvme0/nvme0n1/nvme0n1p1/partition": "1\n",
		"sys/devices/pci0000:3a/0000:3a:01.0/numa_node":             "-1\n",
		"sys/devices/pci0000:3a/0000:3a:01.0/misc/unknown/dev":      "10:1\n",
		"sys/devices/pci0000:3a/0000:3a:02.0/numa_node":             "two\n",
		"sys/devices/pci0000:3a/0000:3a:02.0/misc/broken/dev":       "10:2\n",
		"sys/devices/virtual/mem/null/dev":                          "1:3\n",
	}
	own := tree.with(files{pci + "0000:3b:00.0/numa_node": "3\n"})
	tests := []struct {
		name         string
		tree         files
		kind         topology.DeviceKind
		major, minor int64
		wantNode     int
		wantOK       bool
		wantErr      string
	}{
		{"the PCI function's own node", own, topology.CharDevice, 238, 0, 3, true, ""},
		{"of the first parent that has one", tree, topology.CharDevice, 238, 0, 1, true, ""},
		{"a block device", own, topology.BlockDevice, 259, 0, 3, true, ""},
		{"a partition", own, topology.BlockDevice, 259, 1, 3, true, ""},
		{"a virtual device has no opinion", tree, topology.CharDevice, 1, 3, 0, false, ""},
		{"nor has one whose firmware does not say", tree, topology.CharDevice, 10, 1, 0, false, ""},
		{"nor one that is not there", tree, topology.CharDevice, 99, 99, 0, false, ""},
		{"nor a char device with a block device's numbers", tree, topology.CharDevice, 259, 0, 0, false, ""},
		{"nor one that is gone", tree, topology.CharDevice, 10, 7, 0, false, ""},
		{"numbers nobody has", tree, topology.CharDevice, -1, -1, 0, false, ""},
		{"a node that is none", tree, topology.CharDevice, 10, 2, 0, false, `0000:3a:02.0/numa_node: "two" is no number`},
		{"a link out of the tree", tree, topology.CharDevice, 10, 3, 0, false, "dev/char/10:3: it leads to"},
		{"an absolute link", tree, topology.CharDevice, 10, 4, 0, false, "dev/char/10:4: it leads to"},
		{"a link to what is no device", tree, topology.CharDevice, 10, 5, 0, false, "dev/char/10:5: it leads to"},
		{"no link", tree, topology.CharDevice, 10, 6, 0, false, "dev/char/10:6"},
		{"a link out of the tree on the way", tree, topology.CharDevice, 10, 8, 0, false, "escapes"},
		{"a kind of device that is none", tree, "../..", 10, 8, 0, false, `"../.." is no kind of device`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node, ok, err := topology.DeviceNode(tt.tree.write(t), tt.kind, tt.major, tt.minor)
			if node != tt.wantNode || ok != tt.wantOK {
				t.Errorf("got node %d, %v; want %d, %v", node, ok, tt.wantNode, tt.wantOK)
			}
			if (err == nil) != (tt.wantErr == "") || (err != nil && !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("error is %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// Whatever stands in one of a tree's files, reading gives a machine in which every CPU has its place, or an error. Never a panic.
func FuzzRead(f *testing.F) {
	tree := small.withPCI(1, 2)
	names := slices.Sorted(maps.Keys(tree))
	root := filepath.Dir(tree.write(f))
	for _, name := range []string{
		cpuDir + "online", cpuDir + "present", cpuDir + "isolated", cpuDir + "cpu3/topology/core_cpus_list", cpuDir + "cpu3/topology/core_id",
		cpuDir + "cpu3/cache/index3/level", cpuDir + "cpu3/cache/index3/shared_cpu_list", nodeDir + "online", nodeDir + "node1/cpulist",
		nodeDir + "node1/distance", nodeDir + "node1/meminfo", nodeDir + "node1/hugepages/hugepages-2048kB/nr_hugepages",
		"sys/devices/pci0000:00/0000:00:00.0/numa_node", "sys/devices/pci0000:00/0000:00:00.0/class",
	} {
		f.Add(slices.Index(names, name), tree[name])
		f.Add(slices.Index(names, name), "0-2\n")
	}
	f.Fuzz(func(t *testing.T, i int, text string) {
		name := names[max(0, i)%len(names)]
		if strings.HasPrefix(tree[name], "-> ") {
			return
		}
		file := filepath.Join(root, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.WriteFile(file, []byte(tree[name]), 0o600); err != nil {
				t.Fatal(err)
			}
		}()
		m, err := topology.Read(filepath.Join(root, "sys"))
		if err != nil {
			return
		}
		for id := range m.Online.All() {
			if c, ok := m.CPU(id); !ok || !m.Cores[c.Core].CPUs.Contains(id) || !m.Packages[c.Package].CPUs.Contains(id) {
				t.Errorf("CPU %d has no place: %+v", id, c)
			}
		}
		picture(t, m, topology.DrawOptions{})
	})
}
