package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"nri-cpuset/plugin"
	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/plugin/simulate"
	"nri-cpuset/test/machine"
	"nri-cpuset/test/nriruntime"
	"nri-cpuset/test/oracle"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

const (
	smallest  = 8 // CPUs that a machine must have to show anything
	described = "server-2s-2n-12c-24t"
	config    = "cpuManagerPolicy: static\nsystemReserved: {cpu: 1500m}\n"

	pluginIndex = "10"
	pluginName  = pluginIndex + "-nri-cpuset"
	patience    = 10 * time.Second
)

// stageOptions are the command's flags.
type stageOptions struct {
	sysfs, examples, machines string
	color                     bool
	out                       io.Writer
}

// stage is a node: a machine, a runtime with its kernel, and the plugin.
type stage struct {
	stageOptions
	dir     string
	machine *topology.Machine
	rt      *nriruntime.Runtime
	oracle  *oracle.Oracle
	picture *simulate.Text
	pods    map[string]*running
	steps   int
	outErr  error // the first that out gave

	drawn          bool
	exclusiveDrawn cpuset.Set // that the latest picture shows

	plugin *plugin.Plugin
	cancel context.CancelFunc
	ended  chan error

	// What the kernel had when the latest container's first instruction ran.
	mu    sync.Mutex
	start nriruntime.Snapshot
}

// running is a pod on the stage.
type running struct {
	pod        *nriruntime.Pod
	containers map[string]*nriruntime.Container
}

func newStage(o stageOptions) (_ *stage, err error) {
	s := &stage{stageOptions: o, pods: map[string]*running{}, oracle: oracle.New(cpuset.Set{})}
	if s.dir, err = os.MkdirTemp("", "nri-cpuset-demo"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := s.setMachine(); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.file("config.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	s.rt, err = nriruntime.Start(nriruntime.Options{
		CPUs: s.machine.Online, Mems: s.machine.NodeIDs(), CgroupFiles: true, Dir: s.dir,
		Hooks: nriruntime.Hooks{Changed: s.changed},
	})
	if err != nil {
		return nil, err
	}
	s.picture = simulate.NewText(s.out, s.machine, s.color)
	return s, s.startPlugin()
}

// setMachine reads the machine: the one that was asked for, this one, or one that is large enough.
func (s *stage) setMachine() (err error) {
	given := s.sysfs != ""
	if !given {
		s.sysfs = "/sys"
	}
	s.machine, err = topology.Read(s.sysfs)
	if given || err == nil && s.machine.Online.Len() >= smallest {
		return err
	}
	if err == nil {
		s.say("This machine has %d CPUs, too few to show anything. A described one stands in: %s.\n", s.machine.Online.Len(), described)
	} else {
		s.say("This machine cannot be read (%v). A described one stands in: %s.\n", err, described)
	}
	s.sysfs = s.file("sys")
	if err := machine.Unpack(filepath.Join(s.machines, described+".tar.gz"), s.sysfs); err != nil {
		return err
	}
	s.machine, err = topology.Read(s.sysfs)
	return err
}

// startPlugin starts the plugin as `nri-cpuset run` does, but in this process, and waits until it is registered.
func (s *stage) startPlugin() error {
	log := logrus.New()
	log.SetOutput(io.Discard)
	p, err := plugin.Open(plugin.Options{
		ConfigFile: s.file("config.yaml"), NodeName: "demo", Socket: s.rt.SocketPath(), Index: pluginIndex,
		Sysfs: s.sysfs, CgroupRoot: s.rt.CgroupRoot(), StateDir: s.file("state"), Log: log,
	})
	if err != nil {
		return err
	}
	s.plugin = p
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.ended = cancel, make(chan error, 1)
	go func() { s.ended <- p.Run(ctx) }()
	wait, stop := context.WithTimeout(ctx, patience)
	defer stop()
	return s.rt.WaitPlugin(wait, pluginName)
}

func (s *stage) stopPlugin() error {
	if s.cancel == nil {
		return nil
	}
	s.cancel()
	s.cancel = nil
	err := <-s.ended
	return errors.Join(err, waitUntil("the runtime notices that the plugin has gone", func() bool { return !s.rt.Connected(pluginName) }))
}

func (s *stage) close() error {
	err := s.stopPlugin()
	if s.rt != nil {
		err = errors.Join(err, s.rt.Close())
	}
	for _, v := range s.oracle.Violations() {
		err = errors.Join(err, fmt.Errorf("this must never be: %s", v))
	}
	if s.picture != nil {
		err = errors.Join(err, s.picture.Err())
	}
	return errors.Join(err, os.RemoveAll(s.dir), s.outErr)
}

// changed watches the kernel.
func (s *stage) changed(now nriruntime.Snapshot) {
	s.oracle.Changed(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if newest(now) != newest(s.start) {
		s.start = now
	}
}

// newest is how many containers run: when that grows, one has just been let go.
func newest(s nriruntime.Snapshot) (n int) {
	for i := range s.Containers {
		if s.Containers[i].Running {
			n++
		}
	}
	return n
}

func (s *stage) atStart() nriruntime.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start
}

// run runs a pod as the kubelet does: its containers in order, init containers to their end. each is called when a container runs.
func (s *stage) run(spec kubepod.Pod, each func(*kubepod.Container, *nriruntime.Container)) error {
	pod, err := s.rt.RunPod(spec)
	if err != nil {
		return err
	}
	r := &running{pod, map[string]*nriruntime.Container{}}
	s.pods[spec.Name] = r
	for i, c := range spec.Ordered() {
		ctr, err := s.rt.Create(pod, c.Name)
		if err != nil {
			return err
		}
		r.containers[c.Name] = ctr
		if err := s.rt.Start(ctr); err != nil {
			return err
		}
		each(c, ctr)
		if i < len(spec.InitContainers) && !c.Sidecar() {
			s.rt.Exit(ctr)
			s.rt.Settle()
		}
	}
	return nil
}

// end ends a pod.
func (s *stage) end(name string) error {
	r := s.pods[name]
	delete(s.pods, name)
	var errs []error
	for _, c := range r.containers {
		errs = append(errs, s.rt.Stop(c))
	}
	return errors.Join(append(errs, s.rt.StopPod(r.pod), s.rt.RemovePod(r.pod))...)
}

// settle waits until the shared containers have all of the pool, which is given to them in the background.
func (s *stage) settle() error {
	return waitUntil("the shared containers have the pool", func() bool {
		now, err := s.rt.Snapshot()
		if err != nil {
			return false
		}
		pool := s.plugin.Node().Snapshot().Shared
		for i := range now.Containers {
			v := &now.Containers[i]
			if oracle.Exclusive(&v.Container.Pod.Spec, v.Asks) == 0 && !v.CPUs.Equal(pool) {
				return false
			}
		}
		return true
	})
}

func waitUntil(what string, done func() bool) error {
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s it is still not so that %s", patience, what)
		}
	}
	return nil
}

func (s *stage) file(name string) string { return filepath.Join(s.dir, name) }

func (s *stage) say(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format, args...); s.outErr == nil {
		s.outErr = err
	}
}
