package web_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nri-cpuset/plugin/web"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// TestMachineIsDrawnAsItIs checks the boxes: each line is one, "titles [cores side by side]: cores", indented by how deep it is.
func TestMachineIsDrawnAsItIs(t *testing.T) {
	for _, test := range []struct {
		name, machine, want string
	}{
		{
			"what is in one piece shares a box",
			`{"cpus":[{"id":0,"core":0,"llc":0},{"id":1,"core":1,"llc":0},{"id":2,"core":0,"llc":0},{"id":3,"core":1,"llc":0}],
			 "numaNodes":[{"id":0,"memoryKiB":8388608,"hugePages":{"2048":16,"1048576":0}}]}`,
			`package 0, NUMA node 0 · 8 GiB · 16 × 2 MiB, LLC 0 [2]: 0,2 1,3`,
		},
		{
			"packages hold nodes, which hold caches",
			`{"cpus":[{"id":0,"core":0,"llc":0},{"id":1,"core":1,"llc":1},{"id":2,"core":2,"numa":1,"llc":2},{"id":3,"core":3,"numa":1,"llc":3},
			 {"id":4,"core":0,"socket":1,"numa":2,"llc":4},{"id":5,"core":1,"socket":1,"numa":2,"llc":4}],
			 "numaNodes":[{"id":0,"memoryKiB":1572864},{"id":1,"memoryKiB":524288},{"id":2,"memoryKiB":4}]}`,
			`package 0
  NUMA node 0 · 1.5 GiB
    LLC 0 [1]: 0
    LLC 1 [1]: 1
  NUMA node 1 · 512 MiB
    LLC 2 [1]: 2
    LLC 3 [1]: 3
package 1, NUMA node 2 · 4 KiB, LLC 4 [2]: 4 5`,
		},
		{
			"a node holds packages, on virtual machines",
			`{"cpus":[{"id":0,"core":0,"llc":0},{"id":1,"core":1,"llc":0},{"id":2,"core":0,"socket":1,"llc":1}],"numaNodes":[{"id":0,"memoryKiB":4}]}`,
			`NUMA node 0 · 4 KiB
  package 0, LLC 0 [2]: 0 1
  package 1, LLC 1 [1]: 2`,
		},
		{
			"a cache holds nodes, with sub-NUMA clustering",
			`{"cpus":[{"id":0,"core":0,"llc":0},{"id":1,"core":1,"numa":1,"llc":0},{"id":2,"core":0,"socket":1,"numa":2,"llc":1},
			 {"id":3,"core":1,"socket":1,"numa":3,"llc":1}],
			 "numaNodes":[{"id":0,"memoryKiB":4},{"id":1,"memoryKiB":4},{"id":2,"memoryKiB":4},{"id":3,"memoryKiB":4}]}`,
			`package 0, LLC 0
  NUMA node 0 · 4 KiB [1]: 0
  NUMA node 1 · 4 KiB [1]: 1
package 1, LLC 1
  NUMA node 2 · 4 KiB [1]: 2
  NUMA node 3 · 4 KiB [1]: 3`,
		},
		{
			"nodes across packages are drawn in parts",
			`{"cpus":[{"id":0,"core":0,"llc":0},{"id":1,"core":1,"numa":1,"llc":0},{"id":2,"core":0,"socket":1,"llc":1},
			 {"id":3,"core":1,"socket":1,"numa":1,"llc":1}],"numaNodes":[{"id":0,"memoryKiB":4},{"id":1,"memoryKiB":4}]}`,
			`package 0
  NUMA node 0 · 4 KiB (part), LLC 0 (part) [1]: 0
  NUMA node 1 · 4 KiB (part), LLC 0 (part) [1]: 1
package 1
  NUMA node 0 · 4 KiB (part), LLC 1 (part) [1]: 2
  NUMA node 1 · 4 KiB (part), LLC 1 (part) [1]: 3`,
		},
		{
			"no caches",
			`{"cpus":[{"id":0,"core":0},{"id":1,"core":1}],"numaNodes":[{"id":0,"memoryKiB":4}]}`,
			`package 0, NUMA node 0 · 4 KiB [2]: 0 1`,
		},
		{
			"some cores at no cache, and memory without CPUs",
			`{"cpus":[{"id":0,"core":0,"llc":0},{"id":1,"core":1}],"numaNodes":[{"id":0,"memoryKiB":4},{"id":4,"memoryKiB":16777216}]}`,
			`package 0, NUMA node 0 · 4 KiB
  LLC 0 [1]: 0
  no cache [1]: 1
NUMA node 4 · 16 GiB, no CPUs`,
		},
		{
			"nine cores fill a rectangle",
			`{"cpus":[{"id":0,"core":0},{"id":1,"core":1},{"id":2,"core":2},{"id":3,"core":3},{"id":4,"core":4},{"id":5,"core":5},{"id":6,"core":6},
			 {"id":7,"core":7},{"id":8,"core":8},{"id":9,"core":9},{"id":10,"core":10},{"id":11,"core":11}],"numaNodes":[{"id":0,"memoryKiB":4}]}`,
			`package 0, NUMA node 0 · 4 KiB [6]: 0 1 2 3 4 5 6 7 8 9 10 11`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := topology.ParseDescription([]byte(test.machine))
			if err != nil {
				t.Fatal(err)
			}
			r := web.Report{Machine: m, Online: m.Online, Shared: m.Online}
			groups := page(t, &r).find("section", "id", "machine")[0].find("div", "class", "groups")[0]
			got := strings.Join(boxes(t, groups, ""), "\n")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("boxes (-want +got):\n%s", diff)
			}
		})
	}
}

// boxes writes the groups in an element as lines.
func boxes(t *testing.T, e *element, indent string) []string {
	t.Helper()
	var lines []string
	if label := e.attrs["aria-label"]; label != "" {
		lines = append(lines, strings.TrimPrefix(indent, "  ")+label)
	}
	for _, c := range e.children {
		switch {
		case strings.HasPrefix(c.attrs["class"], "cores "):
			across := strings.TrimPrefix(c.attrs["class"], "cores n")
			var cores []string
			for _, svg := range c.find("svg", "class", "core") {
				cores = append(cores, cpusOf(t, svg.find("g", "class", "cpu")).String())
			}
			lines[len(lines)-1] += " [" + across + "]: " + strings.Join(cores, " ")
		case strings.HasPrefix(c.attrs["class"], "groups"):
			lines = append(lines, boxes(t, c, indent)...)
		case strings.HasPrefix(c.attrs["class"], "group "):
			lines = append(lines, boxes(t, c, indent+"  ")...)
		}
	}
	return lines
}

// Machines of any shape are drawn with all their CPUs.
func TestOddMachines(t *testing.T) {
	for _, m := range machines(t) {
		t.Run(m.Name, func(t *testing.T) {
			r := web.Report{Machine: m, Online: m.Online, Shared: m.Online}
			drawn := cpusOf(t, page(t, &r).find("g", "class", "cpu"))
			if want := m.Online.Union(m.Offline); !drawn.Equal(want) {
				t.Errorf("CPUs %s are drawn, want %s", drawn, want)
			}
		})
	}
}

func TestOwners(t *testing.T) {
	containers := func(cpus ...string) []web.Container {
		var list []web.Container
		for _, c := range cpus {
			set := cpuset.MustParse(c)
			list = append(list, web.Container{CPUs: set, Exclusive: !set.IsEmpty()})
		}
		return list
	}
	t.Run("marks go by the lowest CPU", func(t *testing.T) {
		var got []string
		for _, o := range web.Owners(containers("8-9", "", "2,66", "4")) {
			got = append(got, o.Mark+" "+o.CPUs.String())
		}
		if diff := cmp.Diff([]string{"A 2,66", "B 4", "C 8-9"}, got); diff != "" {
			t.Errorf("owners (-want +got):\n%s", diff)
		}
	})
	t.Run("a colour stays whoever comes and goes", func(t *testing.T) {
		colorOf := func(owners []web.Owner, first int) int {
			for _, o := range owners {
				if o.CPUs.First() == first {
					return o.Color
				}
			}
			t.Fatalf("nobody has CPU %d", first)
			return 0
		}
		alone, among := web.Owners(containers("30-31")), web.Owners(containers("2", "4", "30-31", "40"))
		if before, after := colorOf(alone, 30), colorOf(among, 30); before != after {
			t.Errorf("colour %d among others, want %d as alone", after, before)
		}
	})
	t.Run("marks are one of a kind", func(t *testing.T) {
		var many []web.Container
		for id := range 512 {
			many = append(many, web.Container{CPUs: cpuset.New(id), Exclusive: true})
		}
		seen := map[string]bool{}
		for _, o := range web.Owners(many) {
			if seen[o.Mark] || len(o.Mark) > 2 {
				t.Errorf("mark %q of CPU %s: it is another's too, or too long", o.Mark, o.CPUs)
			}
			seen[o.Mark] = true
			if o.Color < 0 || o.Color >= web.Colors {
				t.Errorf("colour %d, want one below %d", o.Color, web.Colors)
			}
		}
	})
}
