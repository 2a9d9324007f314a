package simulate

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/topology"
)

const testdata = "../../test/conformance/testdata"

// TestConformance replays the recorded scenarios of the kubelet's managers through the plugin's handlers: pod, NRI container, plugin, books,
// allocator. Every step must come out as recorded.
func TestConformance(t *testing.T) {
	files, err := filepath.Glob(testdata + "/scenarios/*.jsonl")
	if err != nil || len(files) != 11 {
		t.Fatalf("%d files of scenarios, %v; want 11", len(files), err)
	}
	total := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			machine, err := topology.ReadDescription(filepath.Join(testdata, "topologies", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			scenarios, err := ParseScenarios(text)
			if err != nil {
				t.Fatal(err)
			}
			for i := range scenarios {
				s := &scenarios[i]
				result, err := Run(t.Context(), s, machine, nil)
				if err != nil {
					t.Fatal(err)
				}
				for step := range result.Steps {
					for _, line := range result.Steps[step].Differences(s.Steps[step].Expect) {
						t.Errorf("%s, step %d: %s", s.Name, step+1, line)
					}
				}
			}
			total += len(scenarios)
		})
	}
	if total != 660 {
		t.Errorf("%d scenarios were replayed, want 660", total)
	}
}

func desktop(t *testing.T) *topology.Machine {
	t.Helper()
	m, err := topology.ReadDescription(testdata + "/topologies/desktop-1s-4c-8t.json")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestText(t *testing.T) {
	scenarios, err := ParseScenarios([]byte(`{"name":"a day","topology":"desktop-1s-4c-8t","config":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0"},` +
		`"steps":[{"add":{"name":"db","containers":[{"name":"pg","limits":{"cpu":"2","memory":"1Gi"}}]}},` +
		`{"add":{"name":"web","containers":[{"name":"nginx","requests":{"cpu":"250m"}}]}},` +
		`{"add":{"name":"huge","containers":[{"name":"x","limits":{"cpu":"7","memory":"1Gi"}}]}},{"remove":"db"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	m := desktop(t)
	text := NewText(&out, m, false)
	text.Scenario(&scenarios[0])
	if _, err := Run(t.Context(), &scenarios[0], m, func(step int, sim *Simulation, o *Outcome) {
		text.Step(step+1, &scenarios[0].Steps[step], sim, o)
	}); err != nil {
		t.Fatal(err)
	}
	if err := text.Err(); err != nil {
		t.Fatal(err)
	}
	rest := out.String()
	for _, want := range []string{
		"a day\n", "1. Pod db comes: Guaranteed.\n", "pg asks for 2 cpu, 1Gi memory: CPUs 1,5 (packed", "shared pool: 0,2-4,6-7\n", "A  db/pg", "1,5\n",
		"2. Pod web comes: Burstable.\n", "nginx asks for 250m cpu without a limit: shared pool",
		"3. Pod huge comes: Guaranteed.\n", "REFUSED, UnexpectedAdmissionError:", "7 CPUs asked, 5 free",
		"4. Pod db ends.\n", "shared pool: 0-7\n",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("there is no %q where it should be, in:\n%s", want, out.String())
		}
		rest = after
	}
}

// An init container ends before the next one is created, and what it had goes to that one; a sidecar keeps its own.
func TestInitContainers(t *testing.T) {
	pod := &kubepod.Pod{Name: "p"}
	scenarios, err := ParseScenarios([]byte(`{"name":"s","config":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0"},"steps":[{"add":{"name":"p",` +
		`"initContainers":[{"name":"i","limits":{"cpu":"4","memory":"1Gi"}},{"name":"s","restartPolicy":"Always","limits":{"cpu":"1","memory":"1Gi"}}],` +
		`"containers":[{"name":"a","limits":{"cpu":"2","memory":"1Gi"}}]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	result, err := Run(t.Context(), &scenarios[0], desktop(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := result.Steps[0].Containers
	if got["i"].CPUs != "1-2,5-6" || got["s"].CPUs != "1" || got["a"].CPUs != "2,6" {
		t.Errorf("%s: got %v, want the init container's CPUs 1-2,5-6 to go to sidecar and app", pod.Name, got)
	}
	if shared := result.Steps[0].Shared; shared != "0,3-4,7" {
		t.Errorf("shared pool %s, want 0,3-4,7: 5 is held for the pod, whose request the init container's is", shared)
	}
}

func TestParseScenariosErrors(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"no JSON", "{", "line 1"},
		{"unknown field", "\n{\"title\":\"x\"}", "line 2"},
		{"a step that does nothing", `{"name":"x","steps":[{}]}`, "step 1"},
		{"a step that does both", `{"name":"x","steps":[{"add":{"name":"p"},"remove":"p"}]}`, "step 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := ParseScenarios([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that names %s", err, test.want)
			}
		})
	}
}

func TestDifferences(t *testing.T) {
	yes, no := true, false
	got := Outcome{Admitted: &yes, Containers: map[string]Resources{"c": {CPUs: "1", Mems: "0"}}, Shared: "0,2-3"}
	if lines := got.Differences(&got); len(lines) != 0 {
		t.Errorf("it differs from itself: %q", lines)
	}
	want := Outcome{Admitted: &no, Reason: "SMTAlignmentError", Containers: map[string]Resources{"c": {CPUs: "2", Mems: "1"}}, Shared: "0-3"}
	if lines := got.Differences(&want); len(lines) != 5 {
		t.Errorf("%d differences, want 5: %q", len(lines), lines)
	}
}
