package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"nri-cpuset/test/e2e/cgroup"
)

// sayAllowed is the default command's first act: the process says, of itself and before it starts any other, where the kernel lets it run.
const sayAllowed = `while read -r key value; do case $key in *_allowed_list:) echo "$key $value"; esac; done </proc/self/status; `

// Container is a container that was created.
type Container struct {
	Spec       ContainerSpec
	CreateTime time.Duration // how long CreateContainer took

	pod     *Pod
	id      string
	logName string
}

// Cgroup returns the container's cgroup: with the cgroupfs driver, its id below the pod's.
func (c *Container) Cgroup() string { return filepath.Join(c.pod.Cgroup, c.id) }

// Name returns pod/container, for messages.
func (c *Container) Name() string { return c.pod.Spec.Name + "/" + c.Spec.Name }

// ID returns the runtime's id of the container.
func (c *Container) ID() string { return c.id }

// Pod returns the pod that the container is in.
func (c *Container) Pod() *Pod { return c.pod }

// Kernel returns what the kernel's files say of the container's cgroup.
func (c *Container) Kernel() (cgroup.State, error) { return c.pod.node.Cgroups.Read(c.Cgroup()) }

// EffectiveCPUs returns where the kernel lets the container's cgroup run, and nothing else, for those that ask often.
func (c *Container) EffectiveCPUs() (string, error) {
	return c.pod.node.Cgroups.EffectiveCPUs(c.Cgroup())
}

// Running tells whether there are processes in the container's cgroup.
func (c *Container) Running() bool {
	pids, err := c.pod.node.Cgroups.Processes(c.Cgroup())
	return err == nil && len(pids) > 0
}

// AllowedCPUs returns the CPUs on which the kernel lets the container's processes run, each of them: Cpus_allowed_list of their status files.
// It is an error if they differ or if there are none.
func (c *Container) AllowedCPUs() (string, error) {
	pids, err := c.pod.node.Cgroups.Processes(c.Cgroup())
	if err != nil {
		return "", err
	}
	var all string
	for _, pid := range pids {
		one, err := cgroup.AllowedCPUs(pid)
		if err != nil {
			return "", err
		}
		if all != "" && one != all {
			return "", fmt.Errorf("the processes of %s may run on different CPUs: %s, and %s (process %d)", c.Name(), all, one, pid)
		}
		all = one
	}
	if all == "" {
		return "", fmt.Errorf("%s has no processes", c.Name())
	}
	return all, nil
}

// Start lets the container's first process become its command.
func (c *Container) Start(ctx context.Context) error {
	if _, err := c.pod.node.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: c.id}); err != nil {
		return fmt.Errorf("start %s: %w", c.Name(), err)
	}
	return nil
}

// Says waits until the container has said Cpus_allowed_list or Mems_allowed_list of itself, and returns its value. Only the default command
// does so.
func (c *Container) Says(ctx context.Context, key string) (string, error) {
	path := filepath.Join(c.pod.config.GetLogDirectory(), c.logName)
	for {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(string(text)) {
			// The CRI's log format: time stream tag text.
			fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
			if len(fields) < 4 {
				continue
			}
			if value, ok := strings.CutPrefix(fields[3], key+": "); ok {
				return value, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%s did not say %s: %w; it said:\n%s", c.Name(), key, ctx.Err(), text)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Update changes the container's resources while it runs, as an in-place resize does: the kernel of cgroup v1 wants the pod's quota to be at
// least the container's at every moment.
func (c *Container) Update(ctx context.Context, r Resources) error {
	before := c.pod.Spec.total().MilliCPULimit
	c.pod.note(c.Spec.Name, r)
	after := c.pod.Spec.total().MilliCPULimit
	grows := after == 0 || before > 0 && after > before
	if grows {
		if err := c.pod.limit(); err != nil {
			return err
		}
	}
	_, err := c.pod.node.runtime.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{ContainerId: c.id, Linux: r.toCRI()})
	if err != nil {
		c.pod.note(c.Spec.Name, c.Spec.Resources)
		return errors.Join(fmt.Errorf("update %s: %w", c.Name(), err), c.pod.limit())
	}
	c.Spec.Resources = r
	if !grows {
		return c.pod.limit()
	}
	return nil
}

// Stop kills the container without grace: its command would not heed it. Its pod stays.
func (c *Container) Stop(ctx context.Context) error {
	if _, err := c.pod.node.runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: c.id}); err != nil {
		return fmt.Errorf("stop %s: %w", c.Name(), err)
	}
	return nil
}

// WaitExit waits until the container has no process left.
func (c *Container) WaitExit(ctx context.Context) error {
	for c.Running() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s still runs: %w", c.Name(), ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// Remove removes the container from the runtime. Its pod stays.
func (c *Container) Remove(ctx context.Context) error {
	if _, err := c.pod.node.runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: c.id}); err != nil {
		return fmt.Errorf("remove %s: %w", c.Name(), err)
	}
	delete(c.pod.containers, c.id)
	return nil
}
