package nriruntime

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"nri-cpuset/topology/cpuset"
)

// files keeps the state of the cgroups in files as under /sys/fs/cgroup: one hierarchy on v2, one for each controller on v1.
type files struct {
	root string
	v1   bool
}

// The controllers' hierarchies on v1.
const (
	cpusetHierarchy = "cpuset"
	cpuHierarchy    = "cpu"
)

func (f *files) path(hierarchy, dir, name string) string {
	if !f.v1 {
		hierarchy = ""
	}
	return filepath.Join(f.root, hierarchy, filepath.FromSlash(dir), name)
}

func (f *files) cpus(dir string) string { return f.path(cpusetHierarchy, dir, "cpuset.cpus") }

func (f *files) effectiveCPUs(dir string) string {
	if f.v1 {
		return f.path(cpusetHierarchy, dir, "cpuset.effective_cpus")
	}
	return f.path(cpusetHierarchy, dir, "cpuset.cpus.effective")
}

func (f *files) effectiveMems(dir string) string {
	if f.v1 {
		return f.path(cpusetHierarchy, dir, "cpuset.effective_mems")
	}
	return f.path(cpusetHierarchy, dir, "cpuset.mems.effective")
}

func (f *files) makeRoot() error {
	if err := f.makeDir("/"); err != nil {
		return err
	}
	if f.v1 {
		return nil
	}
	return put(f.path("", "", "cgroup.controllers"), "cpuset cpu io memory hugetlb pids")
}

func (f *files) makeDir(dir string) error {
	return errors.Join(os.MkdirAll(f.path(cpusetHierarchy, dir, ""), 0o750), os.MkdirAll(f.path(cpuHierarchy, dir, ""), 0o750))
}

// removeDir removes a group's directory, as rmdir does in a cgroup file system.
func (f *files) removeDir(dir string) {
	for _, hierarchy := range []string{cpusetHierarchy, cpuHierarchy} {
		_ = os.RemoveAll(f.path(hierarchy, dir, "")) // what is left is in nobody's way
	}
}

// write brings a group's files up to date, but for the effective CPUs, which are worked out for whoever reads them.
func (f *files) write(g *group, cpus, mems, effectiveMems cpuset.Set) error {
	errs := []error{
		put(f.cpus(g.dir), cpus.String()),
		put(f.path(cpusetHierarchy, g.dir, "cpuset.mems"), mems.String()),
		put(f.effectiveMems(g.dir), effectiveMems.String()),
	}
	if f.v1 {
		return errors.Join(append(errs,
			put(f.path(cpuHierarchy, g.dir, "cpu.cfs_quota_us"), strconv.FormatInt(g.quota, 10)),
			put(f.path(cpuHierarchy, g.dir, "cpu.cfs_period_us"), strconv.FormatUint(g.period, 10)),
		)...)
	}
	quota := "max"
	if g.quota > 0 {
		quota = strconv.FormatInt(g.quota, 10)
	}
	return errors.Join(append(errs, put(f.path(cpuHierarchy, g.dir, "cpu.max"), fmt.Sprintf("%s %d", quota, g.period)))...)
}

// readCPUs reads cpuset.cpus, and says whether a kernel would have taken it for a list. An empty file is one that somebody has emptied and not
// written yet, or never will; the kernel knows no such thing, so that the set is still the one before. Writing an empty set is writing a
// newline.
func (f *files) readCPUs(dir string, before cpuset.Set) (cpus cpuset.Set, valid bool, err error) {
	text, err := os.ReadFile(f.cpus(dir))
	if err != nil {
		return cpuset.Set{}, false, err
	}
	if len(text) == 0 {
		return before, true, nil
	}
	cpus, err = cpuset.Parse(string(bytes.TrimSpace(text)))
	return cpus, err == nil, nil
}

func (f *files) readQuota(g *group) error {
	name := "cpu.max"
	if f.v1 {
		name = "cpu.cfs_quota_us"
	}
	text, err := os.ReadFile(f.path(cpuHierarchy, g.dir, name))
	if err != nil {
		return err
	}
	quota, period, _ := strings.Cut(string(bytes.TrimSpace(text)), " ")
	if quota == "max" {
		g.quota = -1
	} else if v, err := strconv.ParseInt(quota, 10, 64); err == nil {
		g.quota = v
	}
	if v, err := strconv.ParseUint(period, 10, 64); err == nil {
		g.period = v
	}
	return nil
}

// put writes a file at once: whoever is writing it at the same moment has written before.
func put(name, value string) error {
	next := name + ".next"
	if err := os.WriteFile(next, []byte(value+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(next, name)
}
