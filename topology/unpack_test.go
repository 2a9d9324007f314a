package topology_test

import (
	"archive/tar"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machinesFolder has sysfs trees of real machines, which may not be committed.
const machinesFolder = "../../shared/machines"

// conformanceFolder has machines described and as sysfs trees.
const conformanceFolder = "../test/conformance/testdata"

// unpack puts a .tar.gz or .tar.bz2 of files into a folder of the test's own.
func unpack(t testing.TB, archive string) string {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain := bzip2.NewReader(file)
	if strings.HasSuffix(archive, ".gz") {
		if plain, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	folder := tempFolder(t)
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return folder
		}
		if err == nil {
			err = unpackOne(folder, header, files)
		}
		if err != nil {
			t.Fatalf("%s: %v", archive, err)
		}
	}
}

func unpackOne(folder string, header *tar.Header, content io.Reader) error {
	name := filepath.Join(folder, filepath.FromSlash(header.Name))
	switch header.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return os.Symlink(header.Linkname, name)
	case tar.TypeReg:
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		text, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		return os.WriteFile(name, text, 0o644)
	}
	return nil
}

// tempFolder is t.TempDir() in memory, where the system has that: a machine is thousands of tiny files, which disks are slow with.
func tempFolder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "topology-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return folder
}
