package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"nri-cpuset/topology/cpuset"
)

// maxFile bounds what is read of one file. The longest that the kernel writes here, a list of 8,192 CPUs, is under 40 KiB.
const maxFile = 64 << 10

// tree is the kernel's files below some folder: /sys, or a fixture. Nothing outside of that folder is read, whatever its links say.
type tree struct {
	root *os.Root
	name string // of the folder, for errors
}

func openTree(name string) (tree, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return tree{}, err
	}
	return tree{root: root, name: name}, nil
}

// proc is the tree of the proc folder beside that of sysfs: /proc for /sys.
func (t tree) proc() (tree, error) { return openTree(path.Join(t.name, "../proc")) }

func (t tree) close() { _ = t.root.Close() }

func (t tree) path(name string) string { return path.Join(t.name, name) }

// named gives an error of the operating system the whole path, where os.Root knows a part of it only.
func (t tree) named(name string, err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: pathErr.Op, Path: t.path(name), Err: pathErr.Err}
	}
	return fmt.Errorf("%s: %w", t.path(name), err)
}

// folder is an open directory. What is in it is opened by its bare name, so that os.Root need not walk the whole path anew for each of the
// thousands of files of a large machine.
type folder struct {
	file *os.File
	name string
}

// folder opens a directory by its path, and follows links on the way that stay inside the tree.
func (t tree) folder(name string) (folder, error) {
	file, err := t.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return folder{}, t.named(name, err)
	}
	return folder{file: file, name: t.path(name)}, nil
}

// folder opens a directory that is in f itself, and is no link.
func (f folder) folder(name string) (folder, error) {
	fd, err := openAt(int(f.file.Fd()), name, unix.O_DIRECTORY)
	if err != nil {
		return folder{}, &fs.PathError{Op: "open", Path: f.path(name), Err: err}
	}
	return folder{file: os.NewFile(uintptr(fd), name), name: f.path(name)}, nil
}

func (f folder) close() { _ = f.file.Close() }

func (f folder) path(name string) string { return path.Join(f.name, name) }

// names lists the folder in the order of the file system.
func (f folder) names() ([]string, error) {
	names, err := f.file.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return names, nil
}

// read returns the text of a file that is in the folder itself, without the line end and the NUL that some kernels write after it.
// Where there is no such file, the error is fs.ErrNotExist.
func (f folder) read(name string) (string, error) {
	text, err := readAt(int(f.file.Fd()), name)
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: f.path(name), Err: err}
	}
	return strings.TrimRight(text, " \n\x00"), nil
}

// readAt reads by the bare system calls. os.File would register each file for polling first, which sysfs files support and nobody needs.
func readAt(folder int, name string) (string, error) {
	// O_NONBLOCK: a pipe in the file's place must not stop us.
	fd, err := openAt(folder, name, unix.O_NONBLOCK)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	buffer := make([]byte, 0, 512)
	for {
		if len(buffer) == cap(buffer) {
			buffer = append(buffer, 0)[:len(buffer)]
		}
		n, err := retry(func() (int, error) { return unix.Read(fd, buffer[len(buffer):cap(buffer)]) })
		if err != nil {
			return "", err
		}
		if n == 0 {
			return string(buffer), nil
		}
		buffer = buffer[:len(buffer)+n]
		if len(buffer) > maxFile {
			return "", fmt.Errorf("it is larger than %d bytes, which the kernel never writes here", maxFile)
		}
	}
}

// openAt opens what is in a folder itself, and no link to anywhere else.
func openAt(folder int, name string, flags int) (fd int, err error) {
	if name == "" || name == ".." || strings.Contains(name, "/") {
		return 0, fs.ErrInvalid
	}
	return retry(func() (int, error) {
		return unix.Openat(folder, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|flags, 0)
	})
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// integer reads a file that holds one number.
func (f folder) integer(name string) (int, error) {
	text, err := f.read(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is no number", f.path(name), clip(text))
	}
	return n, nil
}

// list reads a file in the kernel's list format.
func (f folder) list(name string) (cpuset.Set, error) {
	text, err := f.read(name)
	if err != nil {
		return cpuset.Set{}, err
	}
	set, err := cpuset.Parse(text)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("%s: %w", f.path(name), err)
	}
	return set, nil
}

// optionalList is list, with the empty set for a file that is not there.
func (f folder) optionalList(name string) (cpuset.Set, error) {
	set, err := f.list(name)
	if absent(err) {
		return cpuset.Set{}, nil
	}
	return set, err
}

// attribute is a set of CPUs under the names that kernels of different age give it, the one to look for first in front. It is in the list
// format where its name ends in "list", and else a mask.
type attribute []string

// set reads the first file of an attribute that is there, and tells which file that was.
func (f folder) set(a attribute) (sharing, error) {
	for _, name := range a {
		text, err := f.read(name)
		if absent(err) {
			continue
		}
		if err != nil {
			return sharing{}, err
		}
		parse := cpuset.ParseMask
		if strings.HasSuffix(name, "list") {
			parse = cpuset.Parse
		}
		set, err := parse(text)
		if err != nil {
			return sharing{}, fmt.Errorf("%s: %w", f.path(name), err)
		}
		return sharing{cpus: set, file: f.path(name)}, nil
	}
	return sharing{}, &fs.PathError{Op: "read", Path: f.path(a[0]), Err: unix.ENOENT}
}

// readEach reads n things, a few at the same time, and returns them in order, or the error of the first of them that cannot be read.
func readEach[T any](n int, read func(i int) (T, error)) ([]T, error) {
	workers := min(4, runtime.GOMAXPROCS(0))
	things, errs := make([]T, n), make([]error, n)
	var wait sync.WaitGroup
	for worker := range workers {
		wait.Go(func() {
			for i := worker; i < n; i += workers {
				things[i], errs[i] = read(i)
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return things, nil
}

// sharing is which CPUs share something, by the word of one file.
type sharing struct {
	cpus cpuset.Set
	file string
}

// absent tells a file that is not there, because the kernel has no such feature or because its CPU or device just went, from one that
// cannot be read.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// clip bounds how much of a bad text an error repeats.
func clip(text string) string {
	const maxShown = 64
	if len(text) > maxShown {
		return text[:maxShown] + "..."
	}
	return text
}
