package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/test/nriruntime"
	"nri-cpuset/test/oracle"
	"nri-cpuset/topology/cpuset"
)

// play tells the story.
func (s *stage) play() error {
	s.say("The plugin is registered with a runtime at %s.\nIts configuration:\n\n", s.rt.SocketPath())
	for line := range strings.Lines(config) {
		s.say("    %s", line)
	}
	s.draw()
	for _, scene := range []func() error{
		s.comes("web.yaml", "An ordinary service. It is Burstable, so it runs in the shared pool: on every CPU, as long as nobody has one for itself."),
		s.comes("batch.yaml", "It asks for nothing, and shares the pool with the service."),
		s.comes("database.yaml", "Guaranteed, and a whole number of CPUs: it gets them for itself. Those who ran there leave first."),
		s.comes("trading.yaml", "Two CPUs: the two threads of one core, so that no neighbour shares its caches and pipelines."),
		s.comes("ingest.yaml", "An init container, a sidecar and an app. What the init container is done with goes to those after it."),
		s.pluginRestarts,
		s.ends("database", "Its CPUs go back to the pool, and the shared containers spread out again."),
		s.comes("inference.yaml", "It fills the gap first. Nothing keeps it on one NUMA node: topologyManagerPolicy would."),
		s.refused,
	} {
		if err := scene(); err != nil {
			return err
		}
	}
	s.say("\nWhat would happen to your own pods: bin/nri-cpuset simulate --pods FILE (make build).\n")
	return nil
}

// comes is a scene in which the pods of an example come.
func (s *stage) comes(file, remark string) func() error {
	return func() error {
		text, err := os.ReadFile(filepath.Join(s.examples, file))
		if err != nil {
			return err
		}
		pods, err := kubepod.ParseManifests(text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, pod := range pods {
			if err := s.podComes(pod, remark); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *stage) podComes(pod kubepod.Pod, remark string) error {
	s.heading("pod %s comes: %s", pod.Name, pod.QoS())
	s.say("   %s\n", remark)
	err := s.run(pod, func(c *kubepod.Container, ctr *nriruntime.Container) { s.tell(&pod, c, ctr) })
	if err != nil {
		// A machine that is too small for the story: that is a refusal, and nothing to hide.
		s.say("   REFUSED: %v\n", err)
		return s.end(pod.Name)
	}
	if err := s.settle(); err != nil {
		return err
	}
	s.draw()
	return nil
}

// tell says what one container got, why, and where the others were when it started.
func (s *stage) tell(pod *kubepod.Pod, c *kubepod.Container, ctr *nriruntime.Container) {
	s.say("   %s asks for %s", c.Name, cpuOf(c))
	placed, _ := s.plugin.Node().Container(ctr.ID())
	if oracle.Exclusive(pod, c) == 0 {
		s.say(": shared pool\n")
		return
	}
	s.say(": CPUs %s, its own (%s)\n", placed.Placement.CPUs, placed.Placement.Why)
	var others []string
	for _, v := range s.atStart().Containers {
		if v.Container != ctr && v.CPUs.Overlaps(placed.Placement.CPUs) {
			others = append(others, fmt.Sprintf("%s could run on %s", v.Container.Name, v.CPUs))
		}
	}
	if len(others) == 0 {
		s.say("      at its first instruction, nobody else's cpuset had one of them\n")
		return
	}
	s.say("      AT ITS FIRST INSTRUCTION, %s\n", strings.Join(others, ", "))
}

func cpuOf(c *kubepod.Container) string {
	request, limit := c.Request("cpu"), c.Limits["cpu"]
	switch {
	case request.IsZero() && limit.IsZero():
		return "no CPU in particular"
	case limit.IsZero():
		return request.String() + " CPU, without a limit"
	case request.Cmp(limit) == 0:
		return limit.String() + " CPU"
	default:
		return request.String() + " to " + limit.String() + " CPU"
	}
}

// ends is a scene in which a pod ends.
func (s *stage) ends(name, remark string) func() error {
	return func() error {
		if s.pods[name] == nil {
			return nil // it was refused
		}
		s.heading("pod %s ends", name)
		s.say("   %s\n", remark)
		if err := s.end(name); err != nil {
			return err
		}
		if err := s.settle(); err != nil {
			return err
		}
		s.draw()
		return nil
	}
}

// pluginRestarts shows that a restart moves nobody.
func (s *stage) pluginRestarts() error {
	s.heading("the plugin is restarted")
	before, err := s.exclusive()
	if err != nil {
		return err
	}
	s.oracle.Away(true)
	if err := s.stopPlugin(); err != nil {
		return err
	}
	if err := s.startPlugin(); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	s.oracle.Away(false)
	after, err := s.exclusive()
	if err != nil {
		return err
	}
	s.say("   It reads its state file, and the runtime shows it what runs, with the annotations that it put there itself.\n")
	if !slices.Equal(before, after) {
		return fmt.Errorf("the restart has moved somebody: before [%s], after [%s]", strings.Join(before, ", "), strings.Join(after, ", "))
	}
	s.say("   Nobody has moved: %s.\n", strings.Join(after, ", "))
	return nil
}

// exclusive lists who has CPUs for himself, as the kernel has it.
func (s *stage) exclusive() ([]string, error) {
	now, err := s.rt.Snapshot()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, v := range now.Containers {
		if oracle.Exclusive(&v.Container.Pod.Spec, v.Asks) > 0 {
			list = append(list, v.Container.Name+" "+v.CPUs.String())
		}
	}
	slices.Sort(list)
	return list, nil
}

// refused is a pod that asks for one CPU more than there are.
func (s *stage) refused() error {
	books := s.plugin.Node().Snapshot()
	free := books.Shared.Difference(books.Reserved)
	name := "analytics"
	s.heading("pod %s comes, and asks for %d CPUs where %d are free", name, free.Len()+1, free.Len())
	err := s.run(kubepod.Pod{Name: name, Containers: []kubepod.Container{{
		Name: "analytics", Limits: kubepod.Resources{
			"cpu": *resource.NewQuantity(int64(free.Len()+1), resource.DecimalSI), "memory": *resource.NewQuantity(1<<30, resource.BinarySI),
		},
	}}}, func(*kubepod.Container, *nriruntime.Container) {})
	if err == nil {
		return fmt.Errorf("pod %s was admitted, with more CPUs than there are", name)
	}
	s.say("   REFUSED. This is what kubectl describe pod would show:\n")
	_, text, _ := strings.Cut(err.Error(), "rpc error: ") // the rest is ours, and containerd has its own words for it
	s.say("      Error: failed to create containerd container: failed to get NRI adjustment for container: rpc error: %s\n", text)
	s.say("   Nothing else has changed: a refusal leaves everybody where he is.\n")
	return s.end(name)
}

func (s *stage) heading(format string, args ...any) {
	s.steps++
	s.say("\n%d. %s\n", s.steps, fmt.Sprintf(format, args...))
}

// draw draws the machine with its owners, if they are others than before, and says where the kernel lets the shared containers run.
func (s *stage) draw() {
	books := s.plugin.Node().Snapshot()
	if !s.drawn || !books.Exclusive.Equal(s.exclusiveDrawn) {
		s.say("\n")
		s.picture.Picture(&books)
		s.drawn, s.exclusiveDrawn = true, books.Exclusive
	}
	now, err := s.rt.Snapshot()
	if err != nil {
		s.say("   the kernel's files cannot be read: %v\n", err)
		return
	}
	var shared []string
	var pool cpuset.Set
	for _, v := range now.Containers {
		if oracle.Exclusive(&v.Container.Pod.Spec, v.Asks) == 0 {
			shared = append(shared, v.Container.Pod.Spec.Name+"/"+v.Container.Name)
			pool = pool.Union(v.CPUs)
		}
	}
	if len(shared) > 0 {
		slices.Sort(shared)
		s.say("   cpuset.cpus.effective of %s: %s\n", strings.Join(shared, " and "), pool)
	}
}
