package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"golang.org/x/mod/semver"
	"golang.org/x/sync/errgroup"
)

// pluginName is what we register as; with the index it is 10-nri-cpuset.
const pluginName = "nri-cpuset"

const (
	connectTimeout    = 10 * time.Second // registration has 5 s in the runtime
	firstRetry        = 100 * time.Millisecond
	longestRetry      = 5 * time.Second
	connectionLogging = 30 * time.Second // how often a runtime that stays away is mentioned
)

// runtimeInfo is who we are connected to.
type runtimeInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	NRI     string `json:"nri"`
}

// runtimeCaller is what of the runtime can be called outside of a handler.
type runtimeCaller interface {
	UpdateContainers(updates []*api.ContainerUpdate) (failed []*api.ContainerUpdate, err error)
	Stop()
}

// safeNRI is the first NRI whose runtime side cannot deadlock on an update that it did not ask for; the one before could hang containerd for
// good.
const safeNRI = "v0.12.1"

// Run is `nri-cpuset run`: it waits until it is the only instance, reads what there is to read, and serves until ctx ends.
func Run(ctx context.Context, o Options) error {
	unlock, err := soleInstance(ctx, o.StateDir, o.Log)
	if err != nil {
		return err
	}
	defer unlock()
	p, err := Open(o)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// Run serves until ctx ends: it registers with the runtime, and again whenever the runtime has been away.
func (p *Plugin) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.serve(ctx) })
	group.Go(func() error { p.runBackground(ctx); return nil })
	group.Go(func() error { p.runConverge(ctx); return nil })
	group.Go(func() error { p.runAudit(ctx); return nil })
	group.Go(func() error { return p.watch(ctx) })
	group.Go(func() error { return p.stayConnected(ctx) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// stayConnected connects, waits for the connection to end, and connects again, with growing pauses while the runtime is away.
func (p *Plugin) stayConnected(ctx context.Context) error {
	pause := firstRetry
	var mentioned time.Time
	for {
		start := time.Now()
		err := p.connect(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.metrics.disconnected()
		if time.Since(start) > connectTimeout {
			pause, mentioned = firstRetry, time.Time{}
		}
		if time.Since(mentioned) >= connectionLogging {
			p.log.WithError(err).WithField("socket", p.options.Socket).Warn("not connected to the runtime, trying on")
			mentioned = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, longestRetry)
	}
}

// errConnectionLost is the end of a connection that had been made.
var errConnectionLost = errors.New("the runtime has closed the connection")

// connect registers and returns when the connection has ended. Every connection has a stub of its own: one whose start fails halfway is not
// to be used again.
func (p *Plugin) connect(ctx context.Context) error {
	closed := make(chan struct{})
	dialer := &net.Dialer{Timeout: connectTimeout}
	conn, err := dialer.DialContext(ctx, "unix", p.options.Socket)
	if err != nil {
		return fmt.Errorf("connecting to the NRI socket (is NRI enabled in the runtime?): %w", err)
	}
	defer conn.Close() //nolint:errcheck // it is closed already, or nobody's any more
	s, err := stub.New(p,
		stub.WithPluginName(pluginName),
		stub.WithPluginIdx(p.options.Index),
		stub.WithConnection(conn),
		stub.WithOnClose(func() { close(closed) }),
		stub.WithLogger(stubLogger{p.log}),
		stub.WithFailurePolicy(&api.FailurePolicy{FailRequest: true, KeepConnected: true}),
	)
	if err != nil {
		return fmt.Errorf("making the NRI stub: %w", err)
	}
	// The stub's start waits without a limit for a runtime that registers us and then falls silent; closing the connection does not wake it.
	registered := make(chan error, 1)
	go func() { registered <- s.Start(ctx) }()
	select {
	case err = <-registered:
	case <-time.After(connectTimeout):
		err = fmt.Errorf("the runtime did not configure us within %s", connectTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("registering with the runtime: %w", err)
	}
	p.setRuntime(ctx, s)
	defer p.unsetRuntime()
	select {
	case <-closed:
		return errConnectionLost
	case <-ctx.Done():
		s.Stop()
		return ctx.Err()
	}
}

// setRuntime allows the runtime to be called, where its version is known to bear it.
func (p *Plugin) setRuntime(ctx context.Context, s stub.Stub) {
	version := s.RuntimeNRIVersion()
	safe := semver.IsValid(version) && semver.Compare(version, safeNRI) >= 0
	info := *p.connected.Load()
	info.NRI = version
	p.connected.Store(&info)
	p.log.WithFields(map[string]any{"runtime": info.Name, "version": info.Version, "nri": version, "callable": safe}).Info("connected")
	p.metrics.connected()
	if !safe {
		return
	}
	p.locked(ctx, func() { p.runtime = s })
	p.background.converge()
}

func (p *Plugin) unsetRuntime() {
	p.connected.Store(nil)
	p.synchronized.Store(false)
	p.locked(context.Background(), func() { p.runtime = nil })
}

// Configure is the runtime's answer to our registration. All events we subscribe to are known to every NRI since 0.2, so the mask is the
// stub's own.
func (p *Plugin) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	p.connected.Store(&runtimeInfo{Name: runtime, Version: version})
	return 0, nil
}
