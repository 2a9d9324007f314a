package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"nri-cpuset/topology/cpuset"
)

// cgroups reads and writes the cpuset and CPU quota of containers in the kernel's own files, under one root: cgroup v2's, or v1's directory
// of controllers. Every path is opened relative to the root's handle and never leaves it, whatever links stand in the way.
type cgroups struct {
	v2     bool
	cpuset *os.File // the hierarchy's root that has the cpuset controller
	cpu    *os.File // and the one that has the cpu controller; the same on v2
	pids   *os.File // v1: the one that has the pids controller; nil where there is none
}

// openCgroups finds out which cgroup version root has.
func openCgroups(root string) (*cgroups, error) {
	c := &cgroups{}
	cpusetRoot, cpuRoot := filepath.Join(root, "cpuset"), filepath.Join(root, "cpu")
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		c.v2 = true
		cpusetRoot, cpuRoot = root, root
	} else if _, err := os.Stat(cpuRoot); err != nil {
		cpuRoot = filepath.Join(root, "cpu,cpuacct")
	}
	var err error
	if c.cpuset, err = os.Open(cpusetRoot); err != nil { //nolint:gosec // the operator's --cgroup-root
		return nil, fmt.Errorf("no cpuset controller under the cgroup root %s, of neither version: %w", root, err)
	}
	if c.cpu, err = os.Open(cpuRoot); err != nil { //nolint:gosec // the operator's --cgroup-root
		return nil, errors.Join(fmt.Errorf("no cpu controller under the cgroup root %s: %w", root, err), c.cpuset.Close())
	}
	if pids, err := os.Open(filepath.Join(root, "pids")); err == nil { //nolint:gosec // the operator's --cgroup-root
		c.pids = pids
	}
	return c, nil
}

func (c *cgroups) Close() error {
	errs := []error{c.cpuset.Close(), c.cpu.Close()}
	if c.pids != nil {
		errs = append(errs, c.pids.Close())
	}
	return errors.Join(errs...)
}

// errNoCgroup is a container whose cgroup is not there (yet, or any more), or whose path we do not understand.
var errNoCgroup = errors.New("no such cgroup")

// setCPUs writes cpuset.cpus and reads back what the kernel made of it: want, which is cpus but for what the cgroups above do not have. dir is a
// container's cgroup as cgroupDir has it.
func (c *cgroups) setCPUs(dir string, cpus, want cpuset.Set) error {
	if err := write(c.cpuset, path.Join(dir, "cpuset.cpus"), cpus.String()); err != nil {
		return err
	}
	got, err := c.cpus(dir)
	if err != nil {
		return err
	}
	if !got.Equal(want) {
		return fmt.Errorf("wrote %s to %s/cpuset.cpus and the kernel made %s of it, not %s", cpus, dir, got, want)
	}
	return nil
}

// clearCPUs takes a cgroup's own cpuset away (v2), so that it has that of the cgroup above. The kernel refuses an empty set with ENOSPC where there
// are processes (validate_change in kernel/cgroup/cpuset.c): then it gets all of the machine's CPUs, which come to the same.
func (c *cgroups) clearCPUs(dir string, all cpuset.Set) error {
	file := path.Join(dir, "cpuset.cpus")
	err := write(c.cpuset, file, "\n")
	if errors.Is(err, unix.ENOSPC) {
		err = write(c.cpuset, file, all.String())
	}
	return err
}

// cpus returns the CPUs that the kernel lets the cgroup's tasks run on: cpuset.cpus.effective, on v1 cpuset.effective_cpus.
func (c *cgroups) cpus(dir string) (cpuset.Set, error) {
	name := "cpuset.effective_cpus"
	if c.v2 {
		name = "cpuset.cpus.effective"
	}
	text, err := read(c.cpuset, path.Join(dir, name))
	if err != nil {
		return cpuset.Set{}, err
	}
	return cpuset.Parse(text)
}

// exists tells whether a cgroup is there. In doubt it is.
func (c *cgroups) exists(dir string) bool {
	fd, err := open(c.cpuset, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		_ = unix.Close(fd)
	}
	return !errors.Is(err, errNoCgroup)
}

// empty tells whether a cgroup is there and no process is left in it or below: cgroup.events of v2, pids.current of v1. Not cgroup.procs: it shows
// only processes of the reader's PID namespace, which is our own container's.
func (c *cgroups) empty(dir string) bool {
	if c.v2 {
		text, err := read(c.cpuset, path.Join(dir, "cgroup.events"))
		return err == nil && strings.Contains(text, "populated 0")
	}
	if c.pids == nil {
		return false
	}
	text, err := read(c.pids, path.Join(dir, "pids.current"))
	return err == nil && strings.TrimSpace(text) == "0"
}

// ownCPUs returns what the cgroup itself was given: cpuset.cpus. On v2 it is empty where it was given nothing and has what the cgroup above has.
func (c *cgroups) ownCPUs(dir string) (cpuset.Set, error) {
	text, err := read(c.cpuset, path.Join(dir, "cpuset.cpus"))
	if err != nil {
		return cpuset.Set{}, err
	}
	return cpuset.Parse(text)
}

// quota returns the CFS quota of a cgroup in microseconds a period; -1 for none.
func (c *cgroups) quota(dir string) (quota int64, period uint64, err error) {
	if c.v2 {
		text, err := read(c.cpu, path.Join(dir, "cpu.max"))
		if err != nil {
			return 0, 0, err
		}
		return parseCPUMax(text)
	}
	text, err := read(c.cpu, path.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return 0, 0, err
	}
	if quota, err = strconv.ParseInt(strings.TrimSpace(text), 10, 64); err != nil {
		return 0, 0, fmt.Errorf("%s/cpu.cfs_quota_us: %w", dir, err)
	}
	if text, err = read(c.cpu, path.Join(dir, "cpu.cfs_period_us")); err != nil {
		return 0, 0, err
	}
	if period, err = strconv.ParseUint(strings.TrimSpace(text), 10, 64); err != nil {
		return 0, 0, fmt.Errorf("%s/cpu.cfs_period_us: %w", dir, err)
	}
	return quota, period, nil
}

// setQuota writes the CFS quota of a cgroup, in microseconds a period; -1 lifts it.
func (c *cgroups) setQuota(dir string, quota int64, period uint64) error {
	if !c.v2 {
		return write(c.cpu, path.Join(dir, "cpu.cfs_quota_us"), strconv.FormatInt(quota, 10))
	}
	if quota < 0 {
		return write(c.cpu, path.Join(dir, "cpu.max"), "max")
	}
	return write(c.cpu, path.Join(dir, "cpu.max"), fmt.Sprintf("%d %d", quota, period))
}

// parseCPUMax reads cgroup v2's cpu.max: "max 100000" or "200000 100000".
func parseCPUMax(text string) (quota int64, period uint64, err error) {
	first, second, _ := strings.Cut(strings.TrimSpace(text), " ")
	quota = -1
	if first != "max" {
		if quota, err = strconv.ParseInt(first, 10, 64); err != nil || quota < 0 {
			return 0, 0, fmt.Errorf("cpu.max: %q is no quota", text)
		}
	}
	if period, err = strconv.ParseUint(second, 10, 64); err != nil {
		return 0, 0, fmt.Errorf("cpu.max: %q has no period", text)
	}
	return quota, period, nil
}

// cgroupDir turns a runtime's cgroups path into the directory below the hierarchy's root. The cgroupfs driver's is a path already; the
// systemd driver's is slice:prefix:name, where "a-b.slice" lies in "a.slice" (systemd.slice(5)).
func cgroupDir(cgroupsPath string) (string, error) {
	if cgroupsPath == "" || strings.ContainsRune(cgroupsPath, 0) {
		return "", fmt.Errorf("%w: the runtime gives none", errNoCgroup)
	}
	parts := strings.Split(cgroupsPath, ":")
	if len(parts) == 1 {
		return strings.TrimPrefix(path.Clean("/"+cgroupsPath), "/"), nil
	}
	if len(parts) != 3 || !strings.HasSuffix(parts[0], ".slice") || parts[2] == "" || strings.Contains(cgroupsPath, "/") {
		return "", fmt.Errorf("%w: %q is neither a path nor slice:prefix:name", errNoCgroup, cgroupsPath)
	}
	scope := parts[2]
	if !strings.HasSuffix(scope, ".slice") {
		if parts[1] != "" {
			scope = parts[1] + "-" + scope
		}
		scope += ".scope"
	}
	return path.Join(sliceDir(parts[0]), scope), nil
}

// sliceDir returns where a slice lies: kubepods-burstable.slice is kubepods.slice/kubepods-burstable.slice.
func sliceDir(slice string) string {
	name := strings.TrimSuffix(slice, ".slice")
	if name == "-" || name == "" {
		return ""
	}
	var dir, prefix string
	for part := range strings.SplitSeq(name, "-") {
		prefix += part
		dir = path.Join(dir, prefix+".slice")
		prefix += "-"
	}
	return dir
}

// open opens a file below root. Neither a link nor ".." leads out of it, and no link is followed at all (openat2(2), Linux 5.6).
func open(root *os.File, name string, flags int) (int, error) {
	fd, err := unix.Openat2(int(root.Fd()), name, &unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC), //nolint:gosec // flags are small constants
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, fs.ErrNotExist) {
		return -1, fmt.Errorf("%w: %s", errNoCgroup, name)
	}
	if err != nil {
		return -1, &os.PathError{Op: "openat2", Path: name, Err: err}
	}
	return fd, nil
}

// write and read use the descriptor as it is: these files are never waited for, and one decision touches hundreds of them.
func write(root *os.File, name, value string) error {
	fd, err := open(root, name, unix.O_WRONLY|unix.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(value))
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

// maxCgroupFile bounds what is read: a list of 8,192 CPUs of which no two are neighbours.
const maxCgroupFile = 32 << 10

func read(root *os.File, name string) (string, error) {
	fd, err := open(root, name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	buffer := make([]byte, 0, 512)
	for len(buffer) < maxCgroupFile {
		if len(buffer) == cap(buffer) {
			buffer = append(buffer, 0)[:len(buffer)]
		}
		var n int
		if n, err = unix.Read(fd, buffer[len(buffer):cap(buffer)]); n <= 0 {
			break
		}
		buffer = buffer[:len(buffer)+n]
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return "", &os.PathError{Op: "read", Path: name, Err: err}
	}
	return string(buffer), nil
}
