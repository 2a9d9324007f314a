package web

import (
	"fmt"
	"strings"

	"nri-cpuset/topology/cpuset"
)

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
		is = append(is, owner.Namespace+"/"+owner.Pod+" "+owner.Name)
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
	CPUs   cpuset.Set // to be listed; empty where the list would be too long to be read
	Note   string
}

// maxListed is the longest list of CPUs, in characters, that the legend has. The table and /api/v1/state have all of them.
const maxListed = 80

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
		listed := cpus
		if len(cpus.String()) > maxListed {
			listed = cpuset.Set{}
		}
		sample := thread{ID: -1, Class: class, Pattern: pattern, Mark: mark, Title: name}
		entries = append(entries, legendEntry{
			Sample: core{Threads: []thread{sample}, Height: threadPitch}, Name: name, Count: cpus.Len(), CPUs: listed, Note: note,
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
