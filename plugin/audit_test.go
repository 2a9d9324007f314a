package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"nri-cpuset/state"
)

// openOnV2 is a plugin on a cgroup v2 tree in which a is an exclusive container on 1-2, and s a shared one on 0,3.
func openOnV2(t *testing.T) (f *fixture, cgroups string) {
	t.Helper()
	cgroups = tree(t, map[string]string{
		"cgroup.controllers":                  "cpuset cpu\n",
		"kubepods/poda/cpu.max":               "max 100000",
		"kubepods/poda/a/cpu.max":             "max 100000",
		"kubepods/poda/a/cpuset.cpus":         "1-2",
		"kubepods/burstable/pods/s/cpu.max":   "50000 100000",
		"kubepods/burstable/pods/cpu.max":     "50000 100000",
		"kubepods/burstable/pods/cpuset.cpus": "0-3",
		// s as it was made, before a came
		"kubepods/burstable/pods/s/cpuset.cpus": "0-3",
		"kubepods/burstable/cpuset.cpus":        "",
	})
	// One file under both names: the kernel makes of a set what was written.
	for _, dir := range []string{"kubepods/poda/a", "kubepods/burstable/pods/s", "kubepods/burstable"} {
		file := filepath.Join(cgroups, dir, "cpuset.cpus")
		if err := os.Link(file, file+".effective"); err != nil {
			t.Fatal(err)
		}
	}
	f = open4(t, static1, func(o *Options) { o.CgroupRoot = cgroups })
	f.run(t, "s", 512, 50000, "/kubepods/burstable")
	f.run(t, "a", 2048, 200000, "/kubepods")
	f.growNow(t.Context()) // what runBackground would do
	return f, cgroups
}

func readCPUs(t *testing.T, cgroups, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(cgroups, dir, "cpuset.cpus"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAuditRepairsADrift: somebody writes a cgroup behind our back, and the audit finds it, puts it back, and counts it.
func TestAuditRepairsADrift(t *testing.T) {
	for _, test := range []struct{ name, dir, has, want string }{
		{"an exclusive container is on shared CPUs", "kubepods/poda/a", "0-3", "1-2"},
		{"an exclusive container is elsewhere", "kubepods/poda/a", "3", "1-2"},
		{"a shared container is on exclusive CPUs", "kubepods/burstable/pods/s", "0-3", "0,3"},
		{"nothing has drifted", "kubepods/poda/a", "1-2", "1-2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, cgroups := openOnV2(t)
			before := f.drifts(t)
			writeFile(t, filepath.Join(cgroups, test.dir, "cpuset.cpus"), test.has)
			f.audit(t.Context())
			if got := readCPUs(t, cgroups, test.dir); got != test.want {
				t.Errorf("after the audit it has %q, want %q", got, test.want)
			}
			counted := f.drifts(t) - before
			if want := map[bool]float64{true: 1}[test.has != test.want]; counted != want {
				t.Errorf("%v drifts are counted, want %v", counted, want)
			}
		})
	}
}

// drifts adds up what the metric says.
func (f *fixture) drifts(t *testing.T) float64 {
	t.Helper()
	families, err := f.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() == "nri_cpuset_drift_total" {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// TestAuditFindsWhoIsGone: nobody tells that a container, or its pod, has ended. Its cgroup is not there at two audits in a row.
func TestAuditFindsWhoIsGone(t *testing.T) {
	for _, test := range []struct {
		name, gone string
		known      bool   // after the second audit
		pool       string // after it
	}{
		{"the pod", "kubepods/poda", false, "0-3"},
		{"the container, whose pod keeps its CPUs", "kubepods/poda/a", true, "0,3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, cgroups := openOnV2(t)
			if err := os.RemoveAll(filepath.Join(cgroups, test.gone)); err != nil {
				t.Fatal(err)
			}
			f.audit(t.Context())
			if c, known := f.Node().Container("a"); !known || c.Phase != state.Running {
				t.Errorf("after one audit: %+v, %t; it might be a moment of the runtime's", c, known)
			}
			f.audit(t.Context())
			if c, known := f.Node().Container("a"); known != test.known || known && c.Phase != state.Exited {
				t.Errorf("after two audits: %+v, %t; want it known: %t, and ended", c, known, test.known)
			}
			f.growNow(t.Context())
			f.wants(t, "s", test.pool)
			if got := readCPUs(t, cgroups, "kubepods/burstable/pods/s"); got != test.pool {
				t.Errorf("the shared container has %q, want %q", got, test.pool)
			}
		})
	}
}
