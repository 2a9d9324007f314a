package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// host is a node's files, below a root.
type host struct {
	root string
}

// maxFile bounds what is read of one file.
const maxFile = 1 << 20

// path returns where a file of the node is for us. Links are followed as on the node itself: an absolute one begins at the root again, as
// /var/run -> /run has to. The error is that of opening it there.
func (h host) path(name string) (string, error) {
	if filepath.Clean(h.root) == "/" {
		_, err := os.Stat(name)
		return name, err
	}
	fail := func(err error) (string, error) { return "", &fs.PathError{Op: "open", Path: name, Err: err} }
	root, err := unix.Open(h.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(root) //nolint:errcheck // it was only looked at
	fd, err := unix.Openat2(root, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return fail(err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was only looked at
	resolved, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return fail(err)
	}
	return resolved, nil
}

func (h host) exists(name string) bool {
	_, err := h.path(name)
	return err == nil
}

// writable returns why we cannot write a file or directory of the node; nil where we can.
func (h host) writable(name string) error {
	path, err := h.path(name)
	if err == nil {
		err = unix.Access(path, unix.W_OK)
	}
	return err
}

// read returns a regular file's content, of at most maxFile bytes.
func (h host) read(name string) ([]byte, error) {
	path, err := h.path(name)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) //nolint:gosec // the node's, by a name of ours or the operator's
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	if info, err := file.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return text, err
}

// names lists a directory; nothing where it is not there.
func (h host) names(dir string) ([]string, error) {
	path, err := h.path(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// glob returns the files on the node whose path matches a pattern of [filepath.Match] in its last part.
func (h host) glob(pattern string) []string {
	dir, last := filepath.Split(pattern)
	names, _ := h.names(dir) // a directory that cannot be read has nothing for us
	var found []string
	for _, name := range names {
		if ok, err := filepath.Match(last, name); ok && err == nil {
			found = append(found, filepath.Join(dir, name))
		}
	}
	return found
}
