package topology

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseDescription(t *testing.T) {
	const text = `{"name":"tiny","isolated":"3",
		"cpus":[{"id":3,"core":1,"socket":7,"numa":2,"llc":5},{"id":0,"core":1,"socket":4,"numa":0},
		        {"id":2,"core":1,"socket":4,"numa":0},{"id":1,"core":9,"socket":7,"numa":2,"llc":5}],
		"numaNodes":[{"id":2,"memoryKiB":100,"hugePages":{"4":5},"distances":[10,20]},{"id":0,"memoryKiB":50,"distances":[30,10]}]}`
	m, err := ParseDescription([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "tiny" || m.Online.String() != "0-3" || m.Isolated.String() != "3" {
		t.Errorf("got machine %q with CPUs %s, isolated %s; want tiny, 0-3, 3", m.Name, m.Online, m.Isolated)
	}
	// Packages, cores and caches are in the order of their lowest CPU, nodes by id, distances in the order of the nodes.
	got := []string{
		sets(len(m.Packages), func(i int) string { return m.Packages[i].CPUs.String() }),
		sets(len(m.Cores), func(i int) string { return m.Cores[i].CPUs.String() }),
		sets(len(m.Caches), func(i int) string { return m.Caches[i].CPUs.String() }),
		sets(len(m.Nodes), func(i int) string { return m.Nodes[i].CPUs.String() }),
	}
	want := []string{"0,2|1,3", "0,2|1|3", "1,3", "0,2|1,3"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("list %d is %s, want %s", i, got[i], want[i])
		}
	}
	if d := m.Nodes[0].Distances; len(d) != 2 || d[0] != 10 || d[1] != 30 {
		t.Errorf("distances of node 0 are %v, want [10 30]", d)
	}
	if got := m.NodeIDs().String(); got != "0,2" {
		t.Errorf("NodeIDs() = %s, want 0,2", got)
	}
	if c, ok := m.CPU(3); !ok || c != (CPU{ID: 3, Core: 2, Package: 1, Cache: 0, Node: 1}) {
		t.Errorf("CPU(3) = %+v, %v", c, ok)
	}
	if c, ok := m.CPU(0); !ok || c.Cache != none {
		t.Errorf("CPU(0) = %+v, %v; want no cache", c, ok)
	}
	if _, ok := m.CPU(4); ok {
		t.Error("CPU(4) is there, want it not to be")
	}
}

func sets(n int, set func(int) string) string {
	var all []string
	for i := range n {
		all = append(all, set(i))
	}
	return strings.Join(all, "|")
}

func TestParseDescriptionRefuses(t *testing.T) {
	cpu := func(cpus string) string {
		return `{"name":"bad","cpus":[` + cpus + `],"numaNodes":[{"id":0,"memoryKiB":8},{"id":1,"memoryKiB":8}]}`
	}
	node := func(nodes string) string {
		return `{"name":"bad","cpus":[{"id":0,"core":0,"socket":0,"numa":0}],"numaNodes":[` + nodes + `]}`
	}
	tests := []struct {
		name, text, wantErr string
	}{
		{"no JSON", `cpus: 8`, "a machine's description"},
		{"two values", cpu(`{"id":0,"core":0,"socket":0,"numa":0}`) + `{}`, "more than one JSON value"},
		{"a field nobody knows", `{"name":"bad","sockets":2}`, `unknown field "sockets"`},
		{"no CPUs", cpu(``), "no CPU is online"},
		{"a CPU number below 0", cpu(`{"id":-1}`), "-1 is outside 0-8191"},
		{"a CPU number too large", cpu(`{"id":8192}`), "8192 is outside 0-8191"},
		{"a CPU twice", cpu(`{"id":1},{"id":1}`), "CPU 1 is described twice"},
		{"a CPU on a node that is not there", cpu(`{"id":1,"numa":5}`), "CPU 1 is on NUMA node 5, which is not there"},
		{"a CPU on no node", cpu(`{"id":1,"numa":-1}`), "nodes count from 0"},
		{"a cache below 0", cpu(`{"id":1,"llc":-1}`), "leave it out where there is none"},
		{"a core over two nodes", cpu(`{"id":0,"core":3,"numa":0},{"id":5,"core":3,"numa":1}`), "numa: CPUs 0 and 5 are threads of one core, but not on one NUMA node"},
		{"a core over two caches", cpu(`{"id":0,"core":3,"llc":0},{"id":5,"core":3,"llc":1}`), "llc: CPUs 0 and 5 are threads of one core, but not at one last-level cache"},
		{"isolated is no list", `{"name":"bad","isolated":"3-1"}`, "is not a CPU list"},
		{"a node number too large", node(`{"id":9000}`), "9000 is outside 0-8191"},
		{"a node twice", node(`{"id":0},{"id":0}`), "NUMA node 0 is described twice"},
		{"too few distances", node(`{"id":0,"distances":[10]},{"id":1}`), "it has 1 distances, and there are 2 nodes"},
		{"too much memory", node(`{"id":0,"memoryKiB":9007199254740993}`), "is no amount of memory"},
		{"a size of pages that is none", node(`{"id":0,"hugePages":{"2M":1}}`), `"2M" is no size of huge pages`},
		{"more huge pages than memory", node(`{"id":0,"memoryKiB":4095,"hugePages":{"2048":2}}`), "2 huge pages of 2048 KiB do not fit into the 4095 KiB of node 0"},
		{"more of two sizes than memory", node(`{"id":0,"memoryKiB":10,"hugePages":{"2":3,"5":1}}`), "1 huge pages of 5 KiB do not fit into the 4 KiB"},
		{"so many that their sum overflows", node(`{"id":0,"memoryKiB":10,"hugePages":{"2":9223372036854775809}}`), "do not fit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ParseDescription([]byte(tt.text))
			wantError(t, err, tt.wantErr)
			if m != nil {
				t.Errorf("a machine came with the error: %+v", m)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good := write("good.json", `{"name":"one","cpus":[{"id":0}],"numaNodes":[{"id":0}]}`)
	if m, err := Open(good); err != nil || m.Name != "one" {
		t.Errorf("Open(%s) = %+v, %v; want the machine one", good, m, err)
	}
	tests := []struct {
		name, path, wantErr string
	}{
		{"a bad description names its file", write("bad.json", `{`), "bad.json"},
		{"a description too large to be one", write("large.json", strings.Repeat(" ", maxDescription+1)), "larger than 8 MiB"},
		{"a folder without sysfs", folder, folder + " is no sysfs, such as /sys"},
		{"nothing", filepath.Join(folder, "none"), "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Open(tt.path)
			wantError(t, err, tt.wantErr)
		})
	}
}

// Whatever the text, a machine that comes of it is whole: every CPU in one core, one package, one node.
func FuzzParseDescription(f *testing.F) {
	descriptions, err := filepath.Glob("../test/conformance/testdata/topologies/*-1s-*.json")
	if err != nil || len(descriptions) == 0 {
		f.Fatalf("no described machines: %v", err)
	}
	for _, name := range descriptions {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`{"cpus":[{"id":0,"llc":1},{"id":600,"core":1}],"numaNodes":[{"id":0,"hugePages":{"2048":0}}],"isolated":"1"}`)
	f.Add(`{"cpus":[{"id":-1}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseDescription([]byte(text))
		if err == nil {
			checkWhole(t, m)
		}
	})
}

// checkWhole checks what placement relies on in every machine.
func checkWhole(t *testing.T, m *Machine) {
	t.Helper()
	if m.Online.IsEmpty() {
		t.Error("no CPU is online")
	}
	for id := range m.Online.All() {
		c, ok := m.CPU(id)
		if !ok || c.ID != id {
			t.Errorf("CPU(%d) = %+v, %v", id, c, ok)
			continue
		}
		core := m.Cores[c.Core]
		if !core.CPUs.Contains(id) || core.Node != c.Node || core.Package != c.Package || !m.Packages[c.Package].CPUs.Contains(id) {
			t.Errorf("CPU %d is not where it says: %+v, core %+v", id, c, core)
		}
		if c.Node != none && !m.Nodes[c.Node].CPUs.Contains(id) {
			t.Errorf("CPU %d is not on its node %d", id, m.Nodes[c.Node].ID)
		}
		if c.Cache != none && !m.Caches[c.Cache].CPUs.Contains(id) {
			t.Errorf("CPU %d is not at its cache", id)
		}
	}
	total := 0
	for i := range m.Cores {
		total += m.Cores[i].CPUs.Len()
		if i > 0 && m.Cores[i].CPUs.First() <= m.Cores[i-1].CPUs.First() {
			t.Errorf("core %d is not in the order of the lowest CPUs", i)
		}
	}
	if total != m.Online.Len() {
		t.Errorf("the cores hold %d CPUs, want %d", total, m.Online.Len())
	}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if m.NodeIndex(n.ID) != i || (n.Distances != nil && len(n.Distances) != len(m.Nodes)) {
			t.Errorf("node %d stands at %d with distances %v", n.ID, i, n.Distances)
		}
		if err := checkHugePages(n); err != nil {
			t.Error(err)
		}
	}
}
