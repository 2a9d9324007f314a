package nriruntime

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/topology/cpuset"
)

// The reply to a creation takes effect before the container exists, and the updates in it before the creation returns.
func TestReplyTakesEffect(t *testing.T) {
	bothManners(t, func(t *testing.T, m Manner) {
		p := &testPlugin{}
		r := start(t, Options{Manner: m}, p)
		pod := must[*Pod](t)(r.RunPod(simplePod("p", "shared", "exclusive")))
		shared := must[*Container](t)(r.Create(pod, "shared"))
		succeed(t, r.Start(shared))
		p.create = func(*api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
			return pin("2-3"), []*api.ContainerUpdate{move(shared.ID(), "0-1,4-7")}, nil
		}
		exclusive := must[*Container](t)(r.Create(pod, "exclusive"))
		if got, want := effectiveCPUs(t, r)["shared"], "0-1,4-7"; got != want {
			t.Errorf("after the creation the other container may run on %s, want %s", got, want)
		}
		succeed(t, r.Start(exclusive))
		if diff := cmp.Diff(map[string]string{"shared": "0-1,4-7", "exclusive": "2-3"}, effectiveCPUs(t, r)); diff != "" {
			t.Errorf("effective cpusets differ (-want +got):\n%s", diff)
		}
		p.stop = func(*api.Container) []*api.ContainerUpdate { return []*api.ContainerUpdate{move(shared.ID(), "0-7")} }
		succeed(t, r.Stop(exclusive))
		if diff := cmp.Diff(map[string]string{"shared": "0-7"}, effectiveCPUs(t, r)); diff != "" {
			t.Errorf("after the stop, effective cpusets differ (-want +got):\n%s", diff)
		}
	})
}

func TestFailedUpdate(t *testing.T) {
	for _, test := range []struct {
		manner  Manner
		outcome Outcome
		created bool
		events  []string
	}{
		{Containerd, Fails, true, []string{"CreateContainer exclusive", "PostCreateContainer exclusive"}}, // nobody is told
		{CRIO, Fails, false, []string{"CreateContainer exclusive"}},                                       // and nothing is undone
		{Containerd, Pretend, true, []string{"CreateContainer exclusive", "PostCreateContainer exclusive"}},
		{CRIO, Pretend, true, []string{"CreateContainer exclusive", "PostCreateContainer exclusive"}},
	} {
		name := string(test.manner) + " fails"
		if test.outcome == Pretend {
			name = string(test.manner) + " pretends"
		}
		t.Run(name, func(t *testing.T) {
			p := &testPlugin{}
			r := start(t, Options{Manner: test.manner, Hooks: Hooks{Update: func(string) Outcome { return test.outcome }}}, p)
			pod := must[*Pod](t)(r.RunPod(simplePod("p", "shared", "exclusive")))
			shared := must[*Container](t)(r.Create(pod, "shared"))
			succeed(t, r.Start(shared))
			p.create = func(*api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
				return pin("2-3"), []*api.ContainerUpdate{move(shared.ID(), "0-1")}, nil
			}
			p.heard()
			c, err := r.Create(pod, "exclusive")
			if (err == nil) != test.created {
				t.Errorf("Create() = %v, %v, want success: %v", c, err, test.created)
			}
			if got, want := effectiveCPUs(t, r)["shared"], "0-7"; got != want {
				t.Errorf("a container whose update was not done may run on %s, want %s", got, want)
			}
			if diff := cmp.Diff(test.events, p.heard()); diff != "" {
				t.Errorf("events differ (-want +got):\n%s", diff)
			}
			failed, err := p.stub.UpdateContainers([]*api.ContainerUpdate{move(shared.ID(), "0-1")})
			if (err != nil) != (test.outcome == Fails) {
				t.Errorf("UpdateContainers() = %v, %v, want an error: %v", failed, err, test.outcome == Fails)
			}
		})
	}
}

// An update between the reply and the runtime's knowing of the container (window A), or between the making of its task and the end of its
// start on containerd (window B), is said to be done and is lost.
func TestWindows(t *testing.T) {
	for _, test := range []struct {
		manner Manner
		point  Point
		want   string
	}{
		{Containerd, Replied, "0-1"},
		{CRIO, Replied, "0-1"},
		{Containerd, Starting, "0-1"},
		{CRIO, Starting, "4-5"},
	} {
		t.Run(string(test.manner)+[...]string{" A", "", " B"}[test.point], func(t *testing.T) {
			p := &testPlugin{}
			p.create = func(*api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
				return pin("0-1"), nil, nil
			}
			hooks := Hooks{At: func(where Point, c *Container) error {
				if where != test.point {
					return nil
				}
				if failed, err := p.stub.UpdateContainers([]*api.ContainerUpdate{move(c.ID(), "4-5")}); err != nil {
					t.Errorf("UpdateContainers() = %v, %v, want it said to be done", failed, err)
				}
				return nil
			}}
			r := start(t, Options{Manner: test.manner, Hooks: hooks}, p)
			pod := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
			c := must[*Container](t)(r.Create(pod, "c"))
			succeed(t, r.Start(c))
			if got := effectiveCPUs(t, r)["c"]; got != test.want {
				t.Errorf("the container may run on %s, want %s", got, test.want)
			}
		})
	}
}

func TestResize(t *testing.T) {
	bothManners(t, func(t *testing.T, m Manner) {
		p := &testPlugin{}
		r := start(t, Options{Manner: m}, p)
		spec := podSpec(t, `{"name":"p","containers":[{"name":"c","limits":{"cpu":"2","memory":"1Gi"}},{"name":"other"}]}`)
		pod := must[*Pod](t)(r.RunPod(spec))
		other := must[*Container](t)(r.Create(pod, "other"))
		succeed(t, r.Start(other))
		c := must[*Container](t)(r.Create(pod, "c"))
		succeed(t, r.Start(c))
		p.update = func(c *api.Container, asked *api.LinuxResources) []*api.ContainerUpdate {
			if got, want := asked.GetCpu().GetQuota().GetValue(), int64(400000); got != want {
				t.Errorf("the plugin was asked for a quota of %d, want %d", got, want)
			}
			own := move(c.GetId(), "4-7")
			own.SetLinuxCPUQuota(-1)
			return []*api.ContainerUpdate{own, move(other.ID(), "0-3")}
		}
		limits := podSpec(t, `{"name":"p","containers":[{"name":"c","limits":{"cpu":"4","memory":"2Gi"}}]}`).Containers[0].Limits
		succeed(t, r.UpdateResources(c, nil, limits))
		if diff := cmp.Diff(map[string]string{"c": "4-7", "other": "0-3"}, effectiveCPUs(t, r)); diff != "" {
			t.Errorf("effective cpusets differ (-want +got):\n%s", diff)
		}
		shown := r.Shown(c).GetLinux().GetResources()
		if got, want := shown.GetCpu().GetShares().GetValue(), uint64(4096); got != want {
			t.Errorf("shares = %d, want %d", got, want)
		}
		if got, want := shown.GetCpu().GetQuota().GetValue(), int64(-1); got != want {
			t.Errorf("quota = %d, want the plugin's %d", got, want)
		}
		if got, want := shown.GetMemory().GetLimit().GetValue(), int64(2<<30); got != want {
			t.Errorf("memory limit = %d, want %d", got, want)
		}
		succeed(t, r.Stop(c))
		again := must[*Container](t)(r.Create(pod, "c"))
		if got, want := r.Shown(again).GetLinux().GetResources().GetCpu().GetShares().GetValue(), uint64(4096); got != want {
			t.Errorf("the next attempt asks for shares %d, want %d", got, want)
		}
	})
}

// TestKernel compares the two versions' answers to a cpuset that is not all there.
func TestKernel(t *testing.T) {
	type step struct {
		set    string // of the container; empty: none
		online string // empty: as it is
		fails  bool
		want   string
	}
	for _, test := range []struct {
		name  string
		v1    bool
		steps []step
	}{
		{"v2 cuts", false, []step{{set: "6-9", want: "6-7"}}},
		{"v2 falls back to the parent's", false, []step{{set: "8-9", want: "0-7"}}},
		{"v2 remembers what went offline", false, []step{{set: "4-7", want: "4-7"}, {online: "0-5", want: "4-5"}, {online: "0-7", want: "4-7"}}},
		{"v1 refuses", true, []step{{set: "2-3", want: "2-3"}, {set: "6-9", fails: true, want: "2-3"}}},
		{"v1 forgets what went offline", true, []step{{set: "4-7", want: "4-7"}, {online: "0-5", want: "4-5"}, {online: "0-7", want: "4-5"}}},
		{"v1 moves the tasks to the parent", true, []step{{set: "6-7", want: "6-7"}, {online: "0-5", want: "0-5"}}},
		{"without a cpuset", false, []step{{want: "0-7"}, {online: "0-3", want: "0-3"}}},
	} {
		for _, inFiles := range []bool{false, true} {
			name := test.name
			if inFiles {
				name += ", in files"
			}
			t.Run(name, func(t *testing.T) {
				p := &testPlugin{}
				r := start(t, Options{CgroupV1: test.v1, CgroupFiles: inFiles}, p)
				pod := must[*Pod](t)(r.RunPod(simplePod("p", "c")))
				c := must[*Container](t)(r.Create(pod, "c"))
				succeed(t, r.Start(c))
				for _, s := range test.steps {
					if s.online != "" {
						succeed(t, r.SetOnline(cpus(t, s.online)))
					}
					if s.set != "" {
						_, err := p.stub.UpdateContainers([]*api.ContainerUpdate{move(c.ID(), s.set)})
						if (err != nil) != s.fails {
							t.Errorf("setting %s: %v, want an error: %v", s.set, err, s.fails)
						}
					}
					if got := effectiveCPUs(t, r)["c"]; got != s.want {
						t.Errorf("after %+v the container may run on %s, want %s", s, got, s.want)
					}
				}
			})
		}
	}
}

// A plugin that writes the cgroup files itself is the other way to move a container.
func TestFiles(t *testing.T) {
	type names struct {
		cpus, effective, mems, quota string // below the container's cgroup
		unlimited, limited           string // contents of quota
	}
	v2 := names{"cpuset.cpus", "cpuset.cpus.effective", "cpuset.mems", "cpu.max", "max 100000", "200000 100000"}
	v1 := names{"cpuset.cpus", "cpuset.effective_cpus", "cpuset.mems", "cpu.cfs_quota_us", "-1", "200000"}
	for _, test := range []struct {
		name        string
		options     Options
		names       names
		cpusetDir   string
		cpuDir      string
		pod, rename string // of the pod's cgroup, and what is before a container's id; after it
		suffix      string
	}{
		{"v2, cgroupfs", Options{}, v2, "", "", "kubepods/pod", "", ""},
		{"v2, systemd", Options{CgroupDriver: kubepod.Systemd}, v2, "", "", "kubepods.slice/kubepods-pod", "cri-containerd-", ".scope"},
		{"v2, systemd, CRI-O", Options{CgroupDriver: kubepod.Systemd, Manner: CRIO}, v2, "", "", "kubepods.slice/kubepods-pod", "crio-", ".scope"},
		{"v1, cgroupfs", Options{CgroupV1: true}, v1, "cpuset", "cpu", "kubepods/pod", "", ""},
		{"v1, cgroupfs, CRI-O", Options{CgroupV1: true, Manner: CRIO}, v1, "cpuset", "cpu", "kubepods/pod", "crio-", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &testPlugin{}
			p.create = func(*api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
				a := &api.ContainerAdjustment{}
				a.SetLinuxCPUSetCPUs("0-3")
				return a, nil, nil
			}
			o := test.options
			o.CgroupFiles = true
			o.Mems = cpuset.New(0, 1)
			r := start(t, o, p)
			spec := podSpec(t, `{"name":"p","uid":"u","containers":[{"name":"c","limits":{"cpu":"2","memory":"1Gi"}}]}`)
			pod := must[*Pod](t)(r.RunPod(spec))
			c := must[*Container](t)(r.Create(pod, "c"))
			succeed(t, r.Start(c))

			podDir := test.pod + "u"
			if test.suffix != "" {
				podDir += ".slice"
			}
			dir := filepath.Join(podDir, test.rename+c.ID()+test.suffix)
			file := func(controller, dir, name string) string { return filepath.Join(controller, dir, name) }
			want := func(name, want string) {
				t.Helper()
				got, err := fs.ReadFile(os.DirFS(r.CgroupRoot()), name)
				if err != nil || strings.TrimSpace(string(got)) != want {
					t.Errorf("%s = %q, %v, want %q", name, got, err, want)
				}
			}
			write := func(name, value string) {
				t.Helper()
				succeed(t, os.WriteFile(filepath.Join(r.CgroupRoot(), name), []byte(value), 0o600))
			}
			want(file(test.cpusetDir, dir, test.names.cpus), "0-3")
			want(file(test.cpusetDir, dir, test.names.effective), "0-3")
			want(file(test.cpuDir, dir, test.names.quota), test.names.limited)
			want(file(test.cpuDir, podDir, test.names.quota), test.names.limited)

			write(file(test.cpusetDir, dir, test.names.cpus), "4-5")
			want(file(test.cpusetDir, dir, test.names.effective), "4-5")
			write(file(test.cpuDir, dir, test.names.quota), test.names.unlimited)
			write(file(test.cpuDir, podDir, test.names.quota), test.names.unlimited)
			view := must[Snapshot](t)(r.Snapshot()).Containers[0]
			if got, want := view.CPUs.String(), "4-5"; got != want {
				t.Errorf("after a direct write the container may run on %s, want %s", got, want)
			}
			if view.Quota != -1 || view.PodQuota != -1 {
				t.Errorf("after direct writes the quotas are %d and the pod's %d, want -1 for both", view.Quota, view.PodQuota)
			}
			// The runtime knows nothing of it, and its next update brings back what it has.
			u := &api.ContainerUpdate{ContainerId: c.ID()}
			u.SetLinuxCPUShares(1024)
			if _, err := p.stub.UpdateContainers([]*api.ContainerUpdate{u}); err != nil {
				t.Fatal(err)
			}
			want(file(test.cpusetDir, dir, test.names.effective), "0-3")
			want(file(test.cpuDir, dir, test.names.quota), test.names.limited)

			succeed(t, r.Stop(c), r.StopPod(pod), r.Remove(c), r.RemovePod(pod))
			if _, err := os.Stat(filepath.Join(r.CgroupRoot(), test.cpusetDir, podDir)); !os.IsNotExist(err) {
				t.Errorf("the pod's cgroup is still there: %v", err)
			}
		})
	}
}

// On v2 nobody has what a cgroup above has not, and who has no set of his own has what is above.
func TestCgroupsAbove(t *testing.T) {
	p := &testPlugin{}
	r := start(t, Options{CgroupFiles: true}, p)
	pod := must[*Pod](t)(r.RunPod(podSpec(t, `{"name":"p","uid":"u","containers":[{"name":"free"},{"name":"set"}]}`)))
	free := must[*Container](t)(r.Create(pod, "free"))
	p.create = func(*api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
		return pin("0-3"), nil, nil
	}
	set := must[*Container](t)(r.Create(pod, "set"))
	succeed(t, r.Start(free), r.Start(set))

	class := filepath.Join(r.CgroupRoot(), "kubepods/besteffort")
	dirs := map[string]string{
		"class": class, "pod": filepath.Join(class, "podu"),
		"free": filepath.Join(class, "podu", free.ID()), "set": filepath.Join(class, "podu", set.ID()),
	}
	for _, step := range []struct {
		where, write string
		want         map[string]string // effective, as read at once
	}{
		{"class", "0-7", map[string]string{"class": "0-7", "pod": "0-7", "free": "0-7", "set": "0-3"}},
		{"class", "2-5", map[string]string{"class": "2-5", "pod": "2-5", "free": "2-5", "set": "2-3"}},
		{"free", "0-2", map[string]string{"free": "2", "set": "2-3"}},
		{"class", "6-7", map[string]string{"free": "6-7", "set": "6-7"}}, // nothing is left: as above
		{"class", "\n", map[string]string{"class": "0-7", "free": "0-2", "set": "0-3"}},
		{"free", "\n", map[string]string{"free": "0-7"}},
	} {
		succeed(t, os.WriteFile(filepath.Join(dirs[step.where], "cpuset.cpus"), []byte(step.write), 0o600))
		for where, want := range step.want {
			got, err := os.ReadFile(filepath.Join(dirs[where], "cpuset.cpus.effective"))
			if err != nil || strings.TrimSpace(string(got)) != want {
				t.Errorf("after %q was written to %s, %s has %q, %v, want %q", step.write, step.where, where, got, err, want)
			}
		}
		kernel := effectiveCPUs(t, r)
		for _, c := range []string{"free", "set"} {
			if want, given := step.want[c]; given && kernel[c] != want {
				t.Errorf("after %q was written to %s, the kernel has %s on %s, want %s", step.write, step.where, c, kernel[c], want)
			}
		}
	}
	succeed(t, r.Stop(set))
	if _, err := os.ReadFile(filepath.Join(dirs["set"], "cpuset.cpus.effective")); !os.IsNotExist(err) {
		t.Errorf("reading the effective set of a cgroup that is gone: %v, want that it does not exist", err)
	}
}
