// Package simulate shows pods to the plugin without a runtime: on a machine that is described or read, one pod after the other, through the
// very handlers that a runtime calls. What it says is what would happen.
package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"

	"nri-cpuset/plugin/kubepod"
)

// Scenario is a machine, a configuration and the pods that come and go, one JSON line.
type Scenario struct {
	Name     string          `json:"name"`
	Topology string          `json:"topology"` // the name of a described machine
	Config   json.RawMessage `json:"config"`   // the settings of a configuration file
	Steps    []Step          `json:"steps"`
}

// Step adds a pod or removes one, and may say what is expected of that.
type Step struct {
	Add    *kubepod.Pod `json:"add,omitempty"`
	Remove string       `json:"remove,omitempty"`
	Expect *Outcome     `json:"expect,omitempty"`
}

// Outcome is what a step has led to. A step that removes has only Shared.
type Outcome struct {
	Admitted   *bool                `json:"admitted,omitempty"`
	Reason     string               `json:"reason,omitempty"` // the name of the refusal
	Containers map[string]Resources `json:"containers,omitempty"`
	Shared     string               `json:"shared"`

	message string            // the refusal's text
	why     map[string]string // the decisions' reasons
}

// Resources are the CPUs and NUMA nodes of one container: its exclusive CPUs, empty in the shared pool, and its mems, empty when unpinned.
type Resources struct {
	CPUs string `json:"cpus"`
	Mems string `json:"mems"`
}

// Result is a scenario's outcomes, as `simulate --output json` prints them.
type Result struct {
	Name  string    `json:"name"`
	Steps []Outcome `json:"steps"`
}

// ParseScenarios reads scenarios, one a line. Empty lines are passed over. Errors name the line.
func ParseScenarios(text []byte) ([]Scenario, error) {
	var scenarios []Scenario
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var s Scenario
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&s); err != nil {
			return nil, fmt.Errorf("line %d is no scenario: %w", number, err)
		}
		for i, step := range s.Steps {
			if (step.Add == nil) == (step.Remove == "") {
				return nil, fmt.Errorf("line %d, step %d: it must either add a pod or remove one", number, i+1)
			}
		}
		scenarios = append(scenarios, s)
	}
	return scenarios, nil
}
