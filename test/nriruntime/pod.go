package nriruntime

import (
	"errors"
	"fmt"

	"github.com/containerd/nri/pkg/api"

	"nri-cpuset/plugin/kubepod"
)

// Pod is a pod's sandbox.
type Pod struct {
	Spec kubepod.Pod

	sandbox *api.PodSandbox
	// Under Runtime.mu.
	stopped  bool
	asks     map[string]*kubepod.Container // by container name: as in Spec, or as resized since
	attempts map[string]int                // by container name
}

// ID returns the sandbox's id.
func (p *Pod) ID() string { return p.sandbox.GetId() }

// UID returns the pod's UID.
func (p *Pod) UID() string { return p.sandbox.GetUid() }

// RunPod is the CRI's RunPodSandbox. A pod that has no UID of its own gets one that no other pod has.
func (r *Runtime) RunPod(spec kubepod.Pod) (*Pod, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	l, end, err := r.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	id := r.newID()
	if spec.UID == "" {
		spec.UID = fmt.Sprintf("%s-%s-%s-%s-%s", id[32:40], id[40:44], id[44:48], id[48:52], id[52:64])
	}
	p := &Pod{Spec: spec, sandbox: r.node.Sandbox(&spec, id), asks: map[string]*kubepod.Container{}, attempts: map[string]int{}}
	for _, c := range spec.Ordered() {
		p.asks[c.Name] = c
	}
	if err := r.kernel.addPod(p); err != nil {
		return nil, err
	}
	if err := l.runPodSandbox(p); err != nil {
		// containerd's cri/nri and CRI-O's server both take it back.
		err = errors.Join(fmt.Errorf("running pod %s: %w", spec.Name, err), ignoreRefusal(l.stopPodSandbox(p)), ignoreRefusal(l.removePodSandbox(p)))
		r.kernel.removePod(p)
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[id] = p
	return p, nil
}

// StopPod is the CRI's StopPodSandbox: it ends what still runs of the pod, and tells of it.
func (r *Runtime) StopPod(p *Pod) error {
	l, end, err := r.begin()
	if err != nil {
		return err
	}
	defer end()
	return r.stopPod(l, p)
}

func (r *Runtime) stopPod(l *relay, p *Pod) error {
	if r.podStopped(p) && r.options.Manner == CRIO {
		return nil
	}
	for _, c := range r.containersOf(p) {
		if !r.kill(c) {
			continue
		}
		if r.options.Manner == CRIO {
			if err := l.stopContainer(c); err != nil {
				return err
			}
			continue
		}
		r.reportExit(l, c) // containerd tells of these as of containers that exit by themselves: later
	}
	if err := l.stopPodSandbox(p); err != nil {
		if errors.Is(err, ErrDown) || r.options.Manner == CRIO {
			return err
		}
		// containerd logs it and goes on.
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.stopped = true
	return nil
}

// RemovePod is the CRI's RemovePodSandbox: it removes what is left of the pod, and tells of it.
func (r *Runtime) RemovePod(p *Pod) error {
	l, end, err := r.begin()
	if err != nil {
		return err
	}
	defer end()
	if err := r.stopPod(l, p); err != nil {
		return err
	}
	for _, c := range r.containersOf(p) {
		if err := r.remove(l, c); err != nil {
			return err
		}
	}
	err = l.removePodSandbox(p)
	if errors.Is(err, ErrDown) {
		return err
	}
	// Both runtimes log any other error and go on.
	r.kernel.removePod(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, p.ID())
	return nil
}

// containersOf returns the containers of a pod, by creation.
func (r *Runtime) containersOf(p *Pod) []*Container {
	var list []*Container
	for _, c := range r.Containers() {
		if c.Pod == p {
			list = append(list, c)
		}
	}
	return list
}

// ignoreRefusal drops an error of a plugin: where a runtime merely logs it. That the runtime is down is not one.
func ignoreRefusal(err error) error {
	if errors.Is(err, ErrDown) {
		return err
	}
	return nil
}
