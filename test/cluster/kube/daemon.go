package kube

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// startTimeout is how long a daemon may take until it is ready. On an idle machine the API server, the slowest, takes 5 s.
const startTimeout = 3 * time.Minute

// Daemon is a program of Kubernetes that runs until the test ends it.
type Daemon struct {
	args    []string
	logFile string
	// healthz is asked until it answers 200; the token is sent along.
	healthz, token string

	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
}

// Name is the program's.
func (d *Daemon) Name() string { return filepath.Base(d.args[0]) }

// Start starts the daemon, for the first time or after [Daemon.Kill], and waits until it is healthy.
func (d *Daemon) Start(ctx context.Context) error {
	log, err := os.OpenFile(d.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()                             //nolint:errcheck // the daemon has its own descriptor
	cmd := exec.Command(d.args[0], d.args[1:]...) //nolint:gosec,noctx // it lives until the test ends it
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its exit status is in ProcessState
		close(gone)
	}()
	d.cmd, d.gone = cmd, gone

	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := d.healthy(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-gone:
			return fmt.Errorf("%s ended while starting (%v):\n%s", d.Name(), cmd.ProcessState, d.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not healthy after %v: %w; its log ends with:\n%s", d.Name(), startTimeout, err, d.LogTail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// client asks the daemons of this very test, on the loopback device of a network that nobody else is in.
var client = &http.Client{
	Timeout:   2 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, //nolint:gosec // see above
}

func (d *Daemon) healthy(ctx context.Context) error {
	_, err := get(ctx, d.healthz, d.token)
	return err
}

// GetJSON asks one of the daemons that want no token.
func GetJSON(ctx context.Context, url string, to any) error {
	body, err := get(ctx, url, "")
	if err != nil {
		return err
	}
	return json.Unmarshal(body, to)
}

func get(ctx context.Context, url, token string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	reply, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, reply.Status, body)
	}
	return body, err
}

// Kill ends the daemon with SIGKILL, wherever it is just now.
func (d *Daemon) Kill() error { return d.signal(syscall.SIGKILL) }

// Stop ends the daemon with SIGTERM.
func (d *Daemon) Stop() error { return d.signal(syscall.SIGTERM) }

// Running tells whether the process is there.
func (d *Daemon) Running() bool {
	if d == nil || d.cmd == nil {
		return false
	}
	select {
	case <-d.gone:
		return false
	default:
		return true
	}
}

func (d *Daemon) signal(s syscall.Signal) error {
	if !d.Running() {
		return fmt.Errorf("%s is not running; its log ends with:\n%s", d.Name(), d.LogTail())
	}
	if err := d.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", d.Name(), err)
	}
	select {
	case <-d.gone:
		return nil
	case <-time.After(30 * time.Second):
		return fmt.Errorf("%s is still there 30 s after %v", d.Name(), s)
	}
}

// LogTail returns the last lines that the daemon has written.
func (d *Daemon) LogTail() string {
	text, err := os.ReadFile(d.logFile)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}
