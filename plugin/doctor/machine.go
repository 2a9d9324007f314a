package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"nri-cpuset/allocator"
	"nri-cpuset/config"
	"nri-cpuset/plugin"
	"nri-cpuset/topology"
)

// kernel tries openat2(2) (Linux 5.6), with which cgroup files are opened.
func (e *examination) kernel() {
	const check = "kernel"
	release := "Linux"
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		release += " " + unix.ByteSliceToString(name.Release[:])
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		e.problem(check, "use Linux 5.6 or later, and a seccomp profile that allows openat2 (RuntimeDefault does); or start with --cgroup-root \"\"",
			"%s: openat2 fails: %v", release, err)
		return
	}
	_ = unix.Close(fd)
	e.ok(check, "%s: openat2 is there", release)
}

// topology reads the machine as the plugin does.
func (e *examination) topology() {
	const check = "topology"
	path, err := e.host.path(e.Sysfs)
	var machine *topology.Machine
	if err == nil {
		machine, err = topology.Read(path)
	}
	if err != nil {
		e.problem(check, "see that sysfs is mounted at "+e.Sysfs, "%v", err)
		return
	}
	e.machine = machine
	e.ok(check, "CPUs %s online; packages: %d, NUMA nodes: %d, cores: %d",
		machine.Online, len(machine.Packages), len(machine.Nodes), len(machine.Cores))
}

// configuration reads the configuration for this node, and puts it together with the machine.
func (e *examination) configuration() {
	const check = "configuration"
	if e.ConfigFile == "" {
		return
	}
	validate := "nri-cpuset validate --config " + e.ConfigFile + " --node-name " + e.NodeName + " --sysfs " + e.Sysfs + " shows all of it"
	cfg, err := config.Load(e.ConfigFile, e.NodeName)
	if errors.Is(err, fs.ErrNotExist) {
		e.problem(check, "apply the ConfigMap, or name the file with --config", "there is no %s", e.ConfigFile)
		return
	} else if err != nil {
		e.problem(check, validate, "%v", err)
		return
	}
	policy, err := cfg.Policy()
	if err != nil {
		e.problem(check, validate, "%s: %v", e.ConfigFile, err)
		return
	}
	e.policy = &policy
	if e.machine == nil {
		e.ok(check, "%s is valid; not compared with the machine", e.ConfigFile)
		return
	}
	a, err := allocator.New(e.machine, policy)
	switch {
	case err != nil:
		e.problem(check, validate, "%s does not fit the machine: %v", e.ConfigFile, err)
	case !e.pins():
		e.ok(check, "cpuManagerPolicy none: nobody is pinned on this node")
	default:
		e.ok(check, "cpuManagerPolicy static, reserved %s, %d CPUs can be exclusive", a.Reserved(), a.Assignable().Len())
	}
}

// isolated says what becomes of the CPUs in isolcpus=.
func (e *examination) isolated() {
	const check = "isolated CPUs"
	switch {
	case e.machine == nil:
		return
	case e.machine.Isolated.IsEmpty():
		e.ok(check, "none (isolcpus=)")
	case e.policy == nil:
		e.ok(check, "%s", e.machine.Isolated)
	case e.policy.Isolated == allocator.IsolatedIgnore:
		e.warn(check, "set isolatedCPUs to exclude, or to exclusive",
			"%s, and isolatedCPUs is ignore: shared containers run there too, where the kernel does not move them from CPU to CPU", e.machine.Isolated)
	case e.policy.Isolated == allocator.IsolatedExclusive:
		e.ok(check, "%s: exclusive containers only, and before others (isolatedCPUs: exclusive)", e.machine.Isolated)
	default:
		e.ok(check, "%s: nobody gets them (isolatedCPUs: exclude)", e.machine.Isolated)
	}
}

// cgroups finds out version and driver, and whether the plugin can write them.
func (e *examination) cgroups() {
	const check = "cgroups"
	if e.CgroupRoot == "" {
		e.warn(check, "give the plugin --cgroup-root, so that it can move the shared pool in microseconds and read back what it did",
			"--cgroup-root is empty: everything goes through the runtime, and nothing is read back")
		return
	}
	version, root := "v2", e.CgroupRoot
	controllers, err := e.host.read(filepath.Join(e.CgroupRoot, "cgroup.controllers"))
	switch {
	case err == nil && !has(strings.Fields(string(controllers)), "cpuset"):
		e.problem(check, "build or boot the kernel with the cpuset controller (no cgroup_disable=cpuset)",
			"cgroup v2 at %s without the cpuset controller (controllers: %s)", e.CgroupRoot, strings.TrimSpace(string(controllers)))
		return
	case err != nil:
		version, root = "v1", filepath.Join(e.CgroupRoot, "cpuset")
		if !e.host.exists(root) {
			e.problem(check, "mount cgroups there, or name the place with --cgroup-root", "%s has the cpuset controller of neither version", e.CgroupRoot)
			return
		}
	}
	cgroupfs, systemd := e.host.exists(filepath.Join(root, "kubepods")), e.host.exists(filepath.Join(root, "kubepods.slice"))
	driver, pods := "the cgroupfs driver", filepath.Join(root, "kubepods")
	switch {
	case cgroupfs && systemd:
		driver = "pods' cgroups of both drivers: one of them is left from before"
	case systemd:
		driver, pods = "the systemd driver", filepath.Join(root, "kubepods.slice")
	case !cgroupfs:
		e.warn(check, "start the kubelet; if it has --cgroup-root, or cgroupsPerQOS off, containers are changed through the runtime only",
			"cgroup %s, and no pods' cgroups (kubepods, kubepods.slice) in %s", version, root)
		return
	}
	if err := e.host.writable(filepath.Join(pods, "cpuset.cpus")); err != nil {
		e.problem(check, "run as root, with the cgroup root mounted read-write", "cgroup %s, %s; its cpuset.cpus cannot be written: %v", version, driver, err)
		return
	}
	e.ok(check, "cgroup %s, %s", version, driver)
}

// kubelet looks for managers of the kubelet that pin containers too.
func (e *examination) kubelet() {
	const check = "kubelet"
	path, err := e.host.path(e.KubeletRoot)
	if err != nil {
		e.warn(check, "see that the kubelet's root directory is mounted, or name it with --kubelet-root-dir", "%v", err)
		return
	}
	cpu, memory, err := plugin.KubeletPins(path)
	var pinning []string
	if cpu {
		pinning = append(pinning, "cpuManagerPolicy: static")
	}
	if memory {
		pinning = append(pinning, "memoryManagerPolicy: Static")
	}
	list := strings.Join(pinning, " and ")
	switch {
	case err != nil:
		e.warn(check, "see that the kubelet's root directory is mounted", "%v", err)
	case cpu && e.pins(), memory && e.bindsMemory():
		e.problem(check, "docs/migrate.md: set the kubelet's own policies to none and None, and remove cpu_manager_state and memory_manager_state",
			"it has %s, so nri-cpuset leaves that to it", list)
	case list != "":
		e.ok(check, "it has %s, and nri-cpuset is not to do that on this node", list)
	default:
		e.ok(check, "its CPU and memory managers do not pin")
	}
}

// hugePages looks whether the runtime tells of huge pages, where there are any and they count.
func (e *examination) hugePages() {
	const check = "huge pages"
	there := false
	if e.machine != nil {
		for i := range e.machine.Nodes {
			for _, count := range e.machine.Nodes[i].HugePages {
				there = there || count > 0
			}
		}
	}
	switch {
	case !there:
		e.ok(check, "none allocated")
	case !e.bindsMemory() || e.policy == nil:
		e.ok(check, "allocated, and not placed (memoryManagerPolicy None)")
	case !e.hasHugetlb():
		e.warn(check, "enable the kernel's hugetlb controller", "allocated, and there is no hugetlb controller: the runtime does not tell who asks for them")
	case e.config != nil && e.config.hidesHugePages:
		e.warn(check, "in "+e.config.file+": disable_hugetlb_controller = false, in the section of the CRI's runtime; then restart containerd",
			"allocated, and containerd does not tell who asks for them (disable_hugetlb_controller, on by default)")
	default:
		e.ok(check, "allocated, and the hugetlb controller is there")
	}
}

func (e *examination) hasHugetlb() bool {
	controllers, err := e.host.read(filepath.Join(e.CgroupRoot, "cgroup.controllers"))
	if err == nil {
		return has(strings.Fields(string(controllers)), "hugetlb")
	}
	return e.host.exists(filepath.Join(e.CgroupRoot, "hugetlb"))
}

// stateDirectory looks whether the plugin can remember, and whether it could not read what it remembered.
func (e *examination) stateDirectory() {
	const check = "state directory"
	if e.StateDir == "" {
		e.warn(check, "give the plugin --state-dir", "--state-dir is empty: after a restart only the runtime says who has what")
		return
	}
	dir, err := e.host.path(e.StateDir)
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.ok(check, "%s is not there; the plugin makes it", e.StateDir)
		return
	case err != nil:
		e.problem(check, "see to "+e.StateDir, "%v", err)
		return
	case !info.IsDir():
		e.problem(check, "remove it", "%s is no directory", e.StateDir)
		return
	case info.Mode().Perm()&0o022 != 0:
		e.problem(check, "chmod 0700 "+e.StateDir, "%s has mode %04o: others can write there", e.StateDir, info.Mode().Perm())
		return
	}
	if err := e.host.writable(e.StateDir); err != nil {
		e.problem(check, "run as root, with the directory mounted read-write", "%s cannot be written: %v", e.StateDir, err)
		return
	}
	aside := e.host.glob(filepath.Join(e.StateDir, "state.json.*-*"))
	if len(aside) > 0 {
		e.warn(check, "look at the plugin's log of that time, then remove them", "state files that could not be used were set aside: %s", strings.Join(aside, ", "))
		return
	}
	e.ok(check, "%s", e.StateDir)
}
