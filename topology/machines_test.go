package topology_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// Every machine of the conformance scenarios is there twice: described, and as a sysfs tree. Both have to be the same machine.
func TestReadEqualsDescription(t *testing.T) {
	archives, err := filepath.Glob(conformanceFolder + "/sysfs/*.tar.gz")
	if err != nil || len(archives) != 11 {
		t.Fatalf("found %d trees (%v), want 11", len(archives), err)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := topology.ReadDescription(filepath.Join(conformanceFolder, "topologies", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := topology.Read(unpack(t, archive))
			if err != nil {
				t.Fatal(err)
			}
			got.Name = want.Name // a kernel has no name for its machine
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(topology.Machine{})); diff != "" {
				t.Errorf("the tree differs from the description (-description +tree):\n%s", diff)
			}
		})
	}
}

// expectedMachine is what hwloc 2.9 finds on a machine.
type expectedMachine struct {
	CPUs            cpuset.Set            `json:"cpus"`
	Packages        []cpuset.Set          `json:"packages"`
	Cores           []cpuset.Set          `json:"cores"`
	LastLevelCaches []cpuset.Set          `json:"lastLevelCaches"`
	NUMANodes       []expectedNode        `json:"numaNodes"`
	PCI             map[string]cpuset.Set `json:"pci"`
}

type expectedNode struct {
	ID        int               `json:"id"`
	CPUs      cpuset.Set        `json:"cpus"`
	MemoryKiB uint64            `json:"memoryKiB"`
	HugePages map[string]uint64 `json:"hugePages"`
}

func TestReadAsHwloc(t *testing.T) {
	text, err := os.ReadFile(machinesFolder + "/expected.json")
	if err != nil {
		t.Skipf("the machines are not here: %v", err)
	}
	var machines map[string]expectedMachine
	if err := json.Unmarshal(text, &machines); err != nil {
		t.Fatal(err)
	}
	if len(machines) != 20 {
		t.Errorf("%d machines are expected, want 20", len(machines))
	}
	for name, want := range machines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := topology.Read(machineSysfs(t, name))
			if err != nil {
				t.Fatal(err)
			}
			// Through JSON, so that what is printed is what is compared.
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			var got expectedMachine
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			got.PCI = map[string]cpuset.Set{}
			for _, d := range m.PCIDevices {
				if _, ok := want.PCI[d.Address]; ok { // hwloc leaves out bridges
					got.PCI[d.Address] = d.LocalCPUs
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("read otherwise than by hwloc (-hwloc +we):\n%s", diff)
			}
			checkFitsAScreen(t, m)
		})
	}
}

// machineSysfs unpacks a machine and returns its sysfs folder. The folder in the archive has not always the archive's name.
func machineSysfs(t testing.TB, name string) string {
	t.Helper()
	folders, err := filepath.Glob(unpack(t, filepath.Join(machinesFolder, name+".tar.bz2")) + "/*/sys")
	if err != nil || len(folders) != 1 {
		t.Fatalf("found %d sys folders (%v), want 1", len(folders), err)
	}
	return folders[0]
}
