package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nri-cpuset/topology/cpuset"
)

const (
	fileName    = "state.json"
	fileVersion = 1
	// maxFileBytes bounds what is read: 8,192 exclusive containers of 2 KiB.
	maxFileBytes = 16 << 20
)

// Why a state file was not used.
var (
	ErrCorrupt   = errors.New("the state file is corrupt")
	ErrVersion   = errors.New("the state file has another version")
	ErrOtherBoot = errors.New("the state file is of another boot")
)

// File is the state file of one node, in a directory that does not outlive the boot. It holds what was given away; who merely runs in the
// shared pool is not in it, so that its size grows with the exclusive CPUs and not with the pods.
//
// It is replaced as a whole, by rename, so a reader sees the old or the new one. It is not synced to disk: a crash of the machine ends the
// boot that it is about.
type File struct {
	path   string
	bootID string
	err    error // of the last write
	buffer bytes.Buffer
}

// The outer form of the file: the checksum is the CRC-32C of the node's bytes as they stand there.
type envelope struct {
	Version  int             `json:"version"`
	Checksum string          `json:"checksum"`
	Node     json.RawMessage `json:"node"`
}

// The inner form.
type savedNode struct {
	BootID     string      `json:"bootID"`
	Online     cpuset.Set  `json:"online"`
	Reserved   cpuset.Set  `json:"reserved"`
	Withheld   cpuset.Set  `json:"withheld"`
	Shared     cpuset.Set  `json:"shared"`
	Pins       bool        `json:"pins"`
	Containers []Container `json:"containers"`
}

// Loaded is what a state file said.
type Loaded struct {
	Containers []Container
	// Err says why the file was not used, and is nil if it was, or if there was none. It is one of [ErrCorrupt], [ErrVersion],
	// [ErrOtherBoot], an invariant's error, or an error of the file system.
	Err error
	// SetAside is where a file that could not be used was moved.
	SetAside string
}

// OpenFile makes dir where it is not there (mode 0700) and reads the state file in it, for the boot with this ID
// (/proc/sys/kernel/random/boot_id). It always gives a File to go on with: a state file never keeps a node from starting.
func OpenFile(dir, bootID string, now time.Time) (*File, Loaded) {
	f := &File{path: filepath.Join(dir, fileName), bootID: bootID}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.err = fmt.Errorf("making the state directory: %w", err)
		return f, Loaded{Err: f.err}
	}
	_ = os.Chmod(dir, 0o700) //nolint:gosec // a directory; where the kubelet has made it, it is open to all, and the files in it are not
	containers, err := f.load()
	switch {
	case err == nil:
		return f, Loaded{Containers: containers}
	case errors.Is(err, fs.ErrNotExist):
		return f, Loaded{}
	}
	loaded := Loaded{Err: err}
	kind := "corrupt"
	switch {
	case errors.Is(err, ErrOtherBoot):
		return f, loaded // nothing of that boot runs any more: the next write replaces it
	case errors.Is(err, ErrVersion):
		kind = "version"
	}
	aside := fmt.Sprintf("%s.%s-%s", f.path, kind, now.UTC().Format("20060102T150405.000Z"))
	if err := os.Rename(f.path, aside); err == nil {
		loaded.SetAside = aside
	}
	return f, loaded
}

func (f *File) load() ([]Container, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%w: %s has %d bytes, more than %d", ErrCorrupt, f.path, info.Size(), maxFileBytes)
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, err
	}
	n, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	if n.BootID != f.bootID {
		return nil, fmt.Errorf("%s: %w: %q, and this is %q", f.path, ErrOtherBoot, n.BootID, f.bootID)
	}
	return n.Containers, nil
}

// parse reads a state file and makes all checks that need nothing but its text.
func parse(text []byte) (*savedNode, error) {
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if e.Version != fileVersion {
		return nil, fmt.Errorf("%w: %d, where %d is known", ErrVersion, e.Version, fileVersion)
	}
	if sum := checksum(e.Node); sum != e.Checksum {
		return nil, fmt.Errorf("%w: its checksum is %s, its content's is %s", ErrCorrupt, e.Checksum, sum)
	}
	var n savedNode
	if err := json.Unmarshal(e.Node, &n); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	books := books{online: n.Online, reserved: n.Reserved, withheld: n.Withheld, shared: n.Shared, pins: n.Pins}
	for i := range n.Containers {
		books.containers = append(books.containers, &n.Containers[i])
	}
	if err := books.check(); err != nil {
		return nil, err
	}
	return &n, nil
}

// save writes the books. A failure is kept for [Snapshot] and tried again at the next change: the runtime's annotations say the same, so
// nothing is refused for it.
func (n *Node) save() {
	if n.file == nil || !n.unsaved && n.file.err == nil {
		return
	}
	n.unsaved = false
	n.file.err = n.file.write(n.encode())
}

// touch notes that c has changed. The file tells only of what was given away.
func (n *Node) touch(c *Container) {
	c.encoded = nil
	n.unsaved = n.unsaved || c.saved()
}

// saved tells whether the file has an entry for c: for what was given away, and for a resize that a runtime may forget when it is restarted.
func (c *Container) saved() bool {
	return c.Exclusive() || len(c.Placement.Blocks) > 0 || c.CreatedMilliCPU != 0 && c.CreatedMilliCPU != c.Demand.MilliCPU
}

// encode writes the node's inner form. Containers keep their encoded form until they change: with 100 of them, encoding all at every event
// would be most of an event's cost.
func (n *Node) encode() []byte {
	a := n.rules.Allocator
	head, err := json.Marshal(savedNode{
		BootID: n.file.bootID, Online: a.Machine().Online, Reserved: a.Reserved(), Withheld: a.Withheld(), Shared: a.Shared(n.usage),
		Pins: n.rules.pins(),
	})
	if err != nil {
		panic(err) // sets, strings and a bool
	}
	b := &n.file.buffer
	b.Reset()
	b.Write(bytes.TrimSuffix(head, []byte("null}")))
	b.WriteByte('[')
	first := true
	for _, c := range n.containers {
		if !c.saved() {
			continue
		}
		if c.encoded == nil {
			if c.encoded, err = json.Marshal(c); err != nil {
				panic(err) // plain data
			}
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.Write(c.encoded)
	}
	b.WriteString("]}")
	return b.Bytes()
}

func (f *File) write(node []byte) error {
	temporary := f.path + ".new"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // in the operator's --state-dir
	if err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	_, err = fmt.Fprintf(file, `{"version":%d,"checksum":%q,"node":%s}`+"\n", fileVersion, checksum(node), node)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the state file: %w", errors.Join(err, os.Remove(temporary)))
	}
	if err := os.Rename(temporary, f.path); err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	return nil
}

func (f *File) lastError() error {
	if f == nil {
		return nil
	}
	return f.err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(node []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(node, castagnoli)) }
