package nriruntime

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/proto"
)

// relay is what stands between the runtime and the NRI adaptation, in both runtimes nearly the same (internal/nri/nri.go): one lock around
// every event, the replies' updates carried out under it, and a memory of who was told what, so that nobody is told twice of an end.
type relay struct {
	r    *Runtime
	nri  *adaptation.Adaptation
	dead atomic.Bool

	mu    sync.Mutex
	told  map[string]told // by container and, on containerd, sandbox id; what is not there is removed, or older than this process
	syncs *connection     // that was called to synchronize last; under plugins.mu
}

// told is the last that plugins were told of a container or a pod.
type told int

const (
	toldRemoved told = iota
	toldCreated
	toldRunning
	toldStopped
)

func newRelay(r *Runtime) (*relay, error) {
	l := &relay{r: r, told: map[string]told{}}
	name, version := "containerd", "v2.4.2"
	if r.options.Manner == CRIO {
		name, version = "cri-o", "1.34.0"
	}
	var err error
	l.nri, err = adaptation.New(name, version, l.syncPlugin, l.updateFromPlugin,
		adaptation.WithSocketPath(r.SocketPath()),
		adaptation.WithPluginPath(filepath.Join(r.dir, "plugins")),
		adaptation.WithPluginConfigPath(filepath.Join(r.dir, "conf")),
		adaptation.WithTTRPCOptions([]ttrpc.ClientOpts{l.newConnection}, nil),
		adaptation.WithMetrics(l),
	)
	if err != nil {
		return nil, err
	}
	return l, l.nri.Start()
}

// stop ends everything that the process would take with it.
func (l *relay) stop() {
	l.dead.Store(true)
	closed := make(chan struct{})
	go func() {
		l.nri.Stop() // waits for the call to a plugin that is under way
		close(closed)
	}()
	for {
		for _, c := range l.r.plugins.list() {
			c.close()
		}
		select {
		case <-closed:
			if len(l.r.plugins.list()) == 0 {
				return
			}
		case <-time.After(time.Millisecond):
		}
	}
}

// event relays one event, under the lock.
func (l *relay) event(f func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead.Load() {
		return ErrDown
	}
	err := f()
	if l.dead.Load() {
		return ErrDown
	}
	return err
}

func (l *relay) runPodSandbox(p *Pod) error {
	return l.event(func() error {
		err := l.nri.RunPodSandbox(about(p, nil), &api.RunPodSandboxRequest{Pod: clone(p.sandbox)})
		l.tell(p.ID(), toldRunning)
		return err
	})
}

// stopPodSandbox and removePodSandbox: containerd remembers the pods that it was told of, and is silent on others.
func (l *relay) stopPodSandbox(p *Pod) error {
	return l.event(func() error {
		if l.r.options.Manner == Containerd && !l.needsStopping(p.ID()) {
			return nil
		}
		err := l.nri.StopPodSandbox(about(p, nil), &api.StopPodSandboxRequest{Pod: clone(p.sandbox)})
		l.tell(p.ID(), toldStopped)
		return err
	})
}

func (l *relay) removePodSandbox(p *Pod) error {
	return l.event(func() error {
		if l.r.options.Manner == Containerd && !l.needsRemoval(p.ID()) {
			return nil
		}
		err := l.nri.RemovePodSandbox(about(p, nil), &api.RemovePodSandboxRequest{Pod: clone(p.sandbox)})
		l.tell(p.ID(), toldRemoved)
		return err
	})
}

func (l *relay) createContainer(c *Container) (adjust *api.ContainerAdjustment, err error) {
	err = l.event(func() error {
		reply, err := l.nri.CreateContainer(about(c.Pod, c), &api.CreateContainerRequest{Pod: clone(c.Pod.sandbox), Container: l.r.Shown(c)})
		l.tell(c.id, toldCreated)
		if err != nil {
			return err
		}
		adjust = reply.GetAdjust()
		return l.applyReply(reply.GetUpdate())
	})
	return adjust, err
}

func (l *relay) postCreateContainer(c *Container) error {
	return l.event(func() error {
		return l.nri.PostCreateContainer(about(c.Pod, c), &api.PostCreateContainerRequest{Pod: clone(c.Pod.sandbox), Container: l.r.Shown(c)})
	})
}

func (l *relay) startContainer(c *Container) error {
	return l.event(func() error {
		err := l.nri.StartContainer(about(c.Pod, c), &api.StartContainerRequest{Pod: clone(c.Pod.sandbox), Container: l.r.Shown(c)})
		l.tell(c.id, toldRunning)
		return err
	})
}

func (l *relay) postStartContainer(c *Container) error {
	return l.event(func() error {
		return l.nri.PostStartContainer(about(c.Pod, c), &api.PostStartContainerRequest{Pod: clone(c.Pod.sandbox), Container: l.r.Shown(c)})
	})
}

// updateContainer returns the resources that plugins make of those asked for; nil if they leave them as they are.
func (l *relay) updateContainer(c *Container, asked *api.LinuxResources) (granted *api.LinuxResources, err error) {
	err = l.event(func() error {
		reply, err := l.nri.UpdateContainer(about(c.Pod, c), &api.UpdateContainerRequest{
			Pod: clone(c.Pod.sandbox), Container: l.r.Shown(c), LinuxResources: asked,
		})
		if err != nil {
			return err
		}
		// The last one is the container's own.
		updates := reply.GetUpdate()
		last := len(updates) - 1
		if last < 0 {
			return nil
		}
		granted = updates[last].GetLinux().GetResources()
		return l.applyReply(updates[:last])
	})
	return granted, err
}

func (l *relay) postUpdateContainer(c *Container) error {
	return l.event(func() error {
		return l.nri.PostUpdateContainer(about(c.Pod, c), &api.PostUpdateContainerRequest{Pod: clone(c.Pod.sandbox), Container: l.r.Shown(c)})
	})
}

func (l *relay) stopContainer(c *Container) error {
	return l.event(func() error { return l.stopLocked(c) })
}

func (l *relay) stopLocked(c *Container) error {
	if !l.needsStopping(c.id) {
		return nil
	}
	reply, err := l.nri.StopContainer(about(c.Pod, c), &api.StopContainerRequest{Pod: clone(c.Pod.sandbox), Container: l.r.Shown(c)})
	l.tell(c.id, toldStopped)
	if err != nil {
		return err
	}
	return l.applyReply(reply.GetUpdate())
}

func (l *relay) removeContainer(c *Container) error {
	return l.event(func() error {
		if !l.needsRemoval(c.id) {
			return nil
		}
		_ = l.stopLocked(c) // logged at most
		err := l.nri.RemoveContainer(about(c.Pod, c), &api.RemoveContainerRequest{Pod: clone(c.Pod.sandbox), Container: l.r.Shown(c)})
		l.tell(c.id, toldRemoved)
		return err
	})
}

// undoContainer takes a failed creation back. An error of one does not keep the other from being told.
func (l *relay) undoContainer(c *Container) error {
	return errors.Join(l.stopContainer(c), l.removeContainer(c))
}

// syncPlugin tells a plugin that has just connected what is there: all pods, and the containers that are created or running.
func (l *relay) syncPlugin(_ context.Context, synchronize adaptation.SyncCB) error {
	return l.event(func() error {
		pods, containers := l.r.list()
		for _, c := range containers {
			if c.GetState() == api.ContainerState_CONTAINER_CREATED {
				l.tell(c.GetId(), toldCreated)
			} else {
				l.tell(c.GetId(), toldRunning)
			}
		}
		updates, err := synchronize(context.Background(), pods, containers)
		if err != nil {
			return err
		}
		// CRI-O drops the plugin if this fails.
		if err := l.applyReply(updates); err != nil {
			return err
		}
		l.synchronized()
		return nil
	})
}

// list returns all pods, and all containers that are created or running, in the order of their ids, which is none.
func (r *Runtime) list() (pods []*api.PodSandbox, containers []*api.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pods {
		pods = append(pods, clone(p.sandbox))
	}
	for _, c := range r.containers {
		if c.state != Exited {
			containers = append(containers, c.shown())
		}
	}
	slices.SortFunc(pods, func(a, b *api.PodSandbox) int { return strings.Compare(a.GetId(), b.GetId()) })
	slices.SortFunc(containers, func(a, b *api.Container) int { return strings.Compare(a.GetId(), b.GetId()) })
	return pods, containers
}

// updateFromPlugin carries out what a plugin wants changed without having been asked. It waits for the lock: from within a handler that is for
// ever.
func (l *relay) updateFromPlugin(_ context.Context, updates []*api.ContainerUpdate) (failed []*api.ContainerUpdate, err error) {
	err = l.event(func() error {
		failed, err = l.apply(updates)
		return err
	})
	return failed, err
}

// applyReply carries out the updates in a reply. Their failure is logged by containerd, and fails the whole event on CRI-O.
func (l *relay) applyReply(updates []*api.ContainerUpdate) error {
	_, err := l.apply(updates)
	if l.r.options.Manner == Containerd {
		return nil
	}
	return err
}

func (l *relay) apply(updates []*api.ContainerUpdate) (failed []*api.ContainerUpdate, err error) {
	for _, u := range updates {
		if err := l.r.update(u); err != nil && !u.GetIgnoreFailure() {
			failed = append(failed, u)
		}
	}
	if len(failed) > 0 {
		return failed, fmt.Errorf("updates of %d of %d containers failed", len(failed), len(updates))
	}
	return nil, nil
}

// update carries out one update. One for a container that the runtime does not know, or not yet, is done at once.
func (r *Runtime) update(u *api.ContainerUpdate) error {
	r.mu.Lock()
	c := r.containers[u.GetContainerId()]
	r.mu.Unlock()
	if c == nil {
		return nil
	}
	time.Sleep(r.options.UpdateTime)
	if r.options.Hooks.Update != nil {
		switch r.options.Hooks.Update(c.id) {
		case Fails:
			return fmt.Errorf("the update of %s was made to fail", c)
		case Pretend:
			return nil
		case Done:
		}
	}
	return r.apply(c, u.GetLinux().GetResources(), nil)
}

func (l *relay) tell(id string, what told) {
	if what == toldRemoved {
		delete(l.told, id)
		return
	}
	l.told[id] = what
}

func (l *relay) needsStopping(id string) bool {
	return l.told[id] == toldCreated || l.told[id] == toldRunning
}

func (l *relay) needsRemoval(id string) bool { return l.told[id] != toldRemoved }

// synchronizing and synchronized are the beginning and the end of a Synchronize; between them the adaptation says, as a metric, whose.
func (l *relay) synchronizing(c *connection) {
	p := &l.r.plugins
	p.mu.Lock()
	defer p.mu.Unlock()
	l.syncs = c
}

func (l *relay) synchronized() {
	p := &l.r.plugins
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.syncs == nil {
		return // the adaptation's own start, without any plugin
	}
	l.syncs.synchronized = true
	p.changed.Broadcast()
}

// RecordPluginInvocation implements adaptation.Metrics, for a plugin's name.
func (l *relay) RecordPluginInvocation(plugin, operation string, _ error) {
	if operation != "Synchronize" {
		return
	}
	p := &l.r.plugins
	p.mu.Lock()
	defer p.mu.Unlock()
	l.syncs.plugin = plugin
}

// RecordPluginLatency implements adaptation.Metrics.
func (*relay) RecordPluginLatency(_, _ string, _ time.Duration) {}

// RecordPluginAdjustments implements adaptation.Metrics.
func (*relay) RecordPluginAdjustments(_, _ string, _ *api.ContainerAdjustment, _, _ int) {}

// UpdatePluginCount implements adaptation.Metrics.
func (*relay) UpdatePluginCount(int) {}

func about(p *Pod, c *Container) context.Context {
	s := subject{pod: p.ID()}
	if c != nil {
		s.container = c.id
	}
	return withSubject(s)
}

// clone copies a message, because the adaptation writes into what it is given.
func clone[M proto.Message](m M) M { return proto.Clone(m).(M) }
