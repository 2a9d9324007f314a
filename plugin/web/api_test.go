package web_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"nri-cpuset/plugin/web"
	"nri-cpuset/plugin/web/webtest"
	"nri-cpuset/topology"
)

// Every field of the report's JSON is in docs/api.md, as code.
func TestEveryFieldIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	r := webtest.Server.Report()
	r.ConfigErr, r.Conflict, r.StateErr, r.Containers[0].Unsettled = "x", "x", "x", "x" // which are left out where they are empty
	r.Machine.Name = "x"
	r.Machine.Nodes[0].Distances = []int{10}
	r.Machine.LeftOut = []topology.LeftOut{{Node: 9, Reason: "x"}}
	r.Machine.PCIDevices = []topology.PCIDevice{{Address: "0000:00:00.0"}}
	fields := fieldsOf(t, &r)
	if len(fields) < 45 {
		t.Fatalf("only %d fields are in the report's JSON", len(fields))
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if !strings.Contains(string(text), "`"+field+"`") && !strings.Contains(string(text), "."+field+"`") {
			t.Errorf("docs/api.md says nothing of %q", field)
		}
	}
}

// fieldsOf returns the names of all fields in the JSON of a report. What is named by its content, sizes and addresses, is left out.
func fieldsOf(t *testing.T, r *web.Report) map[string]bool {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	collect(value, fields)
	for field := range fields {
		if field[0] >= '0' && field[0] <= '9' {
			delete(fields, field)
		}
	}
	return fields
}

func collect(value any, fields map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			fields[name] = true
			collect(inner, fields)
		}
	case []any:
		for _, inner := range value {
			collect(inner, fields)
		}
	}
}
