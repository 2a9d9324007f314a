package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a daemon that the tests start, kill and start again. Its standard output and error are appended to one file.
type process struct {
	name    string
	args    []string
	logFile string

	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
}

// start starts the process and waits until ready returns nil.
func (p *process) start(ctx context.Context, ready func(context.Context) error) error {
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.args[0], p.args[1:]...) //nolint:gosec // it lives until the test ends it
	cmd.Stdout, cmd.Stderr = log, log
	// The daemons start others by name: the shim, runc.
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(p.args[0])+":"+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	p.cmd, p.gone = cmd, gone

	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-gone:
			return fmt.Errorf("%s ended while starting (%v):\n%s", p.name, cmd.ProcessState, p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; its log ends with:\n%s", p.name, err, p.logTail())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// signal sends a signal and waits for the end of the process.
func (p *process) signal(s syscall.Signal) error {
	if !p.running() {
		return fmt.Errorf("%s is not running", p.name)
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	select {
	case <-p.gone:
		return nil
	case <-time.After(20 * time.Second):
		return fmt.Errorf("%s is still there 20 s after %v", p.name, s)
	}
}

func (p *process) log() string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (p *process) logTail() string {
	lines := strings.Split(strings.TrimSpace(p.log()), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
