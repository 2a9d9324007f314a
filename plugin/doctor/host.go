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
// /var/run -> /run has to. What is not there, or cannot be looked at so, is taken by its name.
func (h host) path(name string) string {
	plain := filepath.Join(h.root, name)
	if filepath.Clean(h.root) == "/" {
		return plain
	}
	root, err := unix.Open(h.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return plain
	}
	defer unix.Close(root) //nolint:errcheck // it was only looked at
	fd, err := unix.Openat2(root, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return plain
	}
	defer unix.Close(fd) //nolint:errcheck // it was only looked at
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return plain
	}
	return real
}

func (h host) exists(name string) bool {
	_, err := os.Stat(h.path(name))
	return err == nil
}

// read returns a regular file's content, of at most maxFile bytes.
func (h host) read(name string) ([]byte, error) {
	file, err := os.OpenFile(h.path(name), os.O_RDONLY|unix.O_NONBLOCK, 0)
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
	entries, err := os.ReadDir(h.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
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
