package machine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"nri-cpuset/topology"
)

func TestUnpack(t *testing.T) {
	for name, cpus := range map[string]int{"desktop-1s-4c-8t": 8, "server-2s-2n-12c-24t": 24} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "sys")
			if err := Unpack(filepath.Join("../conformance/testdata/sysfs", name+".tar.gz"), dir); err != nil {
				t.Fatal(err)
			}
			m, err := topology.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Online.Len(); got != cpus {
				t.Errorf("the machine has %d CPUs, want %d", got, cpus)
			}
		})
	}
}

// An archive cannot reach what is beside its directory.
func TestUnpackStaysInside(t *testing.T) {
	for _, test := range []struct {
		name    string
		entries []tar.Header
	}{
		{"a path that leads out", []tar.Header{{Name: "../outside", Typeflag: tar.TypeReg, Size: 1}}},
		{"a path from the root", []tar.Header{{Name: "/outside", Typeflag: tar.TypeReg, Size: 1}}},
		{"through a link", []tar.Header{{Name: "link", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "link/outside", Typeflag: tar.TypeReg, Size: 1}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			top := t.TempDir()
			archive := filepath.Join(top, "archive.tar.gz")
			if err := os.WriteFile(archive, pack(t, test.entries), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := Unpack(archive, filepath.Join(top, "inside")); err == nil {
				t.Error("Unpack() = nil, want an error")
			}
			if _, err := os.Stat(filepath.Join(top, "outside")); err == nil {
				t.Error("a file was written beside the directory")
			}
		})
	}
}

func pack(t *testing.T, entries []tar.Header) []byte {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for i := range entries {
		entries[i].Mode = 0o600
		if err := archive.WriteHeader(&entries[i]); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(make([]byte, entries[i].Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}
