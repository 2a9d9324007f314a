package plugin

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"nri-cpuset/config"
	"nri-cpuset/topology"
)

const (
	// onlinePoll is how often the machine's online CPUs are looked at: the kernel sends no event that can be had without privileges.
	onlinePoll = 2 * time.Second
	// settleTime lets an editor, or the kubelet with a ConfigMap's links, finish what it began.
	settleTime = 100 * time.Millisecond
	// reloadPoll looks at the file even if no event came: a watch ends when its directory is replaced.
	reloadPoll = 30 * time.Second
)

// watch follows the configuration file and the online CPUs.
func (p *Plugin) watch(ctx context.Context) error {
	events := make(<-chan fsnotify.Event)
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close() //nolint:errcheck // nothing to lose
		// The directory, not the file: a ConfigMap is changed by swapping a link beside it.
		if err = watcher.Add(filepath.Dir(p.options.ConfigFile)); err == nil {
			events = watcher.Events
		}
	}
	if err != nil {
		p.log.WithError(err).Warn("the configuration cannot be watched, and is polled")
	}
	reload := time.NewTimer(reloadPoll)
	online := time.NewTicker(onlinePoll)
	defer online.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-events:
			reload.Reset(settleTime)
		case <-reload.C:
			p.reload(ctx)
			reload.Reset(reloadPoll)
		case <-online.C:
			p.lookAtOnline(ctx)
		}
	}
}

// reload reads the configuration and puts it in force if it has changed. One that is wrong changes nothing.
func (p *Plugin) reload(ctx context.Context) {
	cfg, err := config.Load(p.options.ConfigFile, p.options.NodeName)
	kubelet, kubeletErr := readKubelet(p.options.KubeletRoot)
	p.locked(ctx, func() {
		if kubeletErr != nil {
			kubelet = p.kubelet
		}
		if err != nil {
			cfg = p.config
		}
		if kubelet != p.kubelet || cfg.String() != p.config.String() {
			p.kubelet = kubelet
			err = errors.Join(err, p.reconfigure(cfg, p.machine, "the configuration has changed"))
		}
		p.configured(err)
	})
}

// configured notes whether the configuration file is good.
func (p *Plugin) configured(err error) {
	if err == nil {
		p.configError.Store(nil)
		return
	}
	text := err.Error()
	if old := p.configError.Swap(&text); old == nil || *old != text {
		p.log.WithError(err).Error("the configuration is not used; the one before stays in force")
		p.metrics.reloadFailed()
	}
}

// lookAtOnline reads the machine anew where its online CPUs are others than before.
func (p *Plugin) lookAtOnline(ctx context.Context) {
	online, err := topology.ReadOnline(p.options.Sysfs)
	if err != nil {
		p.log.WithError(err).Warn("the online CPUs cannot be read")
		return
	}
	p.locked(ctx, func() {
		before := p.machine.Online
		if online.Equal(before) {
			return
		}
		machine, err := topology.Read(p.options.Sysfs)
		if err != nil {
			p.log.WithError(err).Error("the machine cannot be read after its online CPUs have changed")
			return
		}
		p.log.WithField("before", before.String()).WithField("online", machine.Online.String()).Warn("the online CPUs have changed")
		if err := p.reconfigure(p.config, machine, "the online CPUs have changed"); err != nil {
			p.log.WithError(err).Error("the configuration does not fit the CPUs that are online now; the books stay as they are")
		}
	})
}

// reconfigure puts a configuration and a machine in force, and moves what has to move.
func (p *Plugin) reconfigure(cfg *config.Config, machine *topology.Machine, why string) error {
	rules, conflict, err := rulesOf(cfg, machine, p.kubelet)
	if err != nil {
		return err
	}
	if cfg.AuditInterval != p.config.AuditInterval {
		p.background.auditAnew()
	}
	p.config, p.machine = cfg, machine
	p.conflictNoted(conflict)
	p.inForce.Store(cfg)
	p.keepLastGood()
	p.rebuilt(why, p.node.Reconfigure(rules))
	p.metrics.reloaded()
	// Those that only the runtime can change follow when it is called; here there is no request whose reply could carry them.
	if p.changer.cgroups != nil {
		p.changer.settleFiles(everything, math.MaxInt)
	}
	p.background.converge()
	return nil
}
