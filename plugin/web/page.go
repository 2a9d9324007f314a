package web

import (
	"fmt"
	"time"

	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// Bounds of what a page shows. The rest is in /api/v1/state.
const (
	maxRows    = 1000
	maxName    = 256   // Kubernetes allows 253 characters for a pod
	maxMessage = 1000  // of a reason or an error
	maxConfig  = 20000 // characters of YAML
)

// page is what the template writes.
type page struct {
	NodeName    string
	VersionText string
	RuntimeText string
	Stamp       string // when the report was made
	Uptime      string
	ConfigText  string
	Shared      cpuset.Set
	MachineText string

	Status     status
	Refresh    int // in seconds; 0: never
	Policies   []string
	Problems   []Problem
	Legend     []legendEntry
	Large      bool // few enough CPUs to draw them large
	Groups     []group
	Offline    []core
	Exclusive  []row
	SharedPool []row
	Left       int // containers that are not shown
	Refused    []refusal
}

// status is whether all is well.
type status struct {
	Kind, Text string
}

// row is a container in the table.
type row struct {
	Anchor    string // of the row
	Mark      string // in the picture; empty in the shared pool
	Color     int
	Where     string
	Name      string
	CPUs      cpuset.Set
	Mems      cpuset.Set
	Policy    ContainerPolicy
	Phase     string
	Why       string
	Unsettled string
	Age       string
	Stamp     string
}

type refusal struct {
	Age, Stamp, Where, Name, Message string
}

// newPage makes a page of a report.
func newPage(r *Report, refresh int) *page {
	p := &page{
		NodeName: Line(r.Node, maxName), VersionText: Line(r.Version, maxName), RuntimeText: Line(r.Runtime.String(), maxName),
		Stamp: stamp(r.Time), Uptime: Age(r.Time.Sub(r.Started)), ConfigText: lines(r.Config, maxConfig), Shared: r.Shared,
		Status: statusOf(r), Refresh: refresh, Policies: r.Policies(),
	}
	for _, problem := range r.Problems() {
		p.Problems = append(p.Problems, Problem{problem.Title, lines(problem.Text, maxMessage)})
	}
	owners := Owners(r.Containers)
	for i := range owners {
		p.Exclusive = append(p.Exclusive, newRow(r, &owners[i]))
	}
	for i := range r.Containers {
		if c := &r.Containers[i]; !c.Exclusive {
			p.SharedPool = append(p.SharedPool, newRow(r, &Owner{Container: c}))
		}
	}
	p.bound()
	for i := range r.Refusals {
		f := &r.Refusals[i]
		p.Refused = append(p.Refused, refusal{
			Age: Age(r.Time.Sub(f.Time)), Stamp: stamp(f.Time), Where: Line(f.Namespace+"/"+f.Pod, maxName), Name: Line(f.Container, maxName),
			Message: Line(f.Message, maxMessage),
		})
	}
	drawing := newDrawing(r, owners)
	p.Legend = drawing.legend()
	if m := r.Machine.Machine; m != nil {
		p.MachineText = machineText(m)
		p.Large = m.Online.Len() <= 32
		p.Groups = layout(m, drawing.thread)
		for id := range m.Offline.All() {
			p.Offline = append(p.Offline, core{Threads: []thread{drawing.thread(id)}, Height: threadPitch})
		}
	}
	return p
}

// bound cuts the table where it is too long to be one.
func (p *page) bound() {
	all := len(p.Exclusive) + len(p.SharedPool)
	p.Exclusive = p.Exclusive[:min(len(p.Exclusive), maxRows)]
	p.SharedPool = p.SharedPool[:min(len(p.SharedPool), maxRows-len(p.Exclusive))]
	p.Left = all - len(p.Exclusive) - len(p.SharedPool)
}

func statusOf(r *Report) status {
	switch {
	case r.Runtime == nil:
		return status{"bad", "not connected"}
	case !r.Ready:
		return status{"bad", "not synchronized"}
	case r.ConfigErr != "" || r.StateErr != "" || r.Conflict != "":
		return status{"warn", "ready, with errors"}
	default:
		return status{"good", "ready"}
	}
}

func machineText(m *topology.Machine) string {
	text := fmt.Sprintf("%s online · %s · %s · %s", plural(m.Online.Len(), "CPU", "CPUs"), plural(len(m.Packages), "package", "packages"),
		plural(len(m.Nodes), "NUMA node", "NUMA nodes"), plural(len(m.Cores), "core", "cores"))
	if len(m.Caches) > 0 {
		text += " · " + plural(len(m.Caches), "last-level cache (LLC)", "last-level caches (LLC)")
	}
	return text
}

func newRow(r *Report, o *Owner) row {
	c := o.Container
	return row{
		Anchor: anchor(o), Mark: o.Mark, Color: o.Color,
		Where: Line(c.Namespace+"/"+c.Pod, maxName), Name: Line(c.Name, maxName),
		CPUs: c.CPUs, Mems: c.Mems, Policy: c.Policy, Phase: Line(c.Phase, maxName),
		Why: Line(c.Why, maxMessage), Unsettled: Line(c.Unsettled, maxMessage),
		Age: Age(r.Time.Sub(c.Since)), Stamp: stamp(c.Since),
	}
}

func anchor(o *Owner) string {
	if o.Mark == "" {
		return ""
	}
	return "container-" + o.Mark
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
