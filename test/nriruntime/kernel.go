package nriruntime

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/topology/cpuset"
)

// kernel is what a kernel would make of the cgroups of the containers.
type kernel struct {
	v1      bool
	driver  kubepod.CgroupDriver
	files   *files // nil: none are kept
	changed func(Snapshot)

	mu     sync.Mutex
	online cpuset.Set
	mems   cpuset.Set
	root   *group
	dirs   map[string]*group // the root, the kubelet's, and the pods'
	groups map[*Container]*group
}

// Snapshot is the state of the kernel at one moment.
type Snapshot struct {
	Online     cpuset.Set
	Containers []View // that have a cgroup, by id
}

// View is one container as the kernel has it, and what it asks for by now.
type View struct {
	Container *Container
	Asks      *kubepod.Container // not to be changed
	Next      *kubepod.Container // what it is being resized to at this moment; nil: it is not
	Running   bool               // its process runs; false: it has been made and not been let go
	CPUs      cpuset.Set         // where the kernel lets it run: cpuset.cpus.effective
	Mems      cpuset.Set         // likewise
	Quota     int64              // CFS quota, microseconds a period; -1: none
	PodQuota  int64              // that of its pod's cgroup, which the kubelet has set
}

func newKernel(o Options, cgroupRoot string) (*kernel, error) {
	k := &kernel{
		v1: o.CgroupV1, driver: o.CgroupDriver, changed: o.Hooks.Changed,
		online: o.CPUs, mems: o.Mems,
		dirs: map[string]*group{}, groups: map[*Container]*group{},
	}
	if o.CgroupFiles {
		k.files = &files{root: cgroupRoot, v1: o.CgroupV1}
		if err := k.files.makeRoot(); err != nil {
			return nil, err
		}
	}
	k.root = newGroup("/", nil)
	k.dirs["/"] = k.root
	return k, k.make(k.root)
}

// close removes all files.
func (k *kernel) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range slices.Backward(k.all()) {
		k.remove(g)
	}
}

// Snapshot returns where the kernel would let each container run at this moment, with what has been written to its files.
func (r *Runtime) Snapshot() (Snapshot, error) {
	k := r.kernel
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.readFiles(); err != nil {
		return Snapshot{}, err
	}
	return k.snapshot(), nil
}

// SetOnline takes CPUs away and brings them back.
func (r *Runtime) SetOnline(cpus cpuset.Set) error {
	k := r.kernel
	return k.change(func() error {
		k.online = cpus
		for _, g := range k.all() {
			if k.v1 { // v1 forgets what it takes away (Documentation/admin-guide/cgroup-v1/cpusets.rst)
				g.cpus = g.cpus.Intersect(cpus)
			}
			if err := k.writeFiles(g); err != nil {
				return err
			}
		}
		return nil
	})
}

// change makes one change and tells who watches.
func (k *kernel) change(f func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.readFiles(); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	k.tell()
	return nil
}

func (k *kernel) tell() {
	if k.changed != nil {
		k.changed(k.snapshot())
	}
}

// addPod makes a pod's cgroup, as the kubelet does before it runs the sandbox: with a CPU quota if all its containers are limited
// (ResourceConfigForPod in k8s.io/kubernetes/pkg/kubelet/cm).
func (k *kernel) addPod(p *Pod) error {
	linux := p.sandbox.GetLinux()
	return k.change(func() error {
		g, err := k.directory(linux.GetCgroupParent())
		if err != nil {
			return err
		}
		if p.limitsCPUs() {
			cpu := linux.GetPodResources().GetCpu()
			g.quota, g.period = cpu.GetQuota().GetValue(), cpu.GetPeriod().GetValue()
		}
		return k.writeFiles(g)
	})
}

func (p *Pod) limitsCPUs() bool {
	for _, c := range p.Spec.Ordered() {
		if limit := c.Limits["cpu"]; limit.IsZero() {
			return false
		}
	}
	return true
}

func (k *kernel) removePod(p *Pod) {
	_ = k.change(func() error { // only files can fail
		dir := p.sandbox.GetLinux().GetCgroupParent()
		if g := k.dirs[dir]; g != nil {
			k.remove(g)
			delete(k.dirs, dir)
		}
		return nil
	})
}

// directory returns the group of a directory that is no container's, and makes it where it is not there, with all above it.
func (k *kernel) directory(dir string) (*group, error) {
	if g := k.dirs[dir]; g != nil {
		return g, nil
	}
	parent, err := k.directory(path.Dir(dir))
	if err != nil {
		return nil, err
	}
	g := newGroup(dir, parent)
	k.dirs[dir] = g
	return g, k.make(g)
}

// addContainer makes a container's cgroup.
func (k *kernel) addContainer(c *Container, r *api.LinuxResources) error {
	return k.change(func() error {
		parent, err := k.directory(c.Pod.sandbox.GetLinux().GetCgroupParent())
		if err != nil {
			return err
		}
		g := newGroup(k.dir(c), parent)
		g.asks = c.asks
		if err := k.set(g, r); err != nil {
			return err
		}
		k.groups[c] = g
		return k.make(g)
	})
}

// start lets a container's process go.
func (k *kernel) start(c *Container) {
	_ = k.change(func() error {
		if g := k.groups[c]; g != nil {
			g.running = true
		}
		return nil
	})
}

func (k *kernel) removeContainer(c *Container) {
	_ = k.change(func() error {
		if g := k.groups[c]; g != nil {
			k.remove(g)
			delete(k.groups, c)
		}
		return nil
	})
}

// resizing notes what a container is about to be resized to, or with nil that it no longer is.
func (k *kernel) resizing(c *Container, next *kubepod.Container) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if g := k.groups[c]; g != nil {
		g.next = next
	}
}

// update sets all that r names, as runc does: what has been written to the files is gone.
func (k *kernel) update(c *Container, r *api.LinuxResources) error {
	return k.change(func() error {
		g := k.groups[c]
		if g == nil {
			return fmt.Errorf("%s has no cgroup", c)
		}
		if err := k.set(g, r); err != nil {
			return err
		}
		g.asks = c.asks
		return k.writeFiles(g)
	})
}

func (k *kernel) set(g *group, r *api.LinuxResources) error {
	cpus, mems := g.cpus, g.mems
	cpu := r.GetCpu()
	for _, list := range []struct {
		name  string
		text  string
		set   *cpuset.Set
		among cpuset.Set
	}{
		{"cpuset.cpus", cpu.GetCpus(), &cpus, k.effectiveCPUs(g.parent)},
		{"cpuset.mems", cpu.GetMems(), &mems, k.mems},
	} {
		if list.text == "" {
			continue
		}
		s, err := cpuset.Parse(list.text)
		if err != nil {
			return fmt.Errorf("writing %q to %s of %s: %w", list.text, list.name, g.dir, err)
		}
		if k.v1 && !s.IsSubsetOf(list.among) {
			return fmt.Errorf("writing %s to %s of %s: permission denied: the parent has %s", s, list.name, g.dir, list.among)
		}
		*list.set = s
	}
	g.cpus, g.mems = cpus, mems
	if v := cpu.GetQuota().GetValue(); v != 0 {
		g.quota = v
	}
	if v := cpu.GetPeriod().GetValue(); v != 0 {
		g.period = v
	}
	return nil
}

func (k *kernel) snapshot() Snapshot {
	s := Snapshot{Online: k.online, Containers: make([]View, 0, len(k.groups))}
	for c, g := range k.groups {
		s.Containers = append(s.Containers, View{
			Container: c, Asks: g.asks, Next: g.next, Running: g.running,
			CPUs: k.effectiveCPUs(g), Mems: effective(g.mems, k.mems),
			Quota: g.quota, PodQuota: g.parent.quota,
		})
	}
	slices.SortFunc(s.Containers, func(a, b View) int { return strings.Compare(a.Container.id, b.Container.id) })
	return s
}

// dir returns a container's cgroup below the hierarchy's root.
func (k *kernel) dir(c *Container) string {
	cgroupsPath := c.spec.GetLinux().GetCgroupsPath()
	if k.driver != kubepod.Systemd {
		return cgroupsPath
	}
	_, scope, _ := strings.Cut(cgroupsPath, ":")
	return path.Join(c.Pod.sandbox.GetLinux().GetCgroupParent(), strings.ReplaceAll(scope, ":", "-")+".scope")
}
