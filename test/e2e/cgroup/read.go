package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// State is what the kernel's files say of one cgroup. CPUs and memory nodes are lists in the kernel's form, 0-3,8.
type State struct {
	CPUs        string // cpuset.cpus: what was asked for; in cgroup v2 empty where nobody asked
	Effective   string // cpuset.effective_cpus (v1), cpuset.cpus.effective (v2): where its processes run
	Mems        string // cpuset.effective_mems (v1), cpuset.mems.effective (v2)
	QuotaMicros int64  // cpu.cfs_quota_us (v1), cpu.max (v2): -1 for none
}

// Read reads the files of one cgroup.
func (h *Host) Read(path string) (State, error) {
	files := [3]string{"cpuset.cpus", "cpuset.effective_cpus", "cpuset.effective_mems"}
	if h.unified {
		files = [3]string{"cpuset.cpus", "cpuset.cpus.effective", "cpuset.mems.effective"}
	}
	var s State
	for i, to := range []*string{&s.CPUs, &s.Effective, &s.Mems} {
		var err error
		if *to, err = read(filepath.Join(h.roots["cpuset"], path), files[i]); err != nil {
			return State{}, err
		}
	}
	var err error
	s.QuotaMicros, err = h.quota(path)
	return s, err
}

func (h *Host) quota(path string) (int64, error) {
	file := "cpu.cfs_quota_us"
	if h.unified {
		file = "cpu.max"
	}
	text, err := read(filepath.Join(h.roots["cpu"], path), file)
	if err != nil {
		return 0, err
	}
	quota, _, _ := strings.Cut(text, " ")
	if quota == "max" {
		return -1, nil
	}
	micros, err := strconv.ParseInt(quota, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w", file, path, err)
	}
	return micros, nil
}

// EffectiveCPUs reads [State].Effective alone, for those that read it often.
func (h *Host) EffectiveCPUs(path string) (string, error) {
	if h.unified {
		return read(filepath.Join(h.roots["cpuset"], path), "cpuset.cpus.effective")
	}
	return read(filepath.Join(h.roots["cpuset"], path), "cpuset.effective_cpus")
}

// Processes returns the processes in a cgroup, as cgroup.procs lists them.
func (h *Host) Processes(path string) ([]int, error) {
	text, err := read(filepath.Join(h.roots["cpuset"], path), "cgroup.procs")
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(text) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("cgroup.procs of %s: %w", path, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// AllowedCPUs returns the CPUs that a process may run on: Cpus_allowed_list of its status file, see proc_pid_status(5).
func AllowedCPUs(pid int) (string, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("%s has no Cpus_allowed_list", path)
}

// OnlineCPUs returns the machine's online CPUs, from sysfs.
func OnlineCPUs() (string, error) {
	return read("/sys/devices/system/cpu", "online")
}
