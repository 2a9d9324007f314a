// Package plugin is the NRI plugin: the one package that knows NRI, cgroups and time.
//
// An event comes in ([Plugin.CreateContainer] and its relatives, events.go), is translated into what the books understand (request.go), is
// decided by them (package state), is carried out on the containers that run (change.go, cgroup.go), and is answered. What must not be done
// while the runtime waits is done in the background (background.go, audit.go). [Plugin.Run] keeps the connection (connect.go) and follows the
// configuration and the machine (watch.go).
package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"nri-cpuset/allocator"
	"nri-cpuset/config"
	"nri-cpuset/state"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// Options say where a plugin finds what it needs. They are the flags of `nri-cpuset run`.
type Options struct {
	ConfigFile string // --config
	NodeName   string // --node-name
	Socket     string // --nri-socket
	Index      string // --plugin-index
	Sysfs      string // --sysfs
	CgroupRoot string // --cgroup-root; empty: cgroups are never written directly
	StateDir   string // --state-dir; empty: nothing is remembered
	Listen     string // --listen; empty: nothing is served
	// PodResources is the kubelet's PodResources socket, --podresources-socket; empty: it is not asked.
	PodResources string
	// KubeletRoot is the kubelet's root directory, --kubelet-root-dir; empty: its managers are not looked for.
	KubeletRoot string
	Version     string

	Log *logrus.Logger
	Now func() time.Time // the clock; nil for the real one
}

// handlerBudget is the longest that a request waits for a decision. The runtime gives us 2 s and would then go on without us.
const handlerBudget = time.Second

// Plugin is the plugin on one node. Its methods that are named after NRI events are the events' handlers.
type Plugin struct {
	options Options
	log     *logrus.Entry
	metrics *metrics
	started time.Time

	// lock serializes handlers and background work. It is a channel so that waiting for it can be given up.
	lock chan struct{}

	// Guarded by lock.
	config     *config.Config
	machine    *topology.Machine
	kubelet    kubeletManagers
	node       *state.Node
	changer    *changer
	runtime    runtimeCaller // nil while not connected, or where calling the runtime is not safe
	background *background
	missing    map[string]bool // containers whose cgroup was not there at the last audit

	devices      devices
	refusals     refusals
	inForce      atomic.Pointer[config.Config]
	configError  atomic.Pointer[string]
	conflict     atomic.Pointer[string] // with the kubelet's own managers
	connected    atomic.Pointer[runtimeInfo]
	synchronized atomic.Bool
}

// New returns a plugin for a machine and a configuration, with books that hold what loaded says. It opens nothing but the cgroup root.
func New(machine *topology.Machine, cfg *config.Config, file *state.File, loaded []state.Container, o Options) (*Plugin, error) {
	if o.Log == nil {
		o.Log = logrus.New()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	kubelet, err := readKubelet(o.KubeletRoot)
	if err != nil {
		o.Log.WithError(err).Warn("whether the kubelet pins containers itself cannot be told")
	}
	rules, conflict, err := rulesOf(cfg, machine, kubelet)
	if err != nil {
		return nil, err
	}
	p := &Plugin{
		options: o, log: o.Log.WithField("node", o.NodeName), metrics: newMetrics(o.Version), started: o.Now(),
		lock: make(chan struct{}, 1), config: cfg, machine: machine, kubelet: kubelet, background: newBackground(),
		devices: devices{sysfs: o.Sysfs, kubelet: podResources{socket: o.PodResources}, log: o.Log.WithField("node", o.NodeName)},
	}
	var groups *cgroups
	if o.CgroupRoot != "" {
		if groups, err = openCgroups(o.CgroupRoot); err != nil {
			return nil, err
		}
	}
	p.node = state.NewNode(rules, file, o.Now)
	p.node.Restore(loaded)
	p.changer = newChanger(p.node, groups, p.log)
	p.metrics.follow(p.node)
	p.inForce.Store(cfg)
	p.conflictNoted(conflict)
	return p, nil
}

// Open reads the configuration, the machine and the state file, and returns the plugin for them.
func Open(o Options) (*Plugin, error) {
	cfg, wrong, err := loadConfig(o)
	if err != nil {
		return nil, err
	}
	machine, err := topology.Read(o.Sysfs)
	if err != nil {
		return nil, err
	}
	file, loaded := state.OpenFile(o.StateDir, bootID(), time.Now())
	p, err := New(machine, cfg, file, loaded.Containers, o)
	if err != nil {
		return nil, err
	}
	p.configured(wrong)
	p.keepLastGood()
	switch {
	case loaded.SetAside != "":
		p.metrics.stateFile()
		p.log.WithError(loaded.Err).WithField("aside", loaded.SetAside).Error("the state file is set aside; the runtime's annotations are used")
	case loaded.Err != nil:
		p.log.WithError(loaded.Err).Warn("the state file is not used")
		p.metrics.stateFile()
	case len(loaded.Containers) > 0:
		p.log.WithField("containers", len(loaded.Containers)).Info("the state file is read")
	}
	p.log.WithFields(logrus.Fields{
		"policy": string(cfg.CPUManagerPolicy), "online": machine.Online.String(), "reserved": p.node.Rules().Allocator.Reserved().String(),
	}).Info("ready to connect")
	return p, nil
}

// rulesOf puts a configuration and a machine together, and says what of it is left to the kubelet.
func rulesOf(cfg *config.Config, machine *topology.Machine, kubelet kubeletManagers) (rules state.Rules, conflict string, err error) {
	policy, err := cfg.Policy()
	if err != nil {
		return state.Rules{}, "", err
	}
	// A reserved CPU that is offline is one the less, and must not keep us from adapting to the others; a number that is no CPU's is a mistake.
	if left := policy.ReservedCPUs.Difference(machine.Offline); !left.IsEmpty() {
		policy.ReservedCPUs = left
	}
	if _, err := allocator.New(machine, policy); err != nil { // before anything is taken out of it
		return state.Rules{}, "", err
	}
	conflict = kubelet.yield(&policy)
	a, err := allocator.New(machine, policy)
	if err != nil {
		return state.Rules{}, "", err
	}
	return state.Rules{
		Allocator:   a,
		ByContainer: cfg.ExclusiveScope == config.ExclusiveScopeContainer,
		Ignores:     cfg.Ignores,
		LiftQuota:   cfg.DisableCPUQuotaWithExclusiveCPUs,
	}, conflict, nil
}

// conflictNoted says that part of the policy is left to the kubelet; "" for none of it.
func (p *Plugin) conflictNoted(conflict string) {
	if conflict == "" {
		p.conflict.Store(nil)
	} else if old := p.conflict.Swap(&conflict); old == nil || *old != conflict {
		p.log.Error(conflict)
	}
	p.metrics.conflict(conflict != "")
}

// bootID is the kernel's name for this boot.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Node returns the books, for readers.
func (p *Plugin) Node() *state.Node { return p.node }

// errBudget is a request that could not be decided in time. Refusing it is better than a reply that comes too late: the runtime would go on
// without it, and with an unpinned container.
var errBudget = errors.New("nri-cpuset could not decide in time and refuses instead of leaving the container unpinned; it is tried again")

// handle runs one event's handler: alone, in time, and without its panic taking the plugin with it.
func (p *Plugin) handle(ctx context.Context, event string, f func() error) (err error) {
	start := time.Now()
	defer func() { p.metrics.handled(event, time.Since(start), err) }()
	ctx, cancel := context.WithTimeout(ctx, handlerBudget)
	defer cancel()
	select {
	case p.lock <- struct{}{}:
	case <-ctx.Done():
		p.log.WithField("event", event).Error(errBudget)
		return errBudget
	}
	defer func() {
		if r := recover(); r != nil {
			p.metrics.panicked()
			p.log.WithFields(logrus.Fields{"event": event, "panic": r, "stack": string(debug.Stack())}).Error("a handler panicked")
			err = fmt.Errorf("nri-cpuset: internal error in %s: %v", event, r)
		}
		<-p.lock
	}()
	if err := f(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		p.log.WithField("event", event).WithField("took", time.Since(start)).Warn("a decision took longer than its budget")
	}
	return nil
}

// locked runs f with the lock held; f does not run if ctx ends first.
func (p *Plugin) locked(ctx context.Context, f func()) {
	select {
	case p.lock <- struct{}{}:
		defer func() { <-p.lock }()
		f()
	case <-ctx.Done():
	}
}

// logOf is the log with a container's fields.
func (p *Plugin) logOf(c *state.Container) *logrus.Entry {
	fields := logrus.Fields{"pod": c.Namespace + "/" + c.Pod, "container": c.Name}
	if c.Exclusive() {
		fields["cpus"] = c.Placement.CPUs.String()
	}
	if mems := c.Placement.Mems(); !mems.IsEmpty() {
		fields["mems"] = mems.String()
	}
	return p.log.WithFields(fields)
}

func orShared(cpus cpuset.Set) string {
	if cpus.IsEmpty() {
		return "shared"
	}
	return cpus.String()
}
