package nriruntime

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The effective sets follow from those of all groups above, and from what was written a moment ago by a plugin that now reads back what came
// of it. Therefore they are pipes with names, and whoever reads one is answered at that moment.

// serveEffective makes a group's file with its effective CPUs, and answers its readers until the group is gone.
func (k *kernel) serveEffective(g *group) error {
	name := k.files.effectiveCPUs(g.dir)
	if err := unix.Mkfifo(name, 0o600); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("making %s: %w", name, err)
	}
	go func() {
		for k.answer(g, name) {
		}
	}()
	return nil
}

// answer waits for a reader and answers it. It is false when there will be no more.
func (k *kernel) answer(g *group, name string) bool {
	pipe, err := os.OpenFile(name, os.O_WRONLY, 0) // returns when somebody opens it for reading
	if err != nil || g.gone.Load() {
		if err == nil {
			_ = pipe.Close()
		}
		return false
	}
	defer pipe.Close() //nolint:errcheck // a reader that has gone needs no answer
	// Each pipe is for one reader: the next one has another, under the same name.
	next := name + ".next"
	if err := unix.Mkfifo(next, 0o600); err != nil {
		return false
	}
	if err := os.Rename(next, name); err != nil {
		return false
	}
	if g.gone.Load() { // release may have looked at the one before
		_ = os.Remove(name)
		return false
	}
	_, _ = pipe.WriteString(k.read(g).String() + "\n") // likewise
	return true
}

// release lets go of whoever waits at a pipe that is about to be removed: its server, and a reader that has come too late.
func (f *files) release(name string) {
	const lateComers = 50 * time.Millisecond
	pipe, err := os.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	_ = os.Remove(name) // the directory goes, too
	time.AfterFunc(lateComers, func() { _ = pipe.Close() })
}
