package topology_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"nri-cpuset/topology"
)

var update = flag.Bool("update", false, "write the pictures in testdata/draw anew; look at them before you commit them")

func described(t *testing.T, name string) *topology.Machine {
	t.Helper()
	m, err := topology.ReadDescription(filepath.Join(conformanceFolder, "topologies", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func read(t *testing.T, tree files) *topology.Machine {
	t.Helper()
	m, err := topology.Read(tree.write(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// owners marks a machine with one reserved CPU, two containers and the shared pool.
func owners(cpu int) topology.Mark {
	switch {
	case cpu == 0:
		return topology.Mark{Rune: '#', Label: "reserved", Color: 8}
	case cpu%8 == 1:
		return topology.Mark{Rune: topology.OwnerRune(0), Label: "default/database", Color: 2}
	case cpu%8 == 2, cpu%8 == 3:
		return topology.Mark{Rune: topology.OwnerRune(1), Label: "kube-system/a-pod-with-a-name-that-is-too-long-for-a-legend", Color: 3}
	default:
		return topology.Mark{Rune: '.', Label: "shared pool"}
	}
}

// Pictures are compared with files that a person has looked at.
func TestDraw(t *testing.T) {
	memoryNode := files{
		nodeDir + "online": "0-2\n", nodeDir + "node2/cpulist": "\n", nodeDir + "node2/meminfo": "Node 2 MemTotal: 400000000 kB\n",
		nodeDir + "node0/distance": "10 20 24\n", nodeDir + "node1/distance": "20 10 34\n", nodeDir + "node2/distance": "24 34 10\n",
		cpuDir + "isolated": "3,7\n", cpuDir + "online": "0-5,7\n",
		nodeDir + "node1/cpulist": "2,6\n", // so that CPUs 3 and 7 are on no node
	}
	tests := []struct {
		name    string
		machine *topology.Machine
		options topology.DrawOptions
	}{
		{"desktop", described(t, "desktop-1s-4c-8t"), topology.DrawOptions{}},
		{"desktop-owners", described(t, "desktop-1s-4c-8t"), topology.DrawOptions{Mark: owners}},
		{"desktop-owners-brief", described(t, "desktop-1s-4c-8t"), topology.DrawOptions{Mark: owners, Brief: true}},
		{"virtual-packages-in-a-node", described(t, "vm-4s-1n-8c-16t"), topology.DrawOptions{}},
		{"interleaved", described(t, "interleaved-2s-2n-12c-24t"), topology.DrawOptions{}},
		{"four-threads-narrow", described(t, "smt4-2s-2n-16c-64t"), topology.DrawOptions{Width: 60}},
		{"nodes-in-packages-owners", described(t, "snc2-2s-4n-40c-80t"), topology.DrawOptions{Mark: owners}},
		{"128-threads", described(t, "nps1-2s-2n-16llc-64c-128t"), topology.DrawOptions{}},
		{"128-threads-owners", described(t, "nps1-2s-2n-16llc-64c-128t"), topology.DrawOptions{Mark: owners}},
		{"oddities", read(t, small.withPCI(1, 2).with(memoryNode)), topology.DrawOptions{}},
		{"256-threads-devices", read(t, regular{2, 4, 2, 8, 2}.tree().withPCI(60, 8)), topology.DrawOptions{}},
		{"256-threads-32-nodes-owners", read(t, regular{2, 16, 1, 4, 2}.tree()), topology.DrawOptions{Mark: owners}},
		{"64-packages", read(t, regular{64, 1, 1, 1, 1}.tree().with(oneNode(64))), topology.DrawOptions{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := picture(t, tt.machine, tt.options)
			file := filepath.Join("testdata", "draw", tt.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the picture differs from %s; run with -update and look at it (-want +got):\n%s", file, diff)
			}
		})
	}
}

// oneNode is the change after which all CPUs are on node 0, whatever the packages.
func oneNode(cpus int) files {
	return files{
		"sys/devices/system/node": "-", nodeDir + "node0/cpulist": fmt.Sprintf("0-%d\n", cpus-1),
		nodeDir + "node0/meminfo": "Node 0 MemTotal: 130000000 kB\n", nodeDir + "node0/distance": "10\n",
	}
}

func picture(t *testing.T, m *topology.Machine, options topology.DrawOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := m.Draw(&b, options); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every CPU is drawn once, in 100 columns, and up to 256 CPUs in 50 lines, whatever the machine is like.
func TestDrawFitsAScreen(t *testing.T) {
	machines := map[string]*topology.Machine{}
	for _, r := range []regular{
		{1, 1, 1, 128, 2},
		{1, 1, 16, 8, 2},
		{2, 1, 8, 8, 2},
		{2, 4, 2, 8, 2},
		{4, 4, 1, 8, 2},
		{2, 16, 1, 4, 2},
		{8, 8, 1, 2, 2},
		{1, 64, 1, 2, 2},
		{8, 1, 1, 32, 1},
		{1, 2, 32, 2, 2},
		{2, 1, 1, 32, 4},
		{32, 1, 1, 4, 2},
	} {
		machines[fmt.Sprint(r)] = read(t, r.tree().withPCI(60, r.packages*r.nodes))
	}
	machines["256 packages of one CPU"] = read(t, regular{256, 1, 1, 1, 1}.tree().with(oneNode(256)))
	descriptions, err := filepath.Glob(conformanceFolder + "/topologies/*.json")
	if err != nil || len(descriptions) != 11 {
		t.Fatalf("found %d descriptions (%v), want 11", len(descriptions), err)
	}
	for _, name := range descriptions {
		name = strings.TrimSuffix(filepath.Base(name), ".json")
		machines[name] = described(t, name)
	}
	for name, m := range machines {
		t.Run(name, func(t *testing.T) { checkFitsAScreen(t, m) })
	}
}

func checkFitsAScreen(t *testing.T, m *topology.Machine) {
	t.Helper()
	numbered := picture(t, m, topology.DrawOptions{})
	marked := picture(t, m, topology.DrawOptions{Mark: func(int) topology.Mark { return topology.Mark{Rune: '§', Label: "all"} }})
	for _, text := range []string{numbered, strings.TrimSuffix(marked, lastLine(marked))} {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > 50 {
			t.Errorf("the picture has %d lines, want at most 50:\n%s", len(lines), text)
		}
		for _, line := range lines {
			if width := utf8.RuneCountInString(line); width > 100 {
				t.Errorf("a line has %d columns, want at most 100: %s", width, line)
			}
		}
	}
	if drawn := strings.Count(marked, "§") - 1; drawn != m.Online.Len() { // once more in the legend
		t.Errorf("%d CPUs are drawn, want %d:\n%s", drawn, m.Online.Len(), marked)
	}
	for id := range m.Online.All() {
		if !regexp.MustCompile(fmt.Sprintf(`[^0-9:]%d\b`, id)).MatchString(numbered) {
			t.Errorf("CPU %d is not drawn:\n%s", id, numbered)
		}
	}
}

// lastLine is the legend of a picture that has one owner only, unless it is wrapped.
func lastLine(text string) string {
	return text[strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n")+1:]
}

var colorCode = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestDrawColorsOnlyAdds(t *testing.T) {
	m := described(t, "snc2-2s-4n-40c-80t")
	without := picture(t, m, topology.DrawOptions{Mark: owners})
	with := picture(t, m, topology.DrawOptions{Mark: owners, Color: true})
	if diff := cmp.Diff(without, colorCode.ReplaceAllString(with, "")); diff != "" {
		t.Errorf("the coloured picture is another one (-without +with):\n%s", diff)
	}
	if strings.Contains(without, "\x1b") {
		t.Error("the picture without colour has codes for colours in it")
	}
	for _, code := range []string{"\x1b[38;5;2mA\x1b[0m", "\x1b[38;5;3mB\x1b[0m", "\x1b[38;5;8m#\x1b[0m"} {
		if !strings.Contains(with, code) {
			t.Errorf("the coloured picture has no %q", code)
		}
	}
}

func TestOwnerRune(t *testing.T) {
	for i, want := range map[int]rune{-1: '*', 0: 'A', 25: 'Z', 26: 'a', 52: '0', 61: '9', 62: '*', 1000: '*'} {
		if got := topology.OwnerRune(i); got != want {
			t.Errorf("OwnerRune(%d) = %c, want %c", i, got, want)
		}
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestDrawReturnsTheWritersError(t *testing.T) {
	if err := described(t, "desktop-1s-4c-8t").Draw(fullDisk{}, topology.DrawOptions{}); !errors.Is(err, errFull) {
		t.Errorf("error is %v, want %v", err, errFull)
	}
}
