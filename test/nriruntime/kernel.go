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
	pods   map[*Pod]*group
	groups map[*Container]*group
}

// group is one cgroup.
type group struct {
	dir     string     // below the hierarchy's root
	cpus    cpuset.Set // cpuset.cpus; empty: none of its own
	mems    cpuset.Set // cpuset.mems
	quota   int64      // microseconds a period; -1: none
	period  uint64     // microseconds
	running bool       // it has a process that has been let go
	asks    *kubepod.Container
}

const defaultPeriod = 100_000 // the kernel's, microseconds

// Snapshot is the state of the kernel at one moment.
type Snapshot struct {
	Online     cpuset.Set
	Containers []View // that have a cgroup, by pod and name
}

// View is one container as the kernel has it, and what it asks for by now.
type View struct {
	Container *Container
	Asks      *kubepod.Container // not to be changed
	Running   bool               // its process runs; false: it has been made and not been let go
	CPUs      cpuset.Set         // where the kernel lets it run: cpuset.cpus.effective
	Mems      cpuset.Set         // likewise
	Quota     int64              // CFS quota, microseconds a period; -1: none
	PodQuota  int64              // that of its pod's cgroup, which the kubelet has set
}

func newKernel(o Options, root string) (*kernel, error) {
	k := &kernel{
		v1: o.CgroupV1, driver: o.CgroupDriver, changed: o.Hooks.Changed,
		online: o.CPUs, mems: o.Mems,
		pods: map[*Pod]*group{}, groups: map[*Container]*group{},
	}
	if !o.CgroupFiles {
		return k, nil
	}
	k.files = &files{root: root, v1: o.CgroupV1}
	return k, k.files.makeRoot(k.online, k.mems)
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
		for _, g := range k.groups {
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
	if k.changed != nil {
		k.changed(k.snapshot())
	}
	return nil
}

// addPod makes a pod's cgroup, as the kubelet does before it runs the sandbox: with a CPU quota if all its containers are limited
// (ResourceConfigForPod in k8s.io/kubernetes/pkg/kubelet/cm).
func (k *kernel) addPod(p *Pod) error {
	linux := p.sandbox.GetLinux()
	g := &group{dir: linux.GetCgroupParent(), quota: -1, period: defaultPeriod}
	if p.limitsCPUs() {
		g.quota, g.period = linux.GetPodResources().GetCpu().GetQuota().GetValue(), linux.GetPodResources().GetCpu().GetPeriod().GetValue()
	}
	return k.change(func() error {
		k.pods[p] = g
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
		if g := k.pods[p]; g != nil && k.files != nil {
			k.files.remove(g.dir)
		}
		delete(k.pods, p)
		return nil
	})
}

// addContainer makes a container's cgroup.
func (k *kernel) addContainer(c *Container, r *api.LinuxResources) error {
	g := &group{dir: k.dir(c), quota: -1, period: defaultPeriod, asks: c.asks}
	return k.change(func() error {
		if err := k.set(g, r); err != nil {
			return err
		}
		k.groups[c] = g
		return k.writeFiles(g)
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
		if g := k.groups[c]; g != nil && k.files != nil {
			k.files.remove(g.dir)
		}
		delete(k.groups, c)
		return nil
	})
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
	changed := *g
	cpu := r.GetCpu()
	for _, list := range []struct {
		name  string
		text  string
		set   *cpuset.Set
		among cpuset.Set
	}{{"cpuset.cpus", cpu.GetCpus(), &changed.cpus, k.online}, {"cpuset.mems", cpu.GetMems(), &changed.mems, k.mems}} {
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
	if v := cpu.GetQuota().GetValue(); v != 0 {
		changed.quota = v
	}
	if v := cpu.GetPeriod().GetValue(); v != 0 {
		changed.period = v
	}
	*g = changed
	return nil
}

// effective is a group's set cut to what its parent has, or all that the parent has if nothing is left: cgroup v2's rule. On v1 a set always
// lies within the parent's, and runc gives a group that has none the parent's.
func effective(own, parents cpuset.Set) cpuset.Set {
	if cut := own.Intersect(parents); !cut.IsEmpty() {
		return cut
	}
	return parents
}

// shown is what a group's cpuset.cpus says.
func (k *kernel) shown(g *group) cpuset.Set {
	if k.v1 {
		return effective(g.cpus, k.online)
	}
	return g.cpus
}

func (k *kernel) snapshot() Snapshot {
	s := Snapshot{Online: k.online, Containers: make([]View, 0, len(k.groups))}
	for c, g := range k.groups {
		v := View{
			Container: c, Asks: g.asks, Running: g.running,
			CPUs: effective(g.cpus, k.online), Mems: effective(g.mems, k.mems),
			Quota: g.quota, PodQuota: -1,
		}
		if pod := k.pods[c.Pod]; pod != nil {
			v.PodQuota = pod.quota
		}
		s.Containers = append(s.Containers, v)
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
	slice, rest, _ := strings.Cut(cgroupsPath, ":")
	parent := c.Pod.sandbox.GetLinux().GetCgroupParent()
	if slice != path.Base(parent) {
		return cgroupsPath
	}
	return path.Join(parent, strings.ReplaceAll(rest, ":", "-")+".scope")
}

func (k *kernel) writeFiles(g *group) error {
	if k.files == nil {
		return nil
	}
	return k.files.write(g, k.online, k.mems)
}

// readFiles takes over what has been written to the files directly.
func (k *kernel) readFiles() error {
	if k.files == nil {
		return nil
	}
	for _, g := range k.pods {
		if err := k.files.readQuota(g); err != nil {
			return err
		}
	}
	for _, g := range k.groups {
		if err := k.files.readQuota(g); err != nil {
			return err
		}
		if err := k.readCPUs(g); err != nil {
			return err
		}
	}
	return nil
}

func (k *kernel) readCPUs(g *group) error {
	cpus, valid, err := k.files.readCPUs(g)
	if err != nil || valid && cpus.Equal(k.shown(g)) {
		return err
	}
	if valid && (!k.v1 || !cpus.IsEmpty() && cpus.IsSubsetOf(k.online)) {
		g.cpus = cpus
	}
	return k.files.writeCPUs(g, k.online)
}
