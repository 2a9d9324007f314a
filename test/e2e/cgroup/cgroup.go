// Package cgroup makes the control groups that a kubelet would make, and reads back what the kernel made of those of the containers.
//
// Paths are those of the kubelet and of CRI: absolute from the root of the hierarchy, /kubepods/burstable/pod<uid>, the same in every
// hierarchy of cgroup v1. A test asserts from here: from the kernel's files and from nobody's words.
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mountPoint is where every container runtime looks for the hierarchies.
const mountPoint = "/sys/fs/cgroup"

// controllers are those in which the kubelet makes a pod's cgroup. The runtime makes the rest.
var controllers = []string{"cpuset", "cpu", "cpuacct", "memory", "pids", "hugetlb"}

// Host is this machine's control groups.
type Host struct {
	unified bool              // cgroup v2
	roots   map[string]string // controller -> where its hierarchy is mounted
	mounts  []string          // every hierarchy, those without controllers included
}

// Find looks at what is mounted under /sys/fs/cgroup, cgroup v1 or v2. It is an error if the cpuset controller is not there.
func Find() (*Host, error) {
	h := &Host{roots: map[string]string{}}
	var stat unix.Statfs_t
	if err := unix.Statfs(mountPoint, &stat); err != nil {
		return nil, fmt.Errorf("control groups at %s: %w", mountPoint, err)
	}
	h.unified = stat.Type == unix.CGROUP2_SUPER_MAGIC

	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// proc_pid_mountinfo(5): id parent major:minor root mountpoint options [optional...] - fstype source superoptions
		before, after, _ := strings.Cut(lines.Text(), " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(kind) < 3 || !strings.HasPrefix(kind[0], "cgroup") || slices.Contains(h.mounts, mount[4]) {
			continue
		}
		h.mounts = append(h.mounts, mount[4])
		if kind[0] == "cgroup" {
			for option := range strings.SplitSeq(kind[2], ",") {
				h.roots[option] = mount[4]
			}
		}
	}
	if h.unified {
		available, err := os.ReadFile(filepath.Join(mountPoint, "cgroup.controllers"))
		if err != nil {
			return nil, err
		}
		for controller := range strings.FieldsSeq(string(available)) {
			h.roots[controller] = mountPoint
		}
	}
	if h.roots["cpuset"] == "" {
		return nil, fmt.Errorf("no cpuset controller: %s is %s and none of its hierarchies has it (mounts: %s)", mountPoint, h, strings.Join(h.mounts, " "))
	}
	return h, nil
}

// String names the version: "cgroup v1" or "cgroup v2".
func (h *Host) String() string {
	if h.unified {
		return "cgroup v2"
	}
	return "cgroup v1"
}

// Create makes a cgroup and its parents in every hierarchy in which the kubelet would, with the CPUs and memory nodes of their parents.
func (h *Host) Create(path string) error {
	for _, controller := range controllers {
		root, ok := h.roots[controller]
		if !ok {
			continue
		}
		dir := root
		for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			if h.unified {
				// A controller's files appear in a child once its parent hands the controller on.
				if err := write(filepath.Join(dir, "cgroup.subtree_control"), "+"+controller); err != nil {
					return err
				}
			}
			parent := dir
			dir = filepath.Join(dir, name)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // the mode of every cgroup
				return err
			}
			if controller == "cpuset" && !h.unified {
				if err := inheritCpuset(parent, dir); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// inheritCpuset gives a new cpuset of cgroup v1 what its parent has: it begins with none, and nobody may enter it then.
func inheritCpuset(parent, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		has, err := read(dir, file)
		if err != nil {
			return err
		}
		if has != "" {
			continue
		}
		if has, err = read(parent, file); err != nil {
			return err
		}
		if err := write(filepath.Join(dir, file), has); err != nil {
			return err
		}
	}
	return nil
}

// SetQuota limits a cgroup to so many microseconds of CPU time in each period of 100 ms; -1 lifts the limit.
func (h *Host) SetQuota(path string, micros int64) error {
	dir := filepath.Join(h.roots["cpu"], path)
	if !h.unified {
		return write(filepath.Join(dir, "cpu.cfs_quota_us"), strconv.FormatInt(micros, 10))
	}
	if micros < 0 {
		return write(filepath.Join(dir, "cpu.max"), "max 100000")
	}
	return write(filepath.Join(dir, "cpu.max"), fmt.Sprintf("%d 100000", micros))
}

// Join moves a process into a cgroup, in every hierarchy in which it is.
func (h *Host) Join(path string, pid int) error {
	for _, mount := range h.mounts {
		dir := filepath.Join(mount, path)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a cgroup and everything under it from every hierarchy. What has just been killed in it may take a moment to be gone.
func (h *Host) Remove(path string) error {
	if strings.Trim(path, "/") == "" {
		return fmt.Errorf("remove the cgroup %q: this is the root", path)
	}
	var errs []error
	for _, mount := range h.mounts {
		errs = append(errs, removeTree(filepath.Join(mount, path)))
	}
	return errors.Join(errs...)
}

func removeTree(dir string) error {
	children, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, child := range children {
		if child.IsDir() {
			if err := removeTree(filepath.Join(dir, child.Name())); err != nil {
				return err
			}
		}
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
		}
	}
}

// Delegated returns the controllers that the root of cgroup v2 hands on to its children; Create may add to them. None in cgroup v1.
func (h *Host) Delegated() ([]string, error) {
	if !h.unified {
		return nil, nil
	}
	text, err := read(mountPoint, "cgroup.subtree_control")
	return strings.Fields(text), err
}

// Undelegate takes back what the root of cgroup v2 hands on beyond those controllers.
func (h *Host) Undelegate(keep []string) error {
	now, err := h.Delegated()
	if err != nil {
		return err
	}
	for _, controller := range now {
		if slices.Contains(keep, controller) {
			continue
		}
		// Busy: somebody else has begun to use it.
		if err := write(filepath.Join(mountPoint, "cgroup.subtree_control"), "-"+controller); err != nil && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return nil
}

func read(dir, file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	return strings.TrimSpace(string(text)), err
}

func write(path, value string) error {
	// Not os.WriteFile: it would create a file where none is.
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %q: %w", value, err)
	}
	return nil
}
