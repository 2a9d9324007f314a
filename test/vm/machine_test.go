package vm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"nri-cpuset/test/e2e/cgroup"
)

// TestMachine makes sure that this is the machine that the other tests are about, and that nri-cpuset sees it so.
func TestMachine(t *testing.T) {
	host, err := cgroup.Find()
	if err != nil {
		t.Fatal(err)
	}
	if host.String() != "cgroup v2" {
		t.Fatalf("this machine has %s, want cgroup v2", host)
	}

	type numaNode struct {
		ID        int
		CPUs      string
		Distances []int
	}
	type machine struct {
		CPUs, Offline    string
		Packages, Cores  []string
		LastLevelCaches  []string
		NUMANodes        []numaNode
		LeftOutNUMANodes []any
	}
	want := machine{
		CPUs:            allCPUs,
		Packages:        []string{"0-7", "8-15"},
		Cores:           []string{"0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"},
		LastLevelCaches: []string{"0-7", "8-15"},
		NUMANodes: []numaNode{
			{0, "0-3", []int{10, 12, 20, 20}},
			{1, "4-7", []int{12, 10, 20, 20}},
			{2, "8-11", []int{20, 20, 10, 12}},
			{3, "12-15", []int{20, 20, 12, 10}},
		},
	}
	text, err := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("E2E_BIN"), "nri-cpuset"), "topology", "--output", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got machine
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("nri-cpuset sees\n%+v, want\n%+v", got, want)
	}
}
