package plugin

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"nri-cpuset/topology/cpuset"
)

// sysfs is a machine with n CPUs, of which those in online are.
func sysfs(t testing.TB, n int, online string) string {
	t.Helper()
	files := map[string]string{
		"devices/system/cpu/online":   online + "\n",
		"devices/system/cpu/present":  "0-" + itoa(n-1) + "\n",
		"devices/system/cpu/possible": "0-" + itoa(n-1) + "\n",
	}
	for cpu := range n {
		dir := "devices/system/cpu/cpu" + itoa(cpu) + "/topology/"
		files[dir+"core_id"] = itoa(cpu) + "\n"
		files[dir+"physical_package_id"] = "0\n"
		files[dir+"thread_siblings_list"] = itoa(cpu) + "\n"
		files[dir+"core_siblings_list"] = online + "\n"
	}
	return tree(t, files)
}

func itoa(n int) string { return string(rune('0' + n)) }

// fixture is a plugin on files that a test can change.
type fixture struct {
	*Plugin
	options Options
}

func open4(t *testing.T, config string, change func(*Options)) *fixture {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	o := Options{
		ConfigFile: filepath.Join(t.TempDir(), "config.yaml"), NodeName: "n", Sysfs: sysfs(t, 4, "0-3"), StateDir: t.TempDir(),
		Log: log, Now: time.Now,
	}
	if change != nil {
		change(&o)
	}
	writeFile(t, o.ConfigFile, config)
	p, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{p, o}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run takes a container of a pod of its own through its creation and start.
func (f *fixture) run(t *testing.T, id string, shares uint64, quota int64, parent string) *api.ContainerAdjustment {
	t.Helper()
	pod, ctr := podOf(id, parent), containerIn(id, shares, quota, parent)
	adjust, _, err := f.CreateContainer(t.Context(), pod, ctr)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{f.PostCreateContainer(t.Context(), pod, ctr), f.StartContainer(t.Context(), pod, ctr), f.PostStartContainer(t.Context(), pod, ctr)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return adjust
}

func podOf(id, parent string) *api.PodSandbox {
	return &api.PodSandbox{
		Id: "sandbox-" + id, Uid: "uid-" + id, Name: id, Namespace: "default", Linux: &api.LinuxPodSandbox{CgroupParent: parent + "/pod" + id},
	}
}

func containerIn(id string, shares uint64, quota int64, parent string) *api.Container {
	return &api.Container{
		Id: id, Name: "c", PodSandboxId: "sandbox-" + id,
		Linux: &api.LinuxContainer{Resources: resources(shares, quota, 1<<20), CgroupsPath: parent + "/pod" + id + "/" + id},
	}
}

func (f *fixture) wants(t *testing.T, id, cpus string) {
	t.Helper()
	if w, ok := f.Node().Wanted(id); !ok || !w.CPUs.Equal(cpuset.MustParse(cpus)) {
		t.Errorf("%s should have %s (%t), want %s", id, w.CPUs, ok, cpus)
	}
}

const (
	static1 = "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"
	none    = "cpuManagerPolicy: none\n"
)

func TestReload(t *testing.T) {
	f := open4(t, none, nil)
	if adjust := f.run(t, "a", 2048, 200000, "/kubepods"); adjust != nil {
		t.Errorf("policy none adjusts a container: %v", adjust)
	}
	f.run(t, "s", 512, 50000, "/kubepods/burstable")
	f.reload(t.Context())
	if f.Report().ConfigErr != "" {
		t.Errorf("nothing has changed, and the report says %q", f.Report().ConfigErr)
	}

	writeFile(t, f.options.ConfigFile, static1)
	f.reload(t.Context())
	f.wants(t, "a", "1-2")
	f.wants(t, "s", "0,3")

	writeFile(t, f.options.ConfigFile, static1+"cpuManagerPolicyOption: {}\n")
	f.reload(t.Context())
	f.wants(t, "a", "1-2")
	if got := f.Report().ConfigErr; !strings.Contains(got, "cpuManagerPolicyOption") || !strings.Contains(got, "config.yaml:3:") {
		t.Errorf("the report says %q of a misspelt setting, want its name and line", got)
	}

	writeFile(t, f.options.ConfigFile, "cpuManagerPolicy: static\nreservedSystemCPUs: \"0,7\"\n")
	f.reload(t.Context())
	f.wants(t, "a", "1-2")
	if got := f.Report().ConfigErr; !strings.Contains(got, "7") {
		t.Errorf("the report says %q of a reserved CPU that is not there", got)
	}

	writeFile(t, f.options.ConfigFile, "cpuManagerPolicy: static\nreservedSystemCPUs: \"1\"\n")
	f.reload(t.Context())
	f.wants(t, "a", "0,2")
	f.wants(t, "s", "1,3")
	if got := f.Report().ConfigErr; got != "" {
		t.Errorf("the configuration is good again, and the report says %q", got)
	}

	writeFile(t, f.options.ConfigFile, none)
	f.reload(t.Context())
	f.wants(t, "a", "0-3")
	f.wants(t, "s", "0-3")
}

func TestLastGoodConfigurationOutlivesAStart(t *testing.T) {
	f := open4(t, static1, nil)
	f.run(t, "a", 2048, 200000, "/kubepods")
	writeFile(t, f.options.ConfigFile, "no: {such: setting}\n")
	again, err := Open(f.options)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Report(); got.Policy != "static" || got.ConfigErr == "" {
		t.Errorf("after a start with a wrong configuration: policy %s, error %q; want static, and the error", got.Policy, got.ConfigErr)
	}
	(&fixture{again, f.options}).wants(t, "a", "1-2")

	fresh := f.options
	fresh.StateDir = t.TempDir()
	if _, err := Open(fresh); err == nil {
		t.Error("a first start with a wrong configuration succeeds")
	}
}

func TestCPUsComeAndGo(t *testing.T) {
	f := open4(t, static1, nil)
	f.run(t, "a", 2048, 200000, "/kubepods")
	f.run(t, "s", 512, 50000, "/kubepods/burstable")
	online := filepath.Join(f.options.Sysfs, "devices/system/cpu/online")

	writeFile(t, online, "0-1,3\n")
	f.lookAtOnline(t.Context())
	f.wants(t, "a", "1,3")
	f.wants(t, "s", "0")

	writeFile(t, online, "0-3\n")
	f.lookAtOnline(t.Context())
	f.wants(t, "a", "1,3")
	f.wants(t, "s", "0,2")

	writeFile(t, online, "0-1\n") // nothing is left to replace CPU 3
	f.lookAtOnline(t.Context())
	f.wants(t, "a", "1")
	if c, _ := f.Node().Container("a"); c.Unsettled == "" {
		t.Error("it is not said that the container has less than it asked for")
	}

	writeFile(t, online, "0-3\n")
	f.lookAtOnline(t.Context())
	if w, _ := f.Node().Wanted("a"); w.CPUs.Len() != 2 || !w.CPUs.Contains(1) {
		t.Errorf("when CPUs are there again it has %s, want two, 1 among them", w.CPUs)
	}
}

func TestKubeletManagers(t *testing.T) {
	for _, test := range []struct {
		name     string
		files    map[string]string
		conflict bool
	}{
		{"no kubelet", nil, false},
		{"none", map[string]string{"cpu_manager_state": `{"policyName":"none","defaultCpuSet":"","checksum":1}`}, false},
		{"static", map[string]string{"cpu_manager_state": `{"policyName":"static","defaultCpuSet":"0-3","checksum":1}`}, true},
		{"no JSON", map[string]string{"cpu_manager_state": `{`}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := open4(t, static1, func(o *Options) { o.KubeletRoot = tree(t, test.files) })
			f.synchronized.Store(true)
			adjust := f.run(t, "a", 2048, 200000, "/kubepods")
			if pinned := adjust != nil; pinned == test.conflict {
				t.Errorf("pinned: %t, though the kubelet pins: %t", pinned, test.conflict)
			}
			if got := f.notReady(); (got != "") != test.conflict {
				t.Errorf("not ready: %q, want a reason: %t", got, test.conflict)
			}
		})
	}
}

func TestKubeletManagersAreSwitchedOff(t *testing.T) {
	root := tree(t, map[string]string{"cpu_manager_state": `{"policyName":"static"}`})
	f := open4(t, static1, func(o *Options) { o.KubeletRoot = root })
	f.run(t, "a", 2048, 200000, "/kubepods")
	if _, ok := f.Node().Wanted("a"); ok {
		t.Error("a container is pinned beside the kubelet's static policy")
	}
	writeFile(t, filepath.Join(root, "cpu_manager_state"), `{"policyName":"none"}`)
	f.reload(t.Context())
	f.wants(t, "a", "1-2")
}

func TestPodQuota(t *testing.T) {
	cgroups := tree(t, map[string]string{
		"cgroup.controllers":                    "cpuset cpu\n",
		"kubepods/poda/cpu.max":                 "200000 100000",
		"kubepods/poda/a/cpu.max":               "200000 100000",
		"kubepods/poda/a/cpuset.cpus":           "1-2",
		"kubepods/poda/a/cpuset.cpus.effective": "1-2",
	})
	f := open4(t, static1, func(o *Options) { o.CgroupRoot = cgroups })
	f.run(t, "a", 2048, 200000, "/kubepods")
	read := func() string {
		text, err := os.ReadFile(filepath.Join(cgroups, "kubepods/poda/cpu.max"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := read(); got != "max" {
		t.Errorf("an exclusive pod's cpu.max is %q, want max", got)
	}
	writeFile(t, filepath.Join(cgroups, "kubepods/poda/a/cpuset.cpus.effective"), "0-3") // what the kernel will make of it
	writeFile(t, f.options.ConfigFile, none)
	writeFile(t, filepath.Join(cgroups, "kubepods/poda/cpu.max"), "max 100000") // as the kernel shows it
	f.reload(t.Context())
	if got := read(); got != "200000 100000" {
		t.Errorf("after the switch to none cpu.max is %q, want what the kubelet had set", got)
	}
}

// A container for which there was no room gets its CPUs when others leave.
func TestRoomThatComesLater(t *testing.T) {
	f := open4(t, none, nil)
	f.run(t, "a", 2048, 200000, "/kubepods")
	f.run(t, "b", 2048, 200000, "/kubepods")
	writeFile(t, f.options.ConfigFile, static1)
	f.reload(t.Context())
	f.wants(t, "a", "1-2")
	if c, _ := f.Node().Container("b"); c.Unsettled == "" || c.Exclusive() {
		t.Fatalf("b has %s, and why not what it asks for: %q", c.Placement.CPUs, c.Unsettled)
	}
	if err := f.StopPodSandbox(t.Context(), podOf("a", "/kubepods")); err != nil {
		t.Fatal(err)
	}
	f.wants(t, "b", "1-2")
}
