package web

import (
	"fmt"
	"strings"

	"nri-cpuset/topology/cpuset"
)

// drawing knows how each CPU is drawn: as what it is and whose, each of which is told by more than a colour.
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
	t := thread{cpu: id}
	r := d.report
	owner := d.of[id]
	var is []string
	switch {
	case owner != nil:
		t.class, t.mark, t.anchor = fmt.Sprintf("own c%d", owner.Color), owner.Mark, anchor(owner)
		is = append(is, owner.Namespace+"/"+owner.Pod+" "+owner.Name)
	case r.Shared.Contains(id):
		t.class = "shared"
		is = append(is, "shared pool")
	case r.Machine != nil && r.Machine.Offline.Contains(id):
		t.class = "offline"
		is = append(is, "offline")
	default:
		t.class = "nobody"
	}
	if r.Reserved.Contains(id) {
		t.class += " reserved"
		t.pattern = "hatch"
		is = append(is, "reserved")
	}
	if r.Isolated.Contains(id) {
		t.class += " isolated"
		t.pattern = "dots"
		is = append(is, "isolated")
	}
	if len(is) == 0 {
		is = append(is, "nobody's")
	}
	t.title = fmt.Sprintf("CPU %d: %s", id, strings.Join(is, ", "))
	return t
}

// legendEntry is one kind of CPU: how it is drawn, how many there are, and which.
type legendEntry struct {
	Sample core
	Name   string
	Count  int
	CPUs   cpuset.Set // to be listed; empty where the list would be too long to be read
	Note   string
}

// maxListed is the longest list of CPUs, in characters, that the legend has. The table and /api/v1/state have all of them.
const maxListed = 80

func (d *drawing) legend() []legendEntry {
	r := d.report
	var offline cpuset.Set
	if r.Machine != nil {
		offline = r.Machine.Offline
	}
	var entries []legendEntry
	add := func(class, pattern, mark, name string, cpus cpuset.Set, note string) {
		if cpus.IsEmpty() {
			return
		}
		listed := cpus
		if len(cpus.String()) > maxListed {
			listed = cpuset.Set{}
		}
		sample := core{{cpu: noCPU, class: class, pattern: pattern, mark: mark, title: name}}
		entries = append(entries, legendEntry{Sample: sample, Name: name, Count: cpus.Len(), CPUs: listed, Note: note})
	}
	add("own c0", "", "A", "exclusive", r.Exclusive, "of "+plural(len(d.owners), "container", "containers"))
	add("shared", "", "", "shared", r.Shared, "everybody else's")
	if d.strict {
		add("nobody reserved", "hatch", "", "reserved", r.Reserved, "for the system alone")
	} else {
		add("shared reserved", "hatch", "", "reserved", r.Reserved, "for the system, shared too")
	}
	isolated := "shared isolated"
	if !r.Isolated.Overlaps(r.Shared) {
		isolated = "nobody isolated"
	}
	add(isolated, "dots", "", "isolated", r.Isolated, "by the kernel's isolcpus=")
	add("offline", "", "", "offline", offline, "")
	return entries
}
