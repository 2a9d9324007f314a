package nriruntime

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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

// The files' names differ in small ways.
func (f *files) effectiveName(of string) string {
	if f.v1 {
		return "cpuset.effective_" + of
	}
	return "cpuset." + of + ".effective"
}

func (f *files) makeRoot(online, mems cpuset.Set) error {
	for _, hierarchy := range []string{cpusetHierarchy, cpuHierarchy} {
		if err := os.MkdirAll(f.path(hierarchy, "", ""), 0o750); err != nil {
			return err
		}
	}
	if !f.v1 {
		if err := put(f.path("", "", "cgroup.controllers"), "cpuset cpu io memory hugetlb pids"); err != nil {
			return err
		}
	}
	root := &group{dir: "/", cpus: online, mems: mems, quota: -1, period: defaultPeriod}
	return f.write(root, online, mems)
}

// write makes the group's directory where it is not there, with all above it, and brings its files up to date.
func (f *files) write(g *group, online, mems cpuset.Set) error {
	if parent := path.Dir(g.dir); parent != g.dir {
		if _, err := os.Stat(f.path(cpusetHierarchy, parent, "")); errors.Is(err, fs.ErrNotExist) {
			if err := f.write(&group{dir: parent, quota: -1, period: defaultPeriod}, online, mems); err != nil {
				return err
			}
		}
	}
	for _, hierarchy := range []string{cpusetHierarchy, cpuHierarchy} {
		if err := os.MkdirAll(f.path(hierarchy, g.dir, ""), 0o750); err != nil {
			return err
		}
	}
	own := g.mems
	if f.v1 {
		own = effective(g.mems, mems)
	}
	return errors.Join(
		f.writeCPUs(g, online),
		put(f.path(cpusetHierarchy, g.dir, "cpuset.mems"), own.String()),
		put(f.path(cpusetHierarchy, g.dir, f.effectiveName("mems")), effective(g.mems, mems).String()),
		f.writeQuota(g),
	)
}

// writeCPUs writes cpuset.cpus. Where the effective set is that very set its file is another name of it, so that it follows a direct write at
// once, as the kernel's does.
func (f *files) writeCPUs(g *group, online cpuset.Set) error {
	name, effectiveName := f.path(cpusetHierarchy, g.dir, "cpuset.cpus"), f.path(cpusetHierarchy, g.dir, f.effectiveName("cpus"))
	own := g.cpus
	if f.v1 {
		own = effective(g.cpus, online)
	}
	if err := put(name, own.String()); err != nil {
		return err
	}
	next := effectiveName + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if own.IsEmpty() || !own.IsSubsetOf(online) {
		if err := put(next, effective(g.cpus, online).String()); err != nil {
			return err
		}
		return os.Rename(next, effectiveName)
	}
	a, errA := os.Stat(name)
	b, errB := os.Stat(effectiveName)
	if errA == nil && errB == nil && os.SameFile(a, b) {
		return nil
	}
	if err := os.Link(name, next); err != nil {
		return err
	}
	return os.Rename(next, effectiveName)
}

func (f *files) writeQuota(g *group) error {
	if f.v1 {
		return errors.Join(
			put(f.path(cpuHierarchy, g.dir, "cpu.cfs_quota_us"), strconv.FormatInt(g.quota, 10)),
			put(f.path(cpuHierarchy, g.dir, "cpu.cfs_period_us"), strconv.FormatUint(g.period, 10)),
		)
	}
	quota := "max"
	if g.quota > 0 {
		quota = strconv.FormatInt(g.quota, 10)
	}
	return put(f.path(cpuHierarchy, g.dir, "cpu.max"), fmt.Sprintf("%s %d", quota, g.period))
}

// readCPUs reads cpuset.cpus, and says whether a kernel would have taken it for a list. Whoever writes it empties it first; the kernel knows no
// such moment, so that it is waited out.
func (f *files) readCPUs(g *group) (cpus cpuset.Set, valid bool, err error) {
	name := f.path(cpusetHierarchy, g.dir, "cpuset.cpus")
	for try := 0; ; try++ {
		text, err := get(name)
		if err != nil {
			return cpuset.Set{}, false, err
		}
		cpus, err := cpuset.Parse(text)
		if err != nil {
			return cpuset.Set{}, false, nil //nolint:nilerr // whoever wrote it would have got EINVAL
		}
		if !cpus.IsEmpty() || g.cpus.IsEmpty() || try == 20 {
			return cpus, true, nil
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func (f *files) readQuota(g *group) error {
	if f.v1 {
		text, err := get(f.path(cpuHierarchy, g.dir, "cpu.cfs_quota_us"))
		if err != nil {
			return err
		}
		if quota, err := strconv.ParseInt(text, 10, 64); err == nil {
			g.quota = quota
		}
		return nil
	}
	text, err := get(f.path(cpuHierarchy, g.dir, "cpu.max"))
	if err != nil {
		return err
	}
	quota, period, _ := strings.Cut(text, " ")
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

// remove removes a group's directory, as rmdir does in a cgroup file system.
func (f *files) remove(dir string) {
	for _, hierarchy := range []string{cpusetHierarchy, cpuHierarchy} {
		_ = os.RemoveAll(f.path(hierarchy, dir, "")) // what is left is in nobody's way
	}
}

func put(name, value string) error {
	return os.WriteFile(name, []byte(value+"\n"), 0o600)
}

func get(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	return string(bytes.TrimSpace(text)), nil
}
