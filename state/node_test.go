package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nri-cpuset/allocator"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// machine describes one package with one NUMA node and n CPUs, two threads a core: i and i+n/2 are siblings.
func machine(t testing.TB, n int) *topology.Machine {
	t.Helper()
	return without(t, n, "")
}

// without is machine with some CPUs offline.
func without(t testing.TB, n int, offline string) *topology.Machine {
	t.Helper()
	gone := cpuset.MustParse(offline)
	var cpus []string
	for i := range n {
		if !gone.Contains(i) {
			cpus = append(cpus, fmt.Sprintf(`{"id":%d,"core":%d,"socket":0,"numa":0,"llc":0}`, i, i%(n/2)))
		}
	}
	m, err := topology.ParseDescription([]byte(fmt.Sprintf(
		`{"name":"test","cpus":[%s],"numaNodes":[{"id":0,"memoryKiB":8388608,"distances":[10]}]}`, strings.Join(cpus, ","))))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func rules(t testing.TB, m *topology.Machine, change func(*allocator.Policy)) Rules {
	t.Helper()
	p := allocator.Policy{
		CPUManager: allocator.CPUManagerStatic, ReservedCPUs: cpuset.MustParse("0"), Isolated: allocator.IsolatedExclude,
		MemoryManager: allocator.MemoryManagerNone, TopologyManager: allocator.TopologyManagerNone, Scope: allocator.ScopeContainer,
	}
	if change != nil {
		change(&p)
	}
	a, err := allocator.New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	return Rules{Allocator: a, LiftQuota: true}
}

// container is one of pod, which asks for that many thousandths of a CPU in a Guaranteed pod.
func container(pod, name, id string, milliCPU int64) Container {
	return Container{
		Key: Key{PodUID: pod, Name: name}, ID: id, Sandbox: "sandbox-" + pod, Pod: pod, Namespace: "default",
		Demand: Demand{Guaranteed: true, MilliCPU: milliCPU, LimitMilliCPU: milliCPU, Quota: milliCPU * 100, Period: 100000},
	}
}

func newNode(t testing.TB, r Rules) *Node {
	t.Helper()
	return NewNode(r, nil, time.Now)
}

func place(t testing.TB, n *Node, c Container, want string) Container {
	t.Helper()
	placed, err := n.Place(c, nil)
	if err != nil {
		t.Fatalf("Place(%s/%s): %v", c.PodUID, c.Name, err)
	}
	if got := placed.Placement.CPUs.String(); got != want {
		t.Fatalf("Place(%s/%s) = %q, want %q", c.PodUID, c.Name, got, want)
	}
	if err := n.Check(); err != nil {
		t.Fatal(err)
	}
	return placed
}

func shared(t testing.TB, n *Node, want string) {
	t.Helper()
	if got := n.Snapshot().Shared.String(); got != want {
		t.Errorf("shared = %s, want %s", got, want)
	}
}

func TestPlaceAndRelease(t *testing.T) {
	n := newNode(t, rules(t, machine(t, 8), nil))
	place(t, n, container("a", "c", "a1", 2000), "1,5")
	shared(t, n, "0,2-4,6-7")
	place(t, n, container("b", "c", "b1", 1500), "")
	place(t, n, container("c", "c", "c1", 1000), "4")
	n.Release("a1")
	shared(t, n, "0-3,5-7")
	n.Release("a1")
	n.Release("never seen")
	shared(t, n, "0-3,5-7")
	n.ReleasePod("c", "sandbox-c")
	n.ReleasePod("c", "sandbox-c")
	shared(t, n, "0-7")
}

func TestRefusalChangesNothing(t *testing.T) {
	n := newNode(t, rules(t, machine(t, 8), nil))
	place(t, n, container("a", "c", "a1", 4000), "1-2,5-6")
	_, err := n.Place(container("b", "c", "b1", 4000), nil)
	refusal := (*allocator.Refusal)(nil)
	if !errors.As(err, &refusal) || refusal.Reason != allocator.UnexpectedAdmissionError {
		t.Fatalf("Place of more than is free: %v, want an %s", err, allocator.UnexpectedAdmissionError)
	}
	shared(t, n, "0,3-4,7")
	if _, known := n.Container("b1"); known {
		t.Error("the refused container is in the books")
	}
}

func TestRestartInPlace(t *testing.T) {
	n := newNode(t, rules(t, machine(t, 8), nil))
	first := place(t, n, container("a", "c", "a1", 2000), "1,5")
	n.SetPhase("a1", Running)
	place(t, n, container("b", "c", "b1", 2000), "2,6")
	n.SetPhase("a1", Exited)
	shared(t, n, "0,3-4,7") // held until the pod goes

	again := place(t, n, container("a", "c", "a2", 2000), "1,5")
	if !again.Since.Equal(first.Since) {
		t.Errorf("since %s, want %s: it has had them all the time", again.Since, first.Since)
	}
	// The old attempt's stop and removal come late, and free nothing of the new one.
	n.SetPhase("a1", Exited)
	n.Release("a1")
	if c, known := n.Container("a2"); !known || c.Placement.CPUs.String() != "1,5" || c.Phase != Creating {
		t.Errorf("after the old attempt's late stop: %+v, %t", c, known)
	}
	shared(t, n, "0,3-4,7")
}

func TestInitContainersAreReused(t *testing.T) {
	n := newNode(t, rules(t, machine(t, 8), nil))
	place(t, n, container("other", "c", "o1", 1000), "4")
	place(t, n, container("a", "init", "i1", 4000), "1-2,5-6")
	n.SetPhase("i1", Exited)
	place(t, n, container("a", "app", "p1", 2000), "1,5")
	shared(t, n, "0,3,7")
	place(t, n, container("a", "side", "s1", 2000), "2,6")
	shared(t, n, "0,3,7")
	n.ReleasePod("a", "sandbox-a")
	shared(t, n, "0-3,5-7")
}

func TestReplacedSandboxKeepsItsContainers(t *testing.T) {
	n := newNode(t, rules(t, machine(t, 8), nil))
	place(t, n, container("a", "c", "a1", 2000), "1,5")
	again := container("a", "c", "a2", 2000)
	again.Sandbox = "the new sandbox"
	place(t, n, again, "1,5")
	if released := n.ReleasePod("a", "sandbox-a"); len(released) != 0 {
		t.Errorf("the old sandbox's end released %+v", released)
	}
	shared(t, n, "0,2-4,6-7")
}

func TestResize(t *testing.T) {
	demand := func(milli int64) Demand { return container("", "", "", milli).Demand }
	n := newNode(t, rules(t, machine(t, 8), nil))
	place(t, n, container("a", "c", "a1", 2000), "1,5")
	place(t, n, container("b", "c", "b1", 2000), "2,6")
	for _, test := range []struct {
		name    string
		milli   int64
		want    string
		refused bool
	}{
		{"grows next to what it has", 4000, "1,3,5,7", false},
		{"too much is refused as a whole", 6000, "1,3,5,7", true},
		{"shrinks to a part of it", 2000, "1,5", false},
		{"to the shared pool", 1500, "", false},
		{"and back", 2000, "1,5", false},
	} {
		_, err := n.Resize("a1", demand(test.milli))
		if (err != nil) != test.refused {
			t.Fatalf("%s: %v; want refused: %t", test.name, err, test.refused)
		}
		c, _ := n.Container("a1")
		if got := c.Placement.CPUs.String(); got != test.want {
			t.Fatalf("%s: has %q, want %q", test.name, got, test.want)
		}
		if err := n.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.Resize("nobody", demand(1000)); err == nil {
		t.Error("Resize of a container that is not known: no error")
	}
}

func TestSharedPoolIsNeverEmptied(t *testing.T) {
	n := newNode(t, rules(t, machine(t, 4), func(p *allocator.Policy) { p.Options.StrictCPUReservation = true }))
	place(t, n, container("s", "c", "s1", 500), "")
	if _, err := n.Place(container("a", "c", "a1", 3000), nil); err == nil {
		t.Fatal("an allocation that empties the pool under a shared container is not refused")
	}
	n.Release("s1")
	place(t, n, container("a", "c", "a1", 3000), "1-3")
	if _, err := n.Place(container("s", "c", "s2", 500), nil); err == nil {
		t.Error("a shared container is let into an empty pool")
	}
}

func TestWanted(t *testing.T) {
	n := newNode(t, rules(t, machine(t, 8), nil))
	place(t, n, container("a", "c", "a1", 2000), "1,5")
	place(t, n, container("b", "c", "b1", 1500), "")
	for _, test := range []struct {
		id        string
		cpus      string
		unlimited bool
	}{{"a1", "1,5", true}, {"b1", "0,2-4,6-7", false}} {
		w, ok := n.Wanted(test.id)
		if !ok || w.CPUs.String() != test.cpus || w.Unlimited != test.unlimited {
			t.Errorf("Wanted(%s) = %+v, %t; want %s, unlimited %t", test.id, w, ok, test.cpus, test.unlimited)
		}
	}
	n.SetPhase("b1", Exited)
	if _, ok := n.Wanted("b1"); ok {
		t.Error("an exited container wants something")
	}
	n.Reconfigure(rules(t, machine(t, 8), func(p *allocator.Policy) { p.CPUManager = allocator.CPUManagerNone }))
	if w, ok := n.Wanted("a1"); !ok || w.CPUs.String() != "0-7" || w.Unlimited || w.Quota != 200000 {
		t.Errorf("under none, Wanted(a1) = %+v, %t; want all CPUs and its quota back", w, ok)
	}
}

func TestReconfigure(t *testing.T) {
	full := func(p *allocator.Policy) { p.Options.FullPCPUsOnly = true }
	for _, test := range []struct {
		name     string
		rules    func(t *testing.T) Rules
		want     map[string]string // CPUs by container ID
		moves    int
		unplaced int
	}{
		{"nothing changes", func(t *testing.T) Rules { return rules(t, machine(t, 8), nil) }, map[string]string{"a1": "1,5", "b1": "4", "s1": ""}, 0, 0},
		{
			"full cores only: who has half a core keeps nothing", func(t *testing.T) Rules { return rules(t, machine(t, 8), full) },
			map[string]string{"a1": "1,5", "b1": "4", "s1": ""},
			0, 1,
		},
		{
			"another reservation moves whom it hits", func(t *testing.T) Rules {
				return rules(t, machine(t, 8), func(p *allocator.Policy) { p.ReservedCPUs = cpuset.MustParse("1") })
			}, map[string]string{"a1": "0,5", "b1": "4", "s1": ""}, 1, 0, // 0 is free now, and on the core that has the fewest
		},
		{
			"a CPU goes offline", func(t *testing.T) Rules { return rules(t, without(t, 8, "5"), nil) },
			map[string]string{"a1": "1-2", "b1": "4", "s1": ""},
			1, 0,
		},
		{
			"a shared CPU goes offline", func(t *testing.T) Rules { return rules(t, without(t, 8, "7"), nil) },
			map[string]string{"a1": "1,5", "b1": "4", "s1": ""},
			0, 0,
		},
		{"more CPUs than before", func(t *testing.T) Rules { return rules(t, machine(t, 16), nil) }, map[string]string{"a1": "1,5", "b1": "4", "s1": ""}, 0, 0},
		{
			"none", func(t *testing.T) Rules {
				return rules(t, machine(t, 8), func(p *allocator.Policy) { p.CPUManager = allocator.CPUManagerNone })
			}, map[string]string{"a1": "", "b1": "", "s1": ""}, 2, 0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t, rules(t, machine(t, 8), nil))
			place(t, n, container("a", "c", "a1", 2000), "1,5")
			place(t, n, container("b", "c", "b1", 1000), "4")
			place(t, n, container("s", "c", "s1", 500), "")
			for _, id := range []string{"a1", "b1", "s1"} {
				n.SetPhase(id, Running)
			}
			r := n.Reconfigure(test.rules(t))
			if len(r.Moves) != test.moves || len(r.Unplaced) != test.unplaced {
				t.Errorf("%d moves, %d unplaced; want %d, %d: %+v", len(r.Moves), len(r.Unplaced), test.moves, test.unplaced, r)
			}
			for id, want := range test.want {
				c, _ := n.Container(id)
				if got := c.Placement.CPUs.String(); got != want {
					t.Errorf("%s has %q, want %q", id, got, want)
				}
			}
			if err := n.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// From none to static, whoever qualifies is pinned where it runs.
func TestReconfigureFromNone(t *testing.T) {
	n := newNode(t, rules(t, machine(t, 8), func(p *allocator.Policy) { p.CPUManager = allocator.CPUManagerNone }))
	place(t, n, container("a", "c", "a1", 2000), "")
	place(t, n, container("s", "c", "s1", 500), "")
	if _, ok := n.Wanted("a1"); ok {
		t.Error("policy none touches a container")
	}
	r := n.Reconfigure(rules(t, machine(t, 8), nil))
	if len(r.Moves) != 1 || r.Moves[0].Container.Placement.CPUs.String() != "1,5" || !r.Moves[0].From.IsEmpty() {
		t.Fatalf("moves = %+v, want a1 onto 1,5", r.Moves)
	}
	if w, ok := n.Wanted("s1"); !ok || w.CPUs.String() != "0,2-4,6-7" {
		t.Errorf("Wanted(s1) = %+v, %t", w, ok)
	}
}

// Moves must be possible one after the other: nobody moves onto CPUs that are still somebody's.
func TestMovesInOrder(t *testing.T) {
	n := newNode(t, rules(t, machine(t, 8), nil))
	place(t, n, container("a", "c", "a1", 2000), "1,5")
	place(t, n, container("b", "c", "b1", 2000), "2,6")
	r := n.Reconfigure(rules(t, machine(t, 8), func(p *allocator.Policy) { p.ReservedCPUs = cpuset.MustParse("1-2") }))
	has := map[string]cpuset.Set{"a1": cpuset.MustParse("1,5"), "b1": cpuset.MustParse("2,6")}
	if len(r.Moves) != 2 {
		t.Fatalf("%d moves, want 2: %+v", len(r.Moves), r)
	}
	for _, m := range r.Moves {
		to := m.Container.Placement.CPUs
		for id, cpus := range has {
			if id != m.Container.ID && cpus.Overlaps(to) {
				t.Errorf("%s moves to %s, where %s still has %s", m.Container.ID, to, id, cpus)
			}
		}
		has[m.Container.ID] = to
	}
}

func TestFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	now := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	file, loaded := OpenFile(dir, "boot-1", now)
	if loaded.Err != nil || len(loaded.Containers) != 0 {
		t.Fatalf("a new directory: %+v", loaded)
	}
	n := NewNode(rules(t, machine(t, 8), nil), file, func() time.Time { return now })
	place(t, n, container("a", "c", "a1", 2000), "1,5")
	place(t, n, container("s", "c", "s1", 500), "")
	if err := n.Snapshot().SaveError; err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, fileName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}

	flip := func(at int) []byte {
		bad := append([]byte(nil), good...)
		bad[at] ^= 4
		return bad
	}
	reserved := func() []byte { // a valid file that gives away a reserved CPU
		file, _ := OpenFile(filepath.Join(t.TempDir(), "x"), "boot-1", now)
		n := NewNode(rules(t, machine(t, 8), func(p *allocator.Policy) { p.ReservedCPUs = cpuset.MustParse("7") }), file, time.Now)
		place(t, n, container("a", "c", "a1", 2000), "0,4")
		text, err := os.ReadFile(file.path)
		if err != nil {
			t.Fatal(err)
		}
		node := strings.Replace(string(text[strings.Index(string(text), `"node":`)+7:len(text)-2]), `"reserved":"7"`, `"reserved":"0"`, 1)
		return []byte(fmt.Sprintf(`{"version":1,"checksum":%q,"node":%s}`, checksum([]byte(node)), node))
	}
	for _, test := range []struct {
		name  string
		text  []byte
		boot  string
		want  error
		aside string
	}{
		{"as it was written", good, "boot-1", nil, ""},
		{"another boot", good, "boot-2", ErrOtherBoot, ""},
		{"truncated", good[:len(good)/2], "boot-1", ErrCorrupt, "state.json.corrupt-20261120T030000.000Z"},
		{"empty", nil, "boot-1", ErrCorrupt, "state.json.corrupt-20261120T030000.000Z"},
		{"a flipped bit", flip(len(good) / 2), "boot-1", ErrCorrupt, "state.json.corrupt-20261120T030000.000Z"},
		{"a newer version", []byte(strings.Replace(string(good), `"version":1`, `"version":2`, 1)), "boot-1", ErrVersion, "state.json.version-20261120T030000.000Z"},
		{"a reserved CPU given away", reserved(), "boot-1", ErrReserved, "state.json.corrupt-20261120T030000.000Z"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, fileName), test.text, 0o600); err != nil {
				t.Fatal(err)
			}
			file, loaded := OpenFile(dir, test.boot, now)
			if !errors.Is(loaded.Err, test.want) || (test.want == nil) != (loaded.Err == nil) {
				t.Fatalf("error %v, want %v", loaded.Err, test.want)
			}
			if filepath.Base(loaded.SetAside) != test.aside && (test.aside != "" || loaded.SetAside != "") {
				t.Errorf("set aside as %q, want %q", loaded.SetAside, test.aside)
			}
			if test.aside != "" {
				if _, err := os.Stat(loaded.SetAside); err != nil {
					t.Error(err)
				}
			}
			if test.want == nil && (len(loaded.Containers) != 1 || loaded.Containers[0].Placement.CPUs.String() != "1,5") {
				t.Errorf("containers %+v, want a1 on 1,5", loaded.Containers)
			}
			n := NewNode(rules(t, machine(t, 8), nil), file, time.Now)
			place(t, n, container("b", "c", "b1", 1000), "4")
			if err := n.Snapshot().SaveError; err != nil {
				t.Errorf("the file cannot be written again: %v", err)
			}
		})
	}
}

func TestUnwritableFile(t *testing.T) {
	dir := t.TempDir()
	file, _ := OpenFile(dir, "boot", time.Now())
	n := NewNode(rules(t, machine(t, 8), nil), file, time.Now)
	if err := os.Mkdir(file.path+".new", 0o700); err != nil { // even root cannot open a directory for writing
		t.Fatal(err)
	}
	place(t, n, container("a", "c", "a1", 2000), "1,5")
	if n.Snapshot().SaveError == nil {
		t.Error("the state file cannot be written, and nobody is told")
	}
	if err := os.Remove(file.path + ".new"); err != nil {
		t.Fatal(err)
	}
	place(t, n, container("b", "c", "b1", 1000), "4")
	if err := n.Snapshot().SaveError; err != nil {
		t.Errorf("the next write: %v", err)
	}
}

func TestAdopt(t *testing.T) {
	found := func(c Container, reported string) Found {
		c.Phase = Running
		return Found{Container: c, Reported: cpuset.MustParse(reported)}
	}
	annotated := func(c Container, cpus string) Container {
		c.Placement.CPUs = cpuset.MustParse(cpus)
		return c
	}
	a, b := container("a", "c", "a1", 2000), container("b", "c", "b1", 2000)
	for _, test := range []struct {
		name     string
		before   func(t *testing.T, n *Node)
		found    []Found
		pods     []string
		want     map[string]string
		moves    int
		released int
		shared   string
	}{
		{
			"the runtime's annotation, and no file", nil,
			[]Found{found(annotated(a, "3,7"), "3,7"), found(container("s", "c", "s1", 500), "0-2,4-6")},
			[]string{"sandbox-a", "sandbox-s"},
			map[string]string{"a1": "3,7", "s1": ""},
			0, 0, "0-2,4-6",
		},
		{
			"the file knows of a later move", func(t *testing.T, n *Node) { place(t, n, a, "1,5") },
			[]Found{found(annotated(a, "3,7"), "3,7")},
			[]string{"sandbox-a"},
			map[string]string{"a1": "1,5"},
			0, 0, "0,2-4,6-7",
		},
		{
			"the runtime knows of a later move", func(t *testing.T, n *Node) { place(t, n, a, "1,5") },
			[]Found{found(annotated(a, "3,7"), "2,6")},
			[]string{"sandbox-a"},
			map[string]string{"a1": "2,6"},
			0, 0, "0-1,3-5,7",
		},
		{
			"created while we were away", nil,
			[]Found{found(a, ""), found(annotated(b, "1,5"), "1,5")},
			[]string{"sandbox-a", "sandbox-b"},
			map[string]string{"a1": "2,6", "b1": "1,5"},
			1, 0, "0,3-4,7",
		},
		{
			"two with the same CPUs", nil,
			[]Found{found(annotated(a, "1,5"), "1,5"), found(annotated(b, "5,7"), "5,7")},
			[]string{"sandbox-a", "sandbox-b"},
			map[string]string{"a1": "1,5", "b1": "3,7"},
			1, 0, "0,2,4,6",
		},
		{
			"an annotation with a reserved CPU", nil,
			[]Found{found(annotated(a, "0,4"), "0,4")},
			[]string{"sandbox-a"},
			map[string]string{"a1": "1,4"},
			1, 0, "0,2-3,5-7", // 4 stays
		},
		{
			"a forged annotation", nil,
			[]Found{found(annotated(container("s", "c", "s1", 500), "1,5"), "1,5")},
			[]string{"sandbox-s"},
			map[string]string{"s1": ""},
			1, 0, "0-7",
		},
		{
			"gone while we were away", func(t *testing.T, n *Node) { place(t, n, a, "1,5") },
			nil, nil, nil, 0, 1, "0-7",
		},
		{
			"exited, and its pod is there", func(t *testing.T, n *Node) { place(t, n, a, "1,5") },
			nil,
			[]string{"sandbox-a"},
			map[string]string{"a1": "1,5"},
			0, 0, "0,2-4,6-7",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t, rules(t, machine(t, 8), nil))
			if test.before != nil {
				test.before(t, n)
			}
			pods := map[string]bool{}
			for _, id := range test.pods {
				pods[id] = true
			}
			r := n.Adopt(test.found, pods)
			if len(r.Moves) != test.moves || len(r.Released) != test.released {
				t.Errorf("%d moves, %d released; want %d, %d: %+v", len(r.Moves), len(r.Released), test.moves, test.released, r)
			}
			for id, want := range test.want {
				c, known := n.Container(id)
				if got := c.Placement.CPUs.String(); !known || got != want {
					t.Errorf("%s has %q (known: %t), want %q", id, got, known, want)
				}
			}
			shared(t, n, test.shared)
			if err := n.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}
