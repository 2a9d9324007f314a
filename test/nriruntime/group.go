package nriruntime

import (
	"sync/atomic"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/topology/cpuset"
)

// group is one cgroup.
type group struct {
	dir    string // below the hierarchy's root
	parent *group // nil: this is the root

	cpus   cpuset.Set // cpuset.cpus; empty: none of its own
	mems   cpuset.Set // cpuset.mems
	quota  int64      // microseconds a period; -1: none
	period uint64     // microseconds

	// Of a container's only.
	running bool // it has a process that has been let go
	asks    *kubepod.Container
	next    *kubepod.Container // what it is being resized to

	gone *atomic.Bool // for who serves its effective set
}

func newGroup(dir string, parent *group) *group {
	const defaultPeriod = 100_000 // the kernel's
	return &group{dir: dir, parent: parent, quota: -1, period: defaultPeriod, gone: &atomic.Bool{}}
}

// effectiveCPUs returns where the kernel lets a group's tasks run.
func (k *kernel) effectiveCPUs(g *group) cpuset.Set {
	if g.parent == nil {
		return k.online
	}
	return effective(g.cpus, k.effectiveCPUs(g.parent))
}

// effective is a group's set cut to what its parent has, or all that the parent has if nothing is left: cgroup v2's rule. On v1 a set always
// lies within the parent's, and runc gives a group that has none the parent's.
func effective(own, parents cpuset.Set) cpuset.Set {
	if cut := own.Intersect(parents); !cut.IsEmpty() {
		return cut
	}
	return parents
}

// ownCPUs is what a group's cpuset.cpus says.
func (k *kernel) ownCPUs(g *group) cpuset.Set {
	if k.v1 {
		return k.effectiveCPUs(g)
	}
	return g.cpus
}

// all returns every group, parents first.
func (k *kernel) all() []*group {
	var list []*group
	var add func(g *group)
	seen := map[*group]bool{}
	add = func(g *group) {
		if g == nil || seen[g] {
			return
		}
		add(g.parent)
		seen[g] = true
		list = append(list, g)
	}
	for _, g := range k.dirs {
		add(g)
	}
	for _, g := range k.groups {
		add(g)
	}
	return list
}

// make makes a group's files, where there are any.
func (k *kernel) make(g *group) error {
	if k.files == nil {
		return nil
	}
	if err := k.files.makeDir(g.dir); err != nil {
		return err
	}
	if err := k.writeFiles(g); err != nil {
		return err
	}
	return k.serveEffective(g)
}

// remove removes a group's files.
func (k *kernel) remove(g *group) {
	if k.files == nil || !g.gone.CompareAndSwap(false, true) {
		return
	}
	k.files.release(k.files.effectiveCPUs(g.dir))
	k.files.removeDir(g.dir)
}

func (k *kernel) writeFiles(g *group) error {
	if k.files == nil {
		return nil
	}
	mems := g.mems
	if k.v1 {
		mems = effective(g.mems, k.mems)
	}
	return k.files.write(g, k.ownCPUs(g), mems, effective(g.mems, k.mems))
}

// readFiles takes over what has been written to the files directly.
func (k *kernel) readFiles() error {
	if k.files == nil {
		return nil
	}
	for _, g := range k.all() {
		if err := k.files.readQuota(g); err != nil {
			return err
		}
		if _, err := k.readCPUs(g); err != nil {
			return err
		}
	}
	return nil
}

// readCPUs takes over a direct write to cpuset.cpus, and tells whether there was one. One that a kernel would refuse is undone.
func (k *kernel) readCPUs(g *group) (written bool, err error) {
	if g.parent == nil {
		return false, nil
	}
	cpus, valid, err := k.files.readCPUs(g.dir, k.ownCPUs(g))
	if err != nil || valid && cpus.Equal(k.ownCPUs(g)) {
		return false, err
	}
	if !valid || k.v1 && (cpus.IsEmpty() || !cpus.IsSubsetOf(k.effectiveCPUs(g.parent))) {
		return false, k.writeFiles(g)
	}
	g.cpus = cpus
	return true, nil
}

// read returns the effective set of a group at this moment, for one who reads its file.
func (k *kernel) read(g *group) cpuset.Set {
	k.mu.Lock()
	defer k.mu.Unlock()
	var path []*group
	for at := g; at != nil; at = at.parent {
		path = append(path, at)
	}
	changed := false
	for i := len(path) - 1; i >= 0 && !g.gone.Load(); i-- {
		written, err := k.readCPUs(path[i])
		if err != nil {
			break // it is being removed
		}
		changed = changed || written
	}
	if changed {
		k.tell()
	}
	return k.effectiveCPUs(g)
}
