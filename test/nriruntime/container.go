package nriruntime

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/containerd/nri/pkg/api"

	"nri-cpuset/plugin/kubepod"
)

// State of a container.
type State int

// The states.
const (
	Created State = iota
	Running
	Exited
)

func (s State) String() string { return [...]string{"created", "running", "exited"}[s] }

// Container is one container, from its creation on.
type Container struct {
	Pod     *Pod
	Name    string
	Attempt int // how many containers of this name the pod had before

	id string
	// Under Runtime.mu.
	asks     *kubepod.Container // replaced at a resize, never changed
	state    State
	known    bool // to the runtime: from the end of its creation
	removing bool
	// spec is the runtime's record: what NRI shows. runc is what runc has of it, since the task was made; nil before.
	spec       *api.Container
	runc       *api.LinuxResources
	atCreation *api.LinuxResources
}

// ID returns the container's id.
func (c *Container) ID() string { return c.id }

func (c *Container) String() string {
	return fmt.Sprintf("%s/%s (attempt %d)", c.Pod.Spec.Name, c.Name, c.Attempt)
}

// State returns what the runtime believes the container's state is.
func (r *Runtime) State(c *Container) State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.state
}

// Shown returns the container as NRI would show it now.
func (r *Runtime) Shown(c *Container) *api.Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.shown()
}

// Asks returns what the pod's container of this name asks for by now: as its pod says, or as it was resized. It is not to be changed.
func (r *Runtime) Asks(p *Pod, name string) *kubepod.Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.asks[name]
}

// Create is the CRI's CreateContainer for one of the pod's containers. What plugins want changed of other containers is changed when it
// returns. The error is a plugin's refusal, or that of a hook.
func (r *Runtime) Create(p *Pod, name string) (*Container, error) {
	l, end, err := r.begin()
	if err != nil {
		return nil, err
	}
	c, undo, err := r.create(l, p, name)
	if err != nil && undo && r.options.Manner == Containerd {
		// containerd lets plugins be synchronized again before it takes the creation back.
		end()
		return nil, errors.Join(err, ignoreRefusal(l.undoContainer(c)))
	}
	defer end()
	if err != nil && undo {
		err = errors.Join(err, ignoreRefusal(l.undoContainer(c)))
	}
	if err != nil {
		return nil, err
	}
	// Both runtimes log an error of this one, and go on.
	return c, ignoreRefusal(l.postCreateContainer(c))
}

// create makes a container up to the point where the runtime knows it. undo says whether a failure is to be taken back with plugins.
func (r *Runtime) create(l *relay, p *Pod, name string) (c *Container, undo bool, err error) {
	if c, err = r.newContainer(p, name); err != nil {
		return nil, false, err
	}
	adjust, err := l.createContainer(c)
	if err != nil {
		// CRI-O takes back nothing that plugins did not agree to, containerd everything.
		undo = r.options.Manner == Containerd && !errors.Is(err, ErrDown)
		return c, undo, fmt.Errorf("creating %s: %w", c, err)
	}
	r.mu.Lock()
	c.adjust(adjust)
	r.mu.Unlock()
	if err := r.options.Hooks.at(Replied, c); err != nil {
		return c, true, fmt.Errorf("creating %s: %w", c, err)
	}
	if r.options.Manner == CRIO {
		if err := r.makeTask(c); err != nil {
			return c, false, fmt.Errorf("creating %s: %w", c, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.dead.Load() {
		return c, false, ErrDown
	}
	c.known = true
	c.spec.CreatedAt = r.now()
	r.containers[c.id] = c
	return c, false, nil
}

func (r *Runtime) newContainer(p *Pod, name string) (*Container, error) {
	id := r.newID()
	r.mu.Lock()
	defer r.mu.Unlock()
	asks := p.asks[name]
	if asks == nil {
		return nil, fmt.Errorf("pod %s has no container %q", p.Spec.Name, name)
	}
	c := &Container{Pod: p, Name: name, Attempt: p.attempts[name], id: id, asks: asks}
	p.attempts[name]++
	c.spec = r.node.Container(&p.Spec, asks, p.sandbox, id, c.Attempt)
	return c, nil
}

// adjust applies a plugin's adjustment to the record. What this runtime does not play (mounts, devices, hooks) is passed over.
func (c *Container) adjust(a *api.ContainerAdjustment) {
	for key, value := range a.GetAnnotations() {
		if name, removed := api.IsMarkedForRemoval(key); removed {
			delete(c.spec.Annotations, name)
			continue
		}
		c.spec.Annotations[key] = value
	}
	overlay(c.spec.Linux.Resources, a.GetLinux().GetResources())
	if path := a.GetLinux().GetCgroupsPath(); path != "" {
		c.spec.Linux.CgroupsPath = path
	}
	if score := a.GetLinux().GetOomScoreAdj(); score != nil {
		c.spec.Linux.OomScoreAdj = api.Int(score)
	}
	c.atCreation = c.spec.Linux.Resources.Copy()
}

// makeTask is runc create: from now on the container has a cgroup, with what the record says at this moment.
func (r *Runtime) makeTask(c *Container) error {
	if err := r.options.Hooks.at(MakingTask, c); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.kernel.addContainer(c, c.spec.Linux.Resources); err != nil {
		return fmt.Errorf("runc create: %w", err)
	}
	c.runc = c.spec.Linux.Resources.Copy()
	return nil
}

// Start is the CRI's StartContainer. If it fails, the container is exited on containerd, and removed on CRI-O.
func (r *Runtime) Start(c *Container) error {
	l, end, err := r.begin()
	if err != nil {
		return err
	}
	defer end()
	if s := r.State(c); s != Created {
		return fmt.Errorf("starting %s, which is %s", c, s)
	}
	if err := r.start(l, c); err != nil {
		return fmt.Errorf("starting %s: %w", c, err)
	}
	// Both runtimes log an error of this one, and go on.
	return ignoreRefusal(l.postStartContainer(c))
}

func (r *Runtime) start(l *relay, c *Container) error {
	if r.options.Manner == Containerd {
		if err := r.makeTask(c); err != nil {
			r.exited(c)
			return err
		}
	}
	err := l.startContainer(c)
	if r.options.Manner == CRIO {
		err = ignoreRefusal(err) // CRI-O logs it and goes on
	}
	if err == nil {
		err = r.options.Hooks.at(Starting, c)
	}
	if err == nil {
		err = r.letGo(c)
	}
	if err == nil {
		return nil
	}
	r.exited(c)
	err = errors.Join(err, ignoreRefusal(l.stopContainer(c)))
	if r.options.Manner == CRIO {
		err = errors.Join(err, r.remove(l, c))
	}
	return err
}

func (r *Runtime) letGo(c *Container) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.state != Created {
		return fmt.Errorf("it is %s", c.state)
	}
	c.state = Running
	c.spec.StartedAt = r.now()
	r.kernel.start(c)
	return nil
}

// Exit is a container's end by itself. It is told later, and not at all while the runtime is down.
func (r *Runtime) Exit(c *Container) {
	r.calls.RLock()
	defer r.calls.RUnlock()
	if r.kill(c) && r.relay != nil {
		r.reportExit(r.relay, c)
	}
}

func (r *Runtime) reportExit(l *relay, c *Container) {
	r.late.Go(func() {
		time.Sleep(max(r.options.ExitDelay, 0))
		_ = l.stopContainer(c) // there is nobody to tell
	})
}

// kill ends a container's processes, and tells whether it had any.
func (r *Runtime) kill(c *Container) bool {
	r.mu.Lock()
	has := c.state == Running || c.state == Created && r.options.Manner == CRIO
	r.mu.Unlock()
	if has {
		r.exited(c)
	}
	return has
}

func (r *Runtime) exited(c *Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.state = Exited
	c.spec.FinishedAt = r.now()
	r.kernel.removeContainer(c)
}

// Stop is the CRI's StopContainer.
func (r *Runtime) Stop(c *Container) error {
	l, end, err := r.begin()
	if err != nil {
		return err
	}
	defer end()
	return r.stop(l, c)
}

func (r *Runtime) stop(l *relay, c *Container) error {
	r.kill(c)
	err := l.stopContainer(c)
	if r.options.Manner == Containerd {
		err = ignoreRefusal(err) // containerd logs it and goes on
	}
	return err
}

// Remove is the CRI's RemoveContainer. A container that runs is stopped first.
func (r *Runtime) Remove(c *Container) error {
	l, end, err := r.begin()
	if err != nil {
		return err
	}
	defer end()
	return r.remove(l, c)
}

func (r *Runtime) remove(l *relay, c *Container) error {
	if r.options.Manner == CRIO && !r.podStopped(c.Pod) {
		if err := r.stop(l, c); err != nil {
			return err
		}
	}
	r.kill(c)
	r.mu.Lock()
	c.removing = true
	r.mu.Unlock()
	// Both runtimes log an error of plugins and go on.
	if err := ignoreRefusal(l.removeContainer(c)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kernel.removeContainer(c)
	delete(r.containers, c.id)
	return nil
}

func (r *Runtime) podStopped(p *Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.stopped
}

// UpdateResources is the CRI's UpdateContainerResources: a resize in place. The pod's later attempts at this container ask for the new
// amounts, too.
func (r *Runtime) UpdateResources(c *Container, requests, limits kubepod.Resources) error {
	l, end, err := r.begin()
	if err != nil {
		return err
	}
	defer end()
	r.mu.Lock()
	resized := *c.asks
	r.mu.Unlock()
	resized.Requests, resized.Limits = maps.Clone(requests), maps.Clone(limits)
	asked := r.node.Resources(&resized)
	// In a request to update, unlike in a specification, what is not limited is 0.
	if asked.Cpu.Quota == nil {
		asked.Cpu.Quota = api.Int64(0)
	}
	if asked.Memory.Limit == nil {
		asked.Memory.Limit = api.Int64(0)
	}
	r.kernel.resizing(c, &resized)
	defer r.kernel.resizing(c, nil)
	granted, err := l.updateContainer(c, asked.Copy())
	if err != nil {
		return fmt.Errorf("updating %s: %w", c, err)
	}
	if granted == nil {
		granted = asked // no plugin has anything to say
	}
	if err := r.apply(c, granted, &resized); err != nil {
		return fmt.Errorf("updating %s: %w", c, err)
	}
	return ignoreRefusal(l.postUpdateContainer(c))
}

// apply changes a container's resources in the record, and in the kernel where it has a task. asks is what the container asks for from now
// on, where that is why they change.
func (r *Runtime) apply(c *Container, change *api.LinuxResources, asks *kubepod.Container) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.removing {
		return fmt.Errorf("container %s is being removed", c)
	}
	if asks != nil {
		old := c.asks
		c.asks = asks
		defer func() {
			if err != nil {
				c.asks = old
				return
			}
			c.Pod.asks[c.Name] = asks
		}()
	}
	if r.options.Manner == CRIO {
		if c.state == Exited {
			return nil
		}
		// runc update starts from what runc has, and CRI-O changes its record after. It passes no limits of huge pages on.
		change = change.Copy()
		change.HugepageLimits = nil
		changed := c.runc.Copy()
		overlay(changed, change)
		if err := r.kernel.update(c, changed); err != nil {
			return fmt.Errorf("runc update: %w", err)
		}
		c.runc = changed
		overlay(c.spec.Linux.Resources, change)
		return nil
	}
	// containerd updates the whole specification, and the task only of a container that it believes to be running: between the making of
	// the task and the end of the start that is lost.
	changed := c.spec.Linux.Resources.Copy()
	overlay(changed, change)
	if c.state == Running {
		if err := r.kernel.update(c, changed); err != nil {
			return fmt.Errorf("runc update: %w", err)
		}
		c.runc = changed.Copy()
	}
	c.spec.Linux.Resources = changed
	return nil
}

// shown is the container as NRI shows it. The caller holds Runtime.mu.
func (c *Container) shown() *api.Container {
	s := clone(c.spec)
	switch {
	case !c.known:
		s.State = api.ContainerState_CONTAINER_UNKNOWN
	case c.state == Created:
		s.State = api.ContainerState_CONTAINER_CREATED
	case c.state == Running:
		s.State = api.ContainerState_CONTAINER_RUNNING
	default:
		s.State = api.ContainerState_CONTAINER_STOPPED
	}
	return s
}

// overlay changes what a change names, as both runtimes do: what is 0 or empty stays. Limits of huge pages are appended, even if there is one
// of that size (containerd's WithResources).
func overlay(r, change *api.LinuxResources) {
	if cpu := change.GetCpu(); cpu != nil {
		if r.Cpu == nil {
			r.Cpu = &api.LinuxCPU{}
		}
		if v := cpu.GetShares().GetValue(); v != 0 {
			r.Cpu.Shares = api.UInt64(v)
		}
		if v := cpu.GetQuota().GetValue(); v != 0 {
			r.Cpu.Quota = api.Int64(v)
		}
		if v := cpu.GetPeriod().GetValue(); v != 0 {
			r.Cpu.Period = api.UInt64(v)
		}
		if v := cpu.GetCpus(); v != "" {
			r.Cpu.Cpus = v
		}
		if v := cpu.GetMems(); v != "" {
			r.Cpu.Mems = v
		}
	}
	if v := change.GetMemory().GetLimit().GetValue(); v != 0 {
		if r.Memory == nil {
			r.Memory = &api.LinuxMemory{}
		}
		r.Memory.Limit = api.Int64(v)
	}
	r.HugepageLimits = append(r.HugepageLimits, change.GetHugepageLimits()...)
	if len(change.GetUnified()) > 0 {
		if r.Unified == nil {
			r.Unified = map[string]string{}
		}
		maps.Copy(r.Unified, change.GetUnified())
	}
}
