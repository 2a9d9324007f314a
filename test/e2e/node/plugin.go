package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Plugin is nri-cpuset as a process of its own.
type Plugin struct {
	process process
	config  string
	address string
}

// StartPlugin starts nri-cpuset with this configuration file's text and waits until it is ready: registered, and told of what runs. The flags
// come after those that the node needs, and go before them.
func (n *Node) StartPlugin(ctx context.Context, config string, flags ...string) (*Plugin, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plugin{config: filepath.Join(n.dir, "config.yaml"), address: address}
	if err := p.Configure(config); err != nil {
		return nil, err
	}
	p.process = process{
		name: "nri-cpuset",
		args: append([]string{
			filepath.Join(n.opts.Bin, "nri-cpuset"), "run",
			"--config", p.config,
			"--node-name", "e2e",
			"--nri-socket", n.NRISocket(),
			"--state-dir", filepath.Join(n.run, "nri-cpuset"),
			"--listen", address,
		}, flags...),
		logFile: filepath.Join(n.dir, "nri-cpuset.log"),
	}
	n.plugin = p
	return p, p.Start(ctx)
}

// Configure replaces the configuration file.
func (p *Plugin) Configure(config string) error {
	next := p.config + ".next"
	if err := os.WriteFile(next, []byte(config), 0o600); err != nil {
		return err
	}
	return os.Rename(next, p.config)
}

// Start starts the plugin again after it was killed.
func (p *Plugin) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return p.process.start(ctx, p.Ready)
}

// Kill ends the plugin with SIGKILL, wherever it is just now.
func (p *Plugin) Kill() error { return p.process.signal(syscall.SIGKILL) }

// Stop ends the plugin with SIGTERM, as the kubelet does.
func (p *Plugin) Stop() error { return p.process.signal(syscall.SIGTERM) }

// Hang stops the process without ending it, as a machine does that is out of memory.
func (p *Plugin) Hang() error { return p.process.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a process go on that hangs.
func (p *Plugin) Resume() error { return p.process.cmd.Process.Signal(syscall.SIGCONT) }

// Running tells whether the process is there.
func (p *Plugin) Running() bool { return p.process.running() }

// Log returns everything that the plugin has written.
func (p *Plugin) Log() string { return p.process.log() }

// Ready asks /readyz. The error says what the plugin waits for.
func (p *Plugin) Ready(ctx context.Context) error {
	_, err := p.Get(ctx, "/readyz")
	return err
}

// WaitReady waits until the plugin is ready, as after a restart of containerd.
func (p *Plugin) WaitReady(ctx context.Context) error {
	for {
		err := p.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the plugin is not ready: %w; its log ends with:\n%s", err, p.process.logTail())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Get asks the plugin's HTTP server. Any status but 200 is an error.
func (p *Plugin) Get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, reply.Status, body)
	}
	return body, err
}

// freeAddress returns an address on which nobody listens just now.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address := listener.Addr().String()
	return address, errors.Join(listener.Close())
}
