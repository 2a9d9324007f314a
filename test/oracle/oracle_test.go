package oracle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/test/nriruntime"
	"nri-cpuset/topology/cpuset"
)

// stage is a node without a plugin. The tests write the cgroup files themselves, rightly or wrongly, and show the oracle what the kernel makes
// of it.
type stage struct {
	t      *testing.T
	rt     *nriruntime.Runtime
	oracle *Oracle
	dirs   map[string]string // of the containers' cgroups
	ctrs   map[string]*nriruntime.Container
	pods   map[string]*nriruntime.Pod
}

// newStage runs two exclusive containers, a and b, of 2 CPUs each, and a shared one, c.
func newStage(t *testing.T) *stage {
	t.Helper()
	rt, err := nriruntime.Start(nriruntime.Options{CPUs: parse(t, "0-7"), CgroupFiles: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &stage{
		t: t, rt: rt, oracle: New(parse(t, "0")),
		dirs: map[string]string{}, ctrs: map[string]*nriruntime.Container{}, pods: map[string]*nriruntime.Pod{},
	}
	for _, text := range []string{
		`{"name":"a","containers":[{"name":"a","limits":{"cpu":"2","memory":"1Gi"}}]}`,
		`{"name":"b","containers":[{"name":"b","limits":{"cpu":"2","memory":"1Gi"}}]}`,
		`{"name":"c","containers":[{"name":"c"}]}`,
	} {
		var spec kubepod.Pod
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		pod, err := rt.RunPod(spec)
		if err != nil {
			t.Fatal(err)
		}
		s.pods[spec.Name] = pod
		s.again(spec.Name)
	}
	s.set("a", "2-3")
	s.set("b", "4-5")
	s.set("c", "0-1,6-7")
	return s
}

// again creates and starts a pod's container.
func (s *stage) again(name string) {
	s.t.Helper()
	c, err := s.rt.Create(s.pods[name], name)
	if err == nil {
		err = s.rt.Start(c)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.ctrs[name], s.dirs[name] = c, filepath.Join(s.rt.CgroupRoot(), s.rt.Shown(c).GetLinux().GetCgroupsPath())
}

// set gives a container a cpuset and takes its quota away.
func (s *stage) set(name, list string) {
	s.t.Helper()
	s.write(name, "cpuset.cpus", list)
	s.write(name, "cpu.max", "max 100000")
}

func (s *stage) write(name, file, value string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dirs[name], file), []byte(value), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) show() {
	s.t.Helper()
	s.oracle.Changed(s.now())
}

func (s *stage) now() nriruntime.Snapshot {
	s.t.Helper()
	now, err := s.rt.Snapshot()
	if err != nil {
		s.t.Fatal(err)
	}
	return now
}

func parse(t *testing.T, list string) cpuset.Set {
	t.Helper()
	set, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestChanged(t *testing.T) {
	for _, test := range []struct {
		name string
		play func(*stage)
		want []string // parts of the violations, in order
	}{
		{"as it should be", func(s *stage) { s.show() }, nil},
		{"a shared container where an exclusive one is", func(s *stage) {
			s.set("c", "0-2")
			s.show()
		}, []string{"c/c (attempt 0) may run on 2, which a/a (attempt 0) has for itself"}},
		{"a shared container everywhere", func(s *stage) {
			s.write("c", "cpuset.cpus", "\n")
			s.show()
		}, []string{"may run on 2-3", "may run on 4-5"}},
		{"two exclusive ones on one CPU", func(s *stage) {
			s.set("b", "3-4")
			s.show()
		}, []string{"b/b (attempt 0) may run on 3", "a/a (attempt 0) may run on 3"}},
		{"too few CPUs", func(s *stage) {
			s.set("a", "2")
			s.show()
		}, []string{"a/a (attempt 0) runs on 2, and asked for 2 CPUs"}},
		{"a reserved CPU", func(s *stage) {
			s.set("c", "6-7")
			s.set("a", "0,2")
			s.show()
		}, []string{"of which 0 is reserved"}},
		{"a quota", func(s *stage) {
			s.write("a", "cpu.max", "200000 100000")
			s.show()
		}, []string{"a quota of 200000"}},
		{"moved", func(s *stage) {
			s.show()
			s.set("a", "1,6")
			s.set("c", "0,7")
			s.show()
		}, []string{"a/a (attempt 0) was moved from 2-3 to 1,6"}},
		{"moved by a restart", func(s *stage) {
			s.show()
			s.rt.Exit(s.ctrs["a"])
			s.rt.Settle()
			s.set("c", "0,7")
			s.oracle.Away(true) // until it has a cpuset
			s.again("a")
			s.set("a", "1,6")
			s.oracle.Away(false)
			s.show()
		}, []string{"a/a (attempt 1) was moved from 2-3 to 1,6"}},
		{"created while the plugin is away", func(s *stage) {
			s.show()
			s.oracle.Away(true)
			s.rt.Exit(s.ctrs["c"])
			s.again("c")
			s.show()
		}, nil},
		{"moved while the plugin is away", func(s *stage) {
			s.show()
			s.oracle.Away(true)
			s.set("a", "1,6")
			s.set("c", "0,7")
			s.show()
		}, []string{"was moved from 2-3 to 1,6"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t)
			test.play(s)
			got := s.oracle.Violations()
			if len(got) != len(test.want) {
				t.Fatalf("violations = %q, want %d like %q", got, len(test.want), test.want)
			}
			for i := range got {
				if !contains(got, test.want[i]) {
					t.Errorf("violations = %q, want one with %q", got, test.want[i])
				}
			}
		})
	}
}

// What is excused while the plugin is away is not when it has settled; and then it is known, and excused no more.
func TestSettled(t *testing.T) {
	s := newStage(t)
	s.show()
	s.oracle.Away(true)
	s.rt.Exit(s.ctrs["c"])
	s.again("c")
	s.show()
	s.oracle.Away(false)
	if wrong := s.oracle.Settled(s.now()); !contains(wrong, "c/c (attempt 1) may run on 2-3") {
		t.Errorf("Settled() = %q, want the container that was created without the plugin", wrong)
	}
	s.set("c", "0-1,6-7")
	if wrong := s.oracle.Settled(s.now()); len(wrong) > 0 {
		t.Errorf("Settled() = %q after it was put right", wrong)
	}
	s.set("c", "0-2")
	s.show()
	if got := s.oracle.Violations(); !contains(got, "c/c (attempt 1) may run on 2") {
		t.Errorf("violations = %q, want the container that is no longer excused", got)
	}
}

func contains(list []string, part string) bool {
	for _, text := range list {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
