package kubelet

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nri-cpuset/plugin/simulate"
)

const conformance = "../conformance/testdata"

// TestAnswer holds this harness to the answers in test/conformance, which were recorded apart from it: what the managers say here must be what
// they said there, or comparing with them would prove nothing.
func TestAnswer(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(conformance, "scenarios", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios under %s: %v", conformance, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			m, err := ReadMachine(filepath.Join(conformance, "topologies", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			scenarios, err := simulate.ParseScenarios(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range scenarios {
				got, err := Answer(&want, m, t.TempDir)
				if err != nil {
					t.Errorf("%s: %v", want.Name, err)
					continue
				}
				if diff := cmp.Diff(line(t, &want), line(t, &got.Scenario)); diff != "" {
					t.Errorf("%s: recorded (-), answered here (+):\n%s", want.Name, diff)
				}
			}
		})
	}
}

// line is a scenario as JSON, for people and for comparing.
func line(t *testing.T, s *simulate.Scenario) string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(text))
}
