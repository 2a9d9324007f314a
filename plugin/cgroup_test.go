package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"nri-cpuset/topology/cpuset"
)

func TestCgroupDir(t *testing.T) {
	for _, test := range []struct {
		name, path, want string
		wantErr          bool
	}{
		{"cgroupfs", "/kubepods/burstable/pod1234/abc", "kubepods/burstable/pod1234/abc", false},
		{"cgroupfs, Guaranteed", "/kubepods/pod1234/abc", "kubepods/pod1234/abc", false},
		{"CRI-O with cgroupfs", "/kubepods/pod1234/crio-abc", "kubepods/pod1234/crio-abc", false},
		{
			"systemd", "kubepods-burstable-pod1234.slice:cri-containerd:abc",
			"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234.slice/cri-containerd-abc.scope", false,
		},
		{
			"CRI-O with systemd", "kubepods-pod12_34.slice:crio:abc",
			"kubepods.slice/kubepods-pod12_34.slice/crio-abc.scope", false,
		},
		{"systemd's root slice", "-.slice:cri-containerd:abc", "cri-containerd-abc.scope", false},
		{"none", "", "", true},
		{"a path that would leave the root", "/../../etc", "etc", false},
		{"a slice that would leave the root", "a.slice:../../x:y", "a.slice/../../x-y.scope", true},
		{"neither form", "a:b", "", true},
		{"no slice", "kubepods:cri-containerd:abc", "", true},
		{"a zero byte", "/kubepods/\x00", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := cgroupDir(test.path)
			if (err != nil) != test.wantErr {
				t.Fatalf("cgroupDir(%q) = %q, %v; want an error: %t", test.path, got, err, test.wantErr)
			}
			if err == nil && got != test.want {
				t.Errorf("cgroupDir(%q) = %q, want %q", test.path, got, test.want)
			}
		})
	}
}

// tree makes a directory of files and returns its path.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func openTree(t *testing.T, files map[string]string) (*cgroups, string) {
	t.Helper()
	root := tree(t, files)
	c, err := openCgroups(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, root
}

func TestSetCPUsReadsBack(t *testing.T) {
	c, root := openTree(t, map[string]string{
		"cgroup.controllers":               "cpuset cpu\n",
		"kubepods/x/cpuset.cpus":           "0-7\n",
		"kubepods/x/cpuset.cpus.effective": "0-3\n",
	})
	// Plain files: the kernel that would change cpuset.cpus.effective is not there, which is what a parent in the way looks like.
	if err := c.setCPUs("kubepods/x", cpuset.MustParse("4-5"), cpuset.MustParse("4-5")); err == nil {
		t.Error("setCPUs reports done, and the effective set is another")
	}
	got, err := os.ReadFile(filepath.Join(root, "kubepods/x/cpuset.cpus"))
	if err != nil || string(got) != "4-5" {
		t.Errorf("cpuset.cpus = %q, %v; want 4-5", got, err)
	}
	if err := c.setCPUs("kubepods/x", cpuset.MustParse("0-3"), cpuset.MustParse("0-3")); err != nil {
		t.Errorf("setCPUs of what the kernel has: %v", err)
	}
	if err := c.setCPUs("kubepods/gone", cpuset.MustParse("0-3"), cpuset.MustParse("0-3")); !errors.Is(err, errNoCgroup) {
		t.Errorf("setCPUs of a cgroup that is not there: %v, want %v", err, errNoCgroup)
	}
}

func TestCgroupsNeverLeaveTheRoot(t *testing.T) {
	c, root := openTree(t, map[string]string{"cgroup.controllers": "cpuset cpu\n", "kubepods/x/cpuset.cpus": "0"})
	outside := tree(t, map[string]string{"cpuset.cpus": "0-7", "cpuset.cpus.effective": "0-7"})
	if err := os.Symlink(outside, filepath.Join(root, "kubepods", "link")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"kubepods/link", "../" + filepath.Base(outside), outside} {
		if err := c.setCPUs(dir, cpuset.MustParse("1"), cpuset.MustParse("1")); err == nil {
			t.Errorf("setCPUs(%q) wrote outside of the root", dir)
		}
		if _, err := c.cpus(dir); err == nil {
			t.Errorf("cpus(%q) read outside of the root", dir)
		}
	}
	if got, err := os.ReadFile(filepath.Join(outside, "cpuset.cpus")); err != nil || string(got) != "0-7" {
		t.Errorf("the file outside is %q, %v; want it untouched", got, err)
	}
}

func TestQuota(t *testing.T) {
	v1 := map[string]string{
		"cpuset/x/cpuset.cpus": "0", "cpu/x/cpu.cfs_quota_us": "200000\n", "cpu/x/cpu.cfs_period_us": "100000\n",
	}
	v2 := map[string]string{"cgroup.controllers": "cpuset cpu\n", "x/cpu.max": "200000 100000\n"}
	for _, test := range []struct {
		name  string
		files map[string]string
		file  string
		want  string
	}{
		{"v1", v1, "cpu/x/cpu.cfs_quota_us", "-1"},
		{"v2", v2, "x/cpu.max", "max"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, root := openTree(t, test.files)
			quota, period, err := c.quota("x")
			if err != nil || quota != 200000 || period != 100000 {
				t.Errorf("quota = %d, %d, %v; want 200000, 100000", quota, period, err)
			}
			if err := c.setQuota("x", -1, 0); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(root, test.file)); err != nil || string(got) != test.want {
				t.Errorf("%s = %q, %v; want %q", test.file, got, err, test.want)
			}
			if quota, _, err := c.quota("x"); test.name == "v1" && (err != nil || quota != -1) {
				t.Errorf("lifted quota = %d, %v; want -1", quota, err)
			}
		})
	}
}

func TestParseCPUMax(t *testing.T) {
	for _, test := range []struct {
		text    string
		quota   int64
		period  uint64
		wantErr bool
	}{
		{"max 100000\n", -1, 100000, false},
		{"150000 100000\n", 150000, 100000, false},
		{"", 0, 0, true},
		{"max", 0, 0, true},
		{"-5 100000", 0, 0, true},
		{"1 x", 0, 0, true},
	} {
		quota, period, err := parseCPUMax(test.text)
		if (err != nil) != test.wantErr {
			t.Errorf("parseCPUMax(%q) = %v; want an error: %t", test.text, err, test.wantErr)
		} else if err == nil && (quota != test.quota || period != test.period) {
			t.Errorf("parseCPUMax(%q) = %d, %d; want %d, %d", test.text, quota, period, test.quota, test.period)
		}
	}
}

func TestEmpty(t *testing.T) {
	v2, _ := openTree(t, map[string]string{
		"cgroup.controllers":  "cpuset cpu\n",
		"ended/cgroup.events": "populated 0\nfrozen 0\n", "runs/cgroup.events": "populated 1\nfrozen 0\n",
	})
	v1, _ := openTree(t, map[string]string{
		"cpuset/x/cpuset.cpus": "0", "cpu/x/cpu.cfs_quota_us": "-1", "pids/ended/pids.current": "0\n", "pids/runs/pids.current": "10\n",
	})
	for name, c := range map[string]*cgroups{"v1": v1, "v2": v2} {
		for dir, want := range map[string]bool{"ended": true, "runs": false, "not there": false} {
			if got := c.empty(dir); got != want {
				t.Errorf("%s: empty(%q) = %t, want %t", name, dir, got, want)
			}
		}
	}
}
