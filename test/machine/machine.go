// Package machine lays out the sysfs trees that test/conformance/testdata has packed, so that a program can be given them as its /sys.
package machine

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxFile bounds a file of a tree: those of sysfs have a page at most, and lists of large machines a few.
const maxFile = 1 << 20

// Unpack unpacks a tree, a .tar.gz with files, directories and links, into a directory, which it makes. Nothing is written outside of it.
func Unpack(archive, dir string) error {
	if err := unpack(archive, dir); err != nil {
		return fmt.Errorf("unpacking %s: %w", archive, err)
	}
	return nil
}

func unpack(archive, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for entries := tar.NewReader(unzipped); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(root, header, entries); err != nil {
			return err
		}
	}
}

func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	name := filepath.Clean(header.Name)
	if header.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, 0o750)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	case tar.TypeReg:
		text, err := io.ReadAll(io.LimitReader(content, maxFile))
		if err != nil {
			return err
		}
		return root.WriteFile(name, text, 0o600)
	}
	return nil
}
