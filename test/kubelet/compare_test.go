package kubelet

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nri-cpuset/plugin/simulate"
	"nri-cpuset/topology"
)

var (
	seed      = flag.Uint64("seed", 1, "of the random machines and scenarios")
	machines  = flag.Int("machines", 20, "random machines to compare on")
	scenarios = flag.Int("scenarios", 20, "random scenarios on each machine")
	out       = flag.String("out", "", "a directory for the machines and scenarios on which the answers differ, for simulate --verify")
)

// TestCompare makes up machines, settings and pods, and wants the kubelet's answer to every step from the plugin's handlers, exactly.
func TestCompare(t *testing.T) {
	var total tally
	for i := range *machines {
		random := rand.New(rand.NewPCG(*seed, uint64(i)))
		s := randomShape(random)
		m := s.machine(random)
		m.Name += fmt.Sprintf("-%d-%d", *seed, i)
		t.Run(m.Name, func(t *testing.T) {
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := topology.ParseDescription(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			for k := range *scenarios {
				name := fmt.Sprintf("%s-%03d", m.Name, k)
				compare(t, name, m, ours, random, &total)
			}
		})
	}
	t.Logf("%d scenarios, %d steps: %d pods admitted, %d refused; %d settings that the kubelet does not start with; %d scenarios in which the "+
		"kubelet does not give the same answer twice, %d in which it differs after its memory manager has lost count", total.scenarios, total.steps, total.admitted, total.refused, total.invalid, total.unstable, total.memoryWrong)
}

type tally struct{ scenarios, steps, admitted, refused, invalid, unstable, memoryWrong int }

func compare(t *testing.T, name string, m *Machine, ours *topology.Machine, random *rand.Rand, total *tally) {
	t.Helper()
	s, err := randomScenario(name, m, random)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	answered, err := Answer(s, m, t.TempDir)
	if err != nil {
		total.invalid++
		if _, ourErr := simulate.Run(context.Background(), s, ours, nil); ourErr == nil {
			t.Errorf("%s: the kubelet does not start (%v), we do\n%s", name, err, s.Config)
		}
		return
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Logf("%s: the kubelet took %v", name, took)
	}
	if len(answered.Steps) == 0 {
		return
	}
	total.scenarios++
	total.count(&answered.Scenario)
	result, err := simulate.Run(context.Background(), &answered.Scenario, ours, nil)
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, line(t, &answered.Scenario))
		return
	}
	for i := range answered.Steps {
		differences := result.Steps[i].Differences(answered.Steps[i].Expect)
		if len(differences) == 0 {
			continue
		}
		if again, err := Answer(s, m, t.TempDir); err != nil || line(t, &again.Scenario) != line(t, &answered.Scenario) {
			total.unstable++
			return
		}
		if i >= answered.MemoryWrong {
			total.memoryWrong++
			return
		}
		t.Errorf("%s, step %d: %s", name, i+1, strings.Join(differences, "; "))
		save(t, m, &answered.Scenario)
		return
	}
}

func (total *tally) count(s *simulate.Scenario) {
	for _, step := range s.Steps {
		total.steps++
		switch {
		case step.Add == nil:
		case *step.Expect.Admitted:
			total.admitted++
		default:
			total.refused++
		}
	}
}

// save keeps a scenario and its machine where simulate --verify finds them.
func save(t *testing.T, m *Machine, s *simulate.Scenario) {
	t.Helper()
	if *out == "" {
		return
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*out, m.Name+".json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(*out, "differ.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, line(t, s)); err != nil {
		t.Fatal(err)
	}
}
