package simulate

import (
	"fmt"
	"io"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/topology"
)

// Text writes a simulation for people: step by step, who got what, why, and what is left.
type Text struct {
	out     io.Writer
	machine *topology.Machine
}

// NewText returns a Text that writes to out.
func NewText(out io.Writer, machine *topology.Machine) *Text {
	return &Text{out: out, machine: machine}
}

// Scenario begins a scenario.
func (t *Text) Scenario(s *Scenario) {
	fmt.Fprintf(t.out, "%s on %s\n", s.Name, t.machine.Name)
}

// Step tells what one step has led to.
func (t *Text) Step(step *Step, sim *Simulation, o *Outcome) {
	_ = sim
	if step.Add == nil {
		fmt.Fprintf(t.out, "- %s ends; shared: %s\n", step.Remove, o.Shared)
		return
	}
	t.added(step.Add, o)
}

func (t *Text) added(pod *kubepod.Pod, o *Outcome) {
	fmt.Fprintf(t.out, "+ %s (%s)\n", pod.Name, pod.QoS())
	if o.Admitted != nil && !*o.Admitted {
		fmt.Fprintf(t.out, "    refused: %s: %s\n", o.Reason, o.message)
	}
	for _, c := range pod.Ordered() {
		if r, placed := o.Containers[c.Name]; placed {
			fmt.Fprintf(t.out, "    %s: cpus %s mems %s  %s\n", c.Name, r.CPUs, r.Mems, o.why[c.Name])
		}
	}
	fmt.Fprintf(t.out, "    shared: %s\n", o.Shared)
}
