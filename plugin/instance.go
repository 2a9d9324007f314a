package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// soleInstance waits until no other instance uses the state directory: two that place on one node would place on each other. The lock goes
// with the process, however it ends.
func soleInstance(ctx context.Context, stateDir string, log *logrus.Logger) (unlock func(), err error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		log.WithError(err).Warn("cannot make the state directory; nothing keeps a second instance away")
		return func() {}, nil
	}
	path := filepath.Join(stateDir, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator's --state-dir
	if err != nil {
		log.WithError(err).Warn("cannot make the lock file; nothing keeps a second instance away")
		return func() {}, nil
	}
	for waiting := false; ; waiting = true {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !waiting {
			log.WithField("lock", path).Warn("another instance runs on this node; waiting for it to end")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the other instance: %w", ctx.Err())
		case <-time.After(time.Second):
		}
	}
}
