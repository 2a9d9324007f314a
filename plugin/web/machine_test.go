package web_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nri-cpuset/plugin/web"
	"nri-cpuset/plugin/web/webtest"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// machines returns the described machines that the project has.
func machines(t *testing.T) []*topology.Machine {
	t.Helper()
	paths, err := filepath.Glob("../../test/conformance/testdata/topologies/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no machines in test/conformance/testdata: %v", err)
	}
	var list []*topology.Machine
	for _, path := range paths {
		m, err := topology.ReadDescription(path)
		if err != nil {
			t.Fatal(err)
		}
		m.Offline = cpuset.New(m.Online.Last()+1, m.Online.Last()+3)
		list = append(list, m)
	}
	return list
}

// What is read back says the same when it is written again.
func TestMachineIsReadBack(t *testing.T) {
	for _, m := range machines(t) {
		t.Run(m.Name, func(t *testing.T) {
			want, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			var back *topology.Machine
			if err := json.Unmarshal(want, &back); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(back)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportIsReadBack(t *testing.T) {
	want := webtest.Server.Report()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got web.Report
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	sameJSON := cmp.Comparer(func(a, b *topology.Machine) bool {
		x, errX := json.Marshal(a)
		y, errY := json.Marshal(b)
		return errX == nil && errY == nil && string(x) == string(y)
	})
	if diff := cmp.Diff(want, got, sameJSON, cmp.Comparer(cpuset.Set.Equal)); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestMachineThatIsNone(t *testing.T) {
	for _, test := range []struct {
		name, text, want string
	}{
		{"no object", `[]`, "cannot unmarshal"},
		{"no CPUs", `{"cpus":""}`, "no CPU is online"},
		{"a CPU in no core", `{"cpus":"0","packages":["0"],"numaNodes":[{"id":0,"cpus":"0"}]}`, "CPU 0 is in no core"},
		{"a CPU in no package", `{"cpus":"0","cores":["0"],"numaNodes":[{"id":0,"cpus":"0"}]}`, "CPU 0 is in no core, in no package"},
		{"a CPU on no node", `{"cpus":"0","cores":["0"],"packages":["0"]}`, "or on no NUMA node"},
		{"a core across packages", `{"cpus":"0-1","cores":["0-1"],"packages":["0","1"],"numaNodes":[{"id":0,"cpus":"0-1"}]}`, "threads of one core are in several packages"},
		{"a CPU that Linux cannot have", `{"cpus":"9000"}`, "9000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var m *topology.Machine
			err := json.Unmarshal([]byte(test.text), &m)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if m != nil && !m.Online.IsEmpty() {
				t.Error("there is a machine all the same")
			}
		})
	}
}

func FuzzMachine(f *testing.F) {
	f.Add([]byte(`{"cpus":"0-3","offline":"4","isolated":"3","packages":["0-3"],"cores":["0-1","2-3"],"lastLevelCaches":["0-3"],` +
		`"numaNodes":[{"id":0,"cpus":"0-3","memoryKiB":1024,"hugePages":{"2048":1},"distances":[10]}],"pciDevices":{}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var m *topology.Machine
		if err := json.Unmarshal(text, &m); err != nil || m == nil {
			return
		}
		r := web.Report{Machine: m, Online: m.Online, Shared: m.Online}
		if got, want := cpusOf(t, page(t, &r).find("g", "class", "cpu")), m.Online.Union(m.Offline); !got.Equal(want) {
			t.Errorf("CPUs %s are drawn, want %s", got, want)
		}
	})
}
