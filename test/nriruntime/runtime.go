package nriruntime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/topology/cpuset"
)

// Manner is whose way of doing things the runtime has.
type Manner = kubepod.Runtime

// The manners.
const (
	Containerd = kubepod.Containerd
	CRIO       = kubepod.CRIO
)

// Options of a runtime. The zero value is containerd on one CPU of cgroup v2.
type Options struct {
	Manner       Manner
	CgroupDriver kubepod.CgroupDriver
	MemoryBytes  int64 // the node's, for OOM scores

	CPUs cpuset.Set // that are online; empty: CPU 0
	Mems cpuset.Set // the NUMA nodes; empty: node 0

	CgroupV1    bool // cgroup v1's rules, and its layout where there are files
	CgroupFiles bool // keep the kernel's state in files too, under [Runtime.CgroupRoot]

	// NRIVersion is the version of the NRI that plugins are told they talk to; empty: that of this adaptation. Its behaviour is the same.
	NRIVersion string

	Dir  string // of the socket and the cgroup files; empty: a temporary one, which Close removes
	Seed int64  // container and sandbox ids follow from it

	// ExitDelay is how long after its end a container that exits by itself is reported stopped; 0: 10 ms, as was measured of containerd;
	// negative: at once, still from another goroutine.
	ExitDelay time.Duration
	// UpdateTime is what changing one running container takes, while everybody else waits: runc takes 12 ms.
	UpdateTime time.Duration
	// RequestTimeout is how long a plugin may take for a reply; 0: 2 s, as in both runtimes. The adaptation has one for the whole process.
	RequestTimeout time.Duration

	Hooks Hooks
}

// adaptationVersion is that in go.mod. The adaptation itself knows it from the binary's build information, of which tests have none.
const adaptationVersion = "v0.12.5"

// ErrDown is the error of a call to a runtime that is down, or that went down meanwhile.
var ErrDown = errors.New("the runtime is down")

// Runtime is one node's container runtime. Its methods may be called from several goroutines.
type Runtime struct {
	options Options
	node    kubepod.Node
	dir     string
	ownDir  bool
	kernel  *kernel

	// calls holds off Down until the calls that are under way have ended.
	calls sync.RWMutex
	relay *relay // nil while the runtime is down; changed under calls

	late sync.WaitGroup // reports of exits that are still to come

	mu         sync.Mutex
	pods       map[string]*Pod       // by sandbox id
	containers map[string]*Container // by container id
	serial     int
	clock      int64

	plugins plugins
}

// Start starts a runtime, which listens for plugins at once.
func Start(o Options) (*Runtime, error) {
	if o.Manner == "" {
		o.Manner = Containerd
	}
	if o.CPUs.IsEmpty() {
		o.CPUs = cpuset.New(0)
	}
	if o.Mems.IsEmpty() {
		o.Mems = cpuset.New(0)
	}
	if o.NRIVersion == "" {
		o.NRIVersion = adaptationVersion
	}
	if o.ExitDelay == 0 {
		o.ExitDelay = 10 * time.Millisecond
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = adaptation.DefaultPluginRequestTimeout
	}
	adaptation.SetPluginRequestTimeout(o.RequestTimeout)
	r := &Runtime{
		options:    o,
		node:       kubepod.Node{Runtime: o.Manner, CgroupDriver: o.CgroupDriver, MemoryBytes: o.MemoryBytes},
		dir:        o.Dir,
		pods:       map[string]*Pod{},
		containers: map[string]*Container{},
	}
	r.plugins.changed = sync.NewCond(&r.plugins.mu)
	if r.dir == "" {
		var err error
		// Not a test's own directory: a socket's path is 107 bytes long at most.
		if r.dir, err = os.MkdirTemp("", "nri"); err != nil {
			return nil, fmt.Errorf("starting a runtime: %w", err)
		}
		r.ownDir = true
	}
	var err error
	if r.kernel, err = newKernel(o, r.CgroupRoot()); err == nil {
		err = r.Up()
	}
	if err != nil {
		if r.kernel != nil {
			r.kernel.close()
		}
		return nil, errors.Join(fmt.Errorf("starting a runtime: %w", err), r.removeDir())
	}
	return r, nil
}

// Close stops the runtime for good.
func (r *Runtime) Close() error {
	r.Down()
	r.kernel.close()
	return r.removeDir()
}

func (r *Runtime) removeDir() error {
	if !r.ownDir {
		return nil
	}
	return os.RemoveAll(r.dir)
}

// SocketPath returns where plugins connect.
func (r *Runtime) SocketPath() string { return filepath.Join(r.dir, "nri.sock") }

// CgroupRoot returns the directory that has what /sys/fs/cgroup has, where Options.CgroupFiles asks for it.
func (r *Runtime) CgroupRoot() string { return filepath.Join(r.dir, "cgroup") }

// Up brings the runtime up again: its containers are those that run. Plugins have to connect anew.
func (r *Runtime) Up() error {
	r.calls.Lock()
	defer r.calls.Unlock()
	if r.relay != nil {
		return nil
	}
	r.recoverContainers()
	l, err := newRelay(r)
	if err != nil {
		return err
	}
	r.relay = l
	return nil
}

// Down is the end of the runtime's process: plugins lose their connections, calls that are under way fail. The containers go on.
func (r *Runtime) Down() {
	r.calls.RLock()
	l := r.relay
	r.calls.RUnlock()
	if l == nil {
		return
	}
	l.stop()
	r.late.Wait()
	r.calls.Lock()
	defer r.calls.Unlock()
	r.relay = nil
}

// Restart is Down and Up.
func (r *Runtime) Restart() error {
	r.Down()
	return r.Up()
}

// Settle waits until all exits have been reported.
func (r *Runtime) Settle() { r.late.Wait() }

// begin begins a call of the CRI. It returns ErrDown while the runtime is down; otherwise end has to be called. The plugin cannot be
// synchronized meanwhile (PluginSyncBlock): the real runtimes see to that in each of their calls, too.
func (r *Runtime) begin() (l *relay, end func(), err error) {
	r.calls.RLock()
	if r.relay == nil || r.relay.dead.Load() {
		r.calls.RUnlock()
		return nil, nil, ErrDown
	}
	block := r.relay.nri.BlockPluginSync()
	return r.relay, func() {
		block.Unblock()
		r.calls.RUnlock()
	}, nil
}

// recoverContainers is what a runtime does with what it finds when it starts: containers that have ended meanwhile are exited, and nobody is
// told. containerd keeps each container's specification with all updates; CRI-O reads back the one of the creation.
func (r *Runtime) recoverContainers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers {
		if r.options.Manner == CRIO {
			c.spec.Linux.Resources = c.atCreation.Copy()
		}
	}
}

// newID makes an id as the runtimes have them, always the same ones for one seed.
func (r *Runtime) newID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serial++
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d", r.options.Seed, r.serial))
	return hex.EncodeToString(sum[:])
}

// now is a clock that never stands still and never depends on the machine, in nanoseconds. The caller holds r.mu.
func (r *Runtime) now() int64 {
	const start = 1_700_000_000_000_000_000
	r.clock += int64(time.Millisecond)
	return start + r.clock
}

// Containers returns all containers that the runtime has, by creation.
func (r *Runtime) Containers() []*Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*Container, 0, len(r.containers))
	for _, c := range r.containers {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *Container) int { return int(a.spec.CreatedAt - b.spec.CreatedAt) })
	return list
}

// plugins knows who is connected.
type plugins struct {
	mu      sync.Mutex
	changed *sync.Cond
	open    []*connection
}

// WaitPlugin waits until a plugin of this name, as in "10-nri-cpuset", is connected and has been synchronized.
func (r *Runtime) WaitPlugin(ctx context.Context, name string) error {
	stop := context.AfterFunc(ctx, func() {
		r.plugins.mu.Lock()
		defer r.plugins.mu.Unlock()
		r.plugins.changed.Broadcast()
	})
	defer stop()
	r.plugins.mu.Lock()
	defer r.plugins.mu.Unlock()
	for !r.plugins.connected(name) {
		if ctx.Err() != nil {
			return fmt.Errorf("plugin %s is not connected, [%s] are: %w", name, strings.Join(r.plugins.names(), " "), ctx.Err())
		}
		r.plugins.changed.Wait()
	}
	return nil
}

// Connected tells whether a plugin of this name is connected and has been synchronized.
func (r *Runtime) Connected(name string) bool {
	r.plugins.mu.Lock()
	defer r.plugins.mu.Unlock()
	return r.plugins.connected(name)
}

// Disconnect drops the connections of all plugins, as if each had died.
func (r *Runtime) Disconnect() {
	for _, c := range r.plugins.list() {
		c.close()
	}
}

func (p *plugins) connected(name string) bool {
	return slices.Contains(p.names(), name)
}

func (p *plugins) names() []string {
	var names []string
	for _, c := range p.open {
		if c.synchronized {
			names = append(names, c.plugin)
		}
	}
	return names
}

func (p *plugins) list() []*connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.open)
}

var _ adaptation.Metrics = (*relay)(nil)
