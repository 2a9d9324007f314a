package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"nri-cpuset/allocator"
	"nri-cpuset/config"
	"nri-cpuset/plugin"
	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/state"
	"nri-cpuset/topology"
)

// Simulation is one node and the pods on it.
type Simulation struct {
	plugin *plugin.Plugin
	node   kubepod.Node
	pods   map[string]*running
	ids    int
}

// running is a pod that was admitted.
type running struct {
	spec       *kubepod.Pod
	sandbox    *api.PodSandbox
	containers []*api.Container
}

// New returns an empty node.
func New(machine *topology.Machine, cfg *config.Config) (*Simulation, error) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	p, err := plugin.New(machine, cfg, nil, nil, plugin.Options{Log: log})
	if err != nil {
		return nil, err
	}
	return &Simulation{plugin: p, pods: map[string]*running{}}, nil
}

// Run plays a scenario's steps on an empty node.
func Run(ctx context.Context, s *Scenario, machine *topology.Machine, each func(step int, sim *Simulation, o *Outcome)) (Result, error) {
	result := Result{Name: s.Name, Steps: []Outcome{}}
	cfg, err := config.Parse(s.Config, "")
	if err != nil {
		return result, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	sim, err := New(machine, cfg)
	if err != nil {
		return result, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	for i := range s.Steps {
		outcome, err := sim.Step(ctx, &s.Steps[i])
		if err != nil {
			return result, fmt.Errorf("scenario %s, step %d: %w", s.Name, i+1, err)
		}
		result.Steps = append(result.Steps, outcome)
		if each != nil {
			each(i, sim, &outcome)
		}
	}
	return result, nil
}

// Step adds or removes a pod.
func (s *Simulation) Step(ctx context.Context, step *Step) (Outcome, error) {
	if step.Add == nil {
		err := s.remove(ctx, step.Remove)
		return Outcome{Shared: s.plugin.Node().Snapshot().Shared.String()}, err
	}
	if s.pods[step.Add.Name] != nil {
		return Outcome{}, fmt.Errorf("pod %q is there already", step.Add.Name)
	}
	if err := step.Add.Check(); err != nil {
		return Outcome{}, err
	}
	return s.add(ctx, step.Add)
}

// Snapshot returns the plugin's books.
func (s *Simulation) Snapshot() state.Snapshot { return s.plugin.Node().Snapshot() }

// add creates a pod's containers in order, as the kubelet and the runtime do: an init container ends before the next one is created, a
// sidecar goes on. A pod of which one container is refused is removed as a whole.
func (s *Simulation) add(ctx context.Context, pod *kubepod.Pod) (Outcome, error) {
	r := &running{spec: pod, sandbox: s.node.Sandbox(pod, s.nextID("sandbox"))}
	s.pods[pod.Name] = r
	outcome := Outcome{Containers: map[string]Resources{}, why: map[string]string{}}
	for i, spec := range pod.Ordered() {
		ctr := s.node.Container(pod, spec, r.sandbox, s.nextID("container"), 0)
		adjust, _, err := s.plugin.CreateContainer(ctx, r.sandbox, ctr)
		if err != nil {
			refusal := (*allocator.Refusal)(nil)
			if !errors.As(err, &refusal) {
				return outcome, err
			}
			outcome = Outcome{Admitted: new(bool), Reason: string(refusal.Reason), message: refusal.Message}
			err = s.remove(ctx, pod.Name)
			outcome.Shared = s.Snapshot().Shared.String()
			return outcome, err
		}
		r.containers = append(r.containers, ctr)
		outcome.Containers[spec.Name] = s.resources(ctr, adjust)
		placed, _ := s.plugin.Node().Container(ctr.GetId())
		outcome.why[spec.Name] = placed.Placement.Why
		if err := s.start(ctx, r, ctr, i < len(pod.InitContainers) && !spec.Sidecar()); err != nil {
			return outcome, err
		}
	}
	admitted := true
	outcome.Admitted = &admitted
	outcome.Shared = s.Snapshot().Shared.String()
	return outcome, nil
}

// resources reads what a container got from the reply to its creation. That a set of CPUs is exclusive, and not the shared pool, only the
// books say.
func (s *Simulation) resources(ctr *api.Container, adjust *api.ContainerAdjustment) Resources {
	cpu := adjust.GetLinux().GetResources().GetCpu()
	r := Resources{Mems: cpu.GetMems()}
	if placed, known := s.plugin.Node().Container(ctr.GetId()); known && placed.Exclusive() {
		r.CPUs = cpu.GetCpus()
	}
	return r
}

// start takes a container through its start, and an init container to its end.
func (s *Simulation) start(ctx context.Context, r *running, ctr *api.Container, ends bool) error {
	for _, event := range []func(context.Context, *api.PodSandbox, *api.Container) error{
		s.plugin.PostCreateContainer, s.plugin.StartContainer, s.plugin.PostStartContainer,
	} {
		if err := event(ctx, r.sandbox, ctr); err != nil {
			return err
		}
	}
	if ends {
		_, err := s.plugin.StopContainer(ctx, r.sandbox, ctr)
		return err
	}
	return nil
}

// remove ends a pod. One that is not there changes nothing.
func (s *Simulation) remove(ctx context.Context, name string) error {
	r := s.pods[name]
	if r == nil {
		return nil
	}
	delete(s.pods, name)
	for _, ctr := range r.containers {
		if _, err := s.plugin.StopContainer(ctx, r.sandbox, ctr); err != nil {
			return err
		}
	}
	if err := s.plugin.StopPodSandbox(ctx, r.sandbox); err != nil {
		return err
	}
	for _, ctr := range r.containers {
		if err := s.plugin.RemoveContainer(ctx, r.sandbox, ctr); err != nil {
			return err
		}
	}
	return s.plugin.RemovePodSandbox(ctx, r.sandbox)
}

func (s *Simulation) nextID(kind string) string {
	s.ids++
	return fmt.Sprintf("%s-%d", kind, s.ids)
}
