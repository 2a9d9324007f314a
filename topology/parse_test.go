package topology

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestParseMemTotal(t *testing.T) {
	const node = "Node 1 MemTotal:       131732940 kB\nNode 1 MemFree:        130167340 kB\n"
	tests := []struct {
		name, text, key string
		want            uint64
		wantErr         string // a part of the error; "" for none
	}{
		{"a node", node, "Node 1 MemTotal:", 131732940, ""},
		{"the machine", "MemTotal:   280840 kB\nMemFree: 1 kB\n", "MemTotal:", 280840, ""},
		{"not in the first line", "MemFree: 1 kB\nMemTotal: 2 kB\n", "MemTotal:", 2, ""},
		{"a node without memory", "Node 0 MemTotal:              0 kB\n", "Node 0 MemTotal:", 0, ""},
		{"a blank before it, as some kernels have", "\nNode 1 MemTotal: 5 kB", "Node 1 MemTotal:", 5, ""},
		{"the file of another node", node, "Node 2 MemTotal:", 0, `no line begins with "Node 2 MemTotal:"`},
		{"empty", "", "MemTotal:", 0, `no line begins with "MemTotal:"`},
		{"no unit", "MemTotal: 17", "MemTotal:", 0, "is not in kB"},
		{"another unit", "MemTotal: 17 MB", "MemTotal:", 0, "is not in kB"},
		{"no number", "MemTotal: many kB", "MemTotal:", 0, "is no amount of memory"},
		{"negative", "MemTotal: -5 kB", "MemTotal:", 0, "is no amount of memory"},
		{"beyond an exbibyte", "MemTotal: 9007199254740993 kB", "MemTotal:", 0, "is no amount of memory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseMemTotal(tt.text, tt.key)
			wantError(t, err, tt.wantErr)
			if got != tt.want {
				t.Errorf("got %d KiB, want %d", got, tt.want)
			}
		})
	}
}

func TestParseDistances(t *testing.T) {
	tests := []struct {
		name, text string
		nodes      int
		want       []int
		wantErr    string
	}{
		{"one node", "10\n", 1, []int{10}, ""},
		{"four nodes", "10 16 32 33", 4, []int{10, 16, 32, 33}, ""},
		{"too few", "10 16", 4, nil, "holds 2 distances, and there are 4 nodes"},
		{"too many", "10 16", 1, nil, "holds 2 distances, and there are 1 nodes"},
		{"empty", "", 1, nil, "holds 0 distances"},
		{"a word", "10 far", 2, nil, `"far" is no distance`},
		{"none at all", "10 0", 2, nil, `"0" is no distance`},
		{"negative", "10 -1", 2, nil, `"-1" is no distance`},
		{"more than the kernel's byte can be", "10 70000", 2, nil, `"70000" is no distance`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseDistances(tt.text, tt.nodes)
			wantError(t, err, tt.wantErr)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestParseHugePageSize(t *testing.T) {
	const noSize = "the name is no size of huge pages"
	tests := []struct {
		name    string
		want    uint64
		wantErr string
	}{
		{"hugepages-2048kB", 2048, ""},
		{"hugepages-1048576kB", 1048576, ""},
		{"hugepages-64kB", 64, ""},
		{"hugepages-0kB", 0, noSize},
		{"hugepages-kB", 0, noSize},
		{"hugepages-2048", 0, noSize},
		{"2048kB", 0, noSize},
		{"hugepages--4kB", 0, noSize},
		{"hugepages-99999999999999999999kB", 0, noSize},
		{"", 0, noSize},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseHugePageSize(tt.name)
			wantError(t, err, tt.wantErr)
			if err == nil && got != tt.want {
				t.Errorf("got %d KiB, want %d", got, tt.want)
			}
		})
	}
}

func TestParseNUMAStatus(t *testing.T) {
	tests := []struct {
		name, text string
		want       int
		wantErr    string
	}{
		{"on a node", "Node: 252\nStatus: online\n", 252, ""},
		{"with a tab", "Status: online\nNode:\t255\n", 255, ""},
		{"not on a node yet", "Node: -1\n", -1, ""},
		{"a GPU without NUMA", "", -1, ""},
		{"no number", "Node: first", 0, "names no node"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseNUMAStatus(tt.text)
			wantError(t, err, tt.wantErr)
			if got != tt.want {
				t.Errorf("got node %d, want %d", got, tt.want)
			}
		})
	}
}

func TestParsePCIClass(t *testing.T) {
	const noClass = "is no class of PCI devices"
	tests := []struct {
		text    string
		want    uint32
		wantErr string
	}{
		{"0x020000", 0x020000, ""},
		{"0xffff00", 0xffff00, ""},
		{"0x0", 0, ""},
		{"020000", 0, noClass},
		{"0x", 0, noClass},
		{"0x1000000", 0, noClass},
		{"0x02_00", 0, noClass},
		{"network", 0, noClass},
		{"", 0, noClass},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := parsePCIClass(tt.text)
			wantError(t, err, tt.wantErr)
			if got != tt.want {
				t.Errorf("got %#x, want %#x", got, tt.want)
			}
		})
	}
}

// wantError fails unless err says part; part "" means that there has to be no error.
func wantError(t *testing.T, err error, part string) {
	t.Helper()
	switch {
	case part == "" && err != nil:
		t.Errorf("error is %q, want none", err)
	case part != "" && (err == nil || !strings.Contains(err.Error(), part)):
		t.Errorf("error is %v, want one that says %q", err, part)
	}
}

func FuzzParseMemTotal(f *testing.F) {
	f.Add("Node 0 MemTotal:       131732940 kB\nNode 0 MemFree: 1 kB\n", "Node 0 MemTotal:")
	f.Add("MemTotal: 1 kB", "MemTotal:")
	f.Add("MemTotal: 18446744073709551615 kB", "MemTotal:")
	f.Fuzz(func(t *testing.T, text, key string) {
		kib, err := parseMemTotal(text, key)
		if err == nil && (kib > maxKiB || !strings.Contains(text, strconv.FormatUint(kib, 10)) || !strings.Contains(text, key)) {
			t.Errorf("%q gives %d KiB", text, kib)
		}
	})
}

func FuzzParseDistances(f *testing.F) {
	f.Add("10 16 32 33\n", 4)
	f.Add("10", 1)
	f.Add("10 0", 2)
	f.Fuzz(func(t *testing.T, text string, nodes int) {
		distances, err := parseDistances(text, nodes)
		if err == nil && (len(distances) != nodes || slices.ContainsFunc(distances, func(d int) bool { return d < 1 })) {
			t.Errorf("%q of %d nodes gives %v", text, nodes, distances)
		}
	})
}

func FuzzParseNames(f *testing.F) {
	for _, seed := range []string{"hugepages-2048kB", "0x020000", "Node: 252\nStatus: online\n", "Node:", "0x", "hugepages-kB"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if kib, err := parseHugePageSize(text); err == nil && (kib == 0 || kib > maxKiB) {
			t.Errorf("%q is a size of %d KiB", text, kib)
		}
		if class, err := parsePCIClass(text); err == nil && class > 0xffffff {
			t.Errorf("%q is class %#x", text, class)
		}
		if node, err := parseNUMAStatus(text); err == nil && node != none && !strings.Contains(text, "Node:") {
			t.Errorf("%q names node %d", text, node)
		}
	})
}
