package simulate

import (
	"fmt"
	"io"
	"strings"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/plugin/owners"
	"nri-cpuset/state"
	"nri-cpuset/topology"
)

// Text writes a simulation for people: step by step, who got what, why, what is left, and the machine with its owners.
type Text struct {
	out     io.Writer
	machine *topology.Machine
	color   bool
	numbers map[state.Key]int // of those who have been seen to own CPUs, so that a letter stays theirs
	err     error             // the first that out gave
}

// NewText returns a Text that writes to out, with the terminal's colours if it is to have them.
func NewText(out io.Writer, machine *topology.Machine, color bool) *Text {
	return &Text{out: out, machine: machine, color: color, numbers: map[state.Key]int{}}
}

// Err returns the first error of writing.
func (t *Text) Err() error { return t.err }

func (t *Text) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(t.out, format, args...); t.err == nil {
		t.err = err
	}
}

// Scenario begins a scenario with the machine as it is before anybody comes.
func (t *Text) Scenario(s *Scenario) {
	t.printf("%s\n\n", s.Name)
	if err := t.machine.Draw(t.out, topology.DrawOptions{}); t.err == nil {
		t.err = err
	}
}

// Step tells what one step has led to.
func (t *Text) Step(number int, step *Step, sim *Simulation, o *Outcome) {
	if step.Add == nil {
		t.printf("\n%d. Pod %s ends.\n", number, step.Remove)
	} else {
		t.printf("\n%d. Pod %s comes: %s.\n", number, step.Add.Name, step.Add.QoS())
		t.added(step.Add, o)
	}
	snapshot := sim.Snapshot()
	t.printf("   shared pool: %s\n", orNone(o.Shared))
	t.Picture(&snapshot)
}

func (t *Text) added(pod *kubepod.Pod, o *Outcome) {
	if o.Admitted != nil && !*o.Admitted {
		t.printf("   REFUSED, %s: %s\n", o.Reason, o.message)
		return
	}
	for _, c := range pod.Ordered() {
		r := o.Containers[c.Name]
		t.printf("   %s asks for %s", c.Name, asks(c))
		if r.CPUs == "" {
			t.printf(": shared pool")
		} else {
			t.printf(": CPUs %s", r.CPUs)
		}
		if r.Mems != "" {
			t.printf(", memory of NUMA node %s", r.Mems)
		}
		if why := o.why[c.Name]; why != "" {
			t.printf(" (%s)", why)
		}
		t.printf("\n")
	}
}

// asks writes a container's resources, as its manifest has them.
func asks(c *kubepod.Container) string {
	var parts []string
	for _, name := range c.ResourceNames() {
		request, limit := c.Request(name), c.Limits[name]
		switch {
		case limit.IsZero():
			parts = append(parts, fmt.Sprintf("%s %s without a limit", request.String(), name))
		case request.Cmp(limit) == 0:
			parts = append(parts, fmt.Sprintf("%s %s", limit.String(), name))
		default:
			parts = append(parts, fmt.Sprintf("%s to %s %s", request.String(), limit.String(), name))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Picture draws the machine with its owners.
func (t *Text) Picture(s *state.Snapshot) {
	marks := owners.Marks{Shared: s.Shared, Reserved: s.Reserved, Isolated: s.Rules.Allocator.Machine().Isolated}
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Exclusive() {
			marks.Owners = append(marks.Owners, t.owner(c))
		}
	}
	err := t.machine.Draw(t.out, topology.DrawOptions{Mark: marks.Mark, Brief: true, Color: t.color})
	if t.err == nil {
		t.err = err
	}
}

func (t *Text) owner(c *state.Container) owners.Owner {
	number, seen := t.numbers[c.Key]
	if !seen {
		number = len(t.numbers)
		t.numbers[c.Key] = number
	}
	label := c.Pod + "/" + c.Name
	if c.Phase == state.Exited {
		label += " (ended; held for its pod)"
	}
	return owners.Owner{Number: number, Label: label, CPUs: c.Placement.CPUs}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
