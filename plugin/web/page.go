package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
	SharedText  string // the shared pool's CPUs

	Status     status
	Refresh    int // in seconds; 0: never
	Policies   []string
	Notices    []notice
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

// notice is something that somebody should look at.
type notice struct {
	Title, Text string
}

// row is a container in the table.
type row struct {
	Anchor    string // of the row
	Mark      string // in the picture; empty in the shared pool
	Color     int
	Where     string
	Name      string
	CPUs      string
	Mems      string
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
		NodeName: Line(r.Node, maxName), VersionText: Line(r.Version, maxName), RuntimeText: runtimeText(r.Runtime),
		Stamp: stamp(r.Time), Uptime: Age(r.Time.Sub(r.Started)), ConfigText: lines(r.Config, maxConfig), SharedText: r.Shared.String(),
		Status: statusOf(r), Refresh: refresh, Policies: policies(r), Notices: notices(r),
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
	case r.ConfigErr != "" || r.StateErr != "":
		return status{"warn", "ready, with errors"}
	default:
		return status{"good", "ready"}
	}
}

func runtimeText(r *Runtime) string {
	if r == nil {
		return ""
	}
	text := r.Name + " " + r.Version
	if r.NRI != "" {
		text += ", NRI " + r.NRI
	}
	return Line(text, maxName)
}

// policies is what is in force, in a few words.
func policies(r *Report) []string {
	cpus := "CPUs: " + r.Policy
	if len(r.PolicyOptions) > 0 {
		cpus += ", " + strings.Join(r.PolicyOptions, ", ")
	}
	alignment := "topology: " + r.TopologyManagerPolicy
	if r.TopologyManagerPolicy != "none" && r.TopologyManagerPolicy != "" {
		alignment += " for each " + r.TopologyManagerScope
	}
	return []string{cpus, "memory: " + r.MemoryManagerPolicy, alignment}
}

func notices(r *Report) []notice {
	var list []notice
	add := func(title, text string) { list = append(list, notice{title, lines(text, maxMessage)}) }
	if r.Runtime == nil {
		add("Not connected to a container runtime", "No container is placed until the runtime takes the plugin on. Containers that run keep their CPUs.")
	}
	if r.ConfigErr != "" {
		add("The configuration file is not in force", r.ConfigErr+"\nThe settings below stay in force until the file is right.")
	}
	if r.StateErr != "" {
		add("The state file cannot be written", r.StateErr+"\nAfter a restart, only what the runtime remembers is known.")
	}
	unsettled := 0
	for i := range r.Containers {
		if r.Containers[i].Unsettled != "" {
			unsettled++
		}
	}
	if unsettled > 0 {
		add(fmt.Sprintf("%s not where the policy wants them", plural(unsettled, "container is", "containers are")),
			"The table says why, at each of them. They are placed as soon as it can be done.")
	}
	return list
}

func newRow(r *Report, o *Owner) row {
	c := o.Container
	return row{
		Anchor: anchor(o), Mark: o.Mark, Color: o.Color,
		Where: Line(c.Namespace+"/"+c.Pod, maxName), Name: Line(c.Name, maxName),
		CPUs: c.CPUs.String(), Mems: c.Mems.String(), Policy: c.Policy, Phase: Line(c.Phase, maxName),
		Why: Line(c.Why, maxMessage), Unsettled: Line(c.Unsettled, maxMessage),
		Age: Age(r.Time.Sub(c.Since)), Stamp: stamp(c.Since),
	}
}

// Owner is a container with exclusive CPUs and how it is marked in a picture.
type Owner struct {
	*Container

	Mark  string // the same in the picture and in the table: A, B, ... in the order of the lowest CPUs
	Color int    // one of [0, Colors)
}

// Colors is how many colours owners have. It is a prime number, so that containers of equal size, side by side, differ.
const Colors = 11

// Owners returns the containers with exclusive CPUs in the order of their lowest CPU, and how each is marked. A container keeps its colour as
// long as it keeps its CPUs, whoever else comes and goes.
func Owners(containers []Container) []Owner {
	var owners []Owner
	for i := range containers {
		if c := &containers[i]; c.Exclusive {
			owners = append(owners, Owner{Container: c, Color: max(c.CPUs.First(), 0) % Colors})
		}
	}
	slices.SortStableFunc(owners, func(a, b Owner) int { return cmp.Compare(a.CPUs.First(), b.CPUs.First()) })
	for i := range owners {
		owners[i].Mark = mark(i)
	}
	return owners
}

// mark returns the i-th mark: one letter or digit, and two letters where these are used up.
func mark(i int) string {
	const letters, single = 26, 62
	if i < single {
		return string(topology.OwnerRune(i))
	}
	i -= single
	return string([]rune{topology.OwnerRune(i / letters % letters), topology.OwnerRune(i % letters)})
}

func anchor(o *Owner) string {
	if o.Mark == "" {
		return ""
	}
	return "container-" + o.Mark
}

// thread is one CPU in the picture.
type thread struct {
	ID      int
	Y       int
	Class   string // what it is
	Pattern string // drawn over it: hatch or dots
	Mark    string // whose it is
	Anchor  string // of its owner's row
	Title   string
}

// drawing knows how each CPU is drawn.
type drawing struct {
	report *Report
	owners []Owner
	of     map[int]*Owner
	strict bool // reserved CPUs are not in the shared pool
}

func newDrawing(r *Report, owners []Owner) *drawing {
	d := &drawing{report: r, owners: owners, of: map[int]*Owner{}, strict: !r.Reserved.IsEmpty() && !r.Reserved.Overlaps(r.Shared)}
	for i := range owners {
		for id := range owners[i].CPUs.All() {
			d.of[id] = &owners[i]
		}
	}
	return d
}

func (d *drawing) thread(id int) thread {
	t := thread{ID: id}
	r := d.report
	owner := d.of[id]
	var is []string
	switch {
	case owner != nil:
		t.Class, t.Mark, t.Anchor = fmt.Sprintf("own c%d", owner.Color), owner.Mark, anchor(owner)
		is = append(is, Line(owner.Namespace+"/"+owner.Pod+" "+owner.Name, maxName))
	case r.Shared.Contains(id):
		t.Class = "shared"
		is = append(is, "shared pool")
	case r.Machine.Machine != nil && r.Machine.Offline.Contains(id):
		t.Class = "offline"
		is = append(is, "offline")
	default:
		t.Class = "nobody"
	}
	if r.Reserved.Contains(id) {
		t.Class += " reserved"
		t.Pattern = "hatch"
		is = append(is, "reserved")
	}
	if r.Isolated.Contains(id) {
		t.Class += " isolated"
		t.Pattern = "dots"
		is = append(is, "isolated")
	}
	t.Title = fmt.Sprintf("CPU %d: %s", id, strings.Join(is, ", "))
	return t
}

// legendEntry is one kind of CPU: how it is drawn, how many there are, and which.
type legendEntry struct {
	Sample core
	Name   string
	Count  int
	CPUs   string
	Note   string
}

func (d *drawing) legend() []legendEntry {
	r := d.report
	var offline cpuset.Set
	if r.Machine.Machine != nil {
		offline = r.Machine.Offline
	}
	var entries []legendEntry
	add := func(class, pattern, mark, name string, cpus cpuset.Set, note string) {
		if cpus.IsEmpty() {
			return
		}
		sample := thread{ID: -1, Class: class, Pattern: pattern, Mark: mark, Title: name}
		entries = append(entries, legendEntry{
			Sample: core{Threads: []thread{sample}, Height: threadPitch}, Name: name, Count: cpus.Len(), CPUs: cpus.String(), Note: note,
		})
	}
	of := "of one container each"
	if len(d.owners) > 0 {
		of = "of " + plural(len(d.owners), "container", "containers")
	}
	add("own c0", "", "A", "exclusive", r.Exclusive, of)
	add("shared", "", "", "shared", r.Shared, "everybody else's")
	if d.strict {
		add("nobody reserved", "hatch", "", "reserved", r.Reserved, "for the system alone")
	} else {
		add("shared reserved", "hatch", "", "reserved", r.Reserved, "for the system, in the shared pool too")
	}
	isolated := "shared isolated"
	if !r.Isolated.Overlaps(r.Shared) {
		isolated = "nobody isolated"
	}
	add(isolated, "dots", "", "isolated", r.Isolated, "by the kernel's isolcpus=")
	add("offline", "", "", "offline", offline, "")
	return entries
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
