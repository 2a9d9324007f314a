package web

import (
	"fmt"
	"strconv"
	"time"

	"nri-cpuset/topology"
)

// maxRows is how many containers a page shows. /api/v1/state has all of them.
const maxRows = 1000

// maxLarge is up to how many CPUs are drawn large.
const maxLarge = 32

// page is what the template writes.
type page struct {
	*Report

	Refresh     int // in seconds; 0: never
	Status      status
	MachineText string
	Large       bool
	Legend      []legendEntry
	Groups      []group
	Offline     []core
	Owners      []row
	Others      []row
	Left        int // containers that are not shown
}

// status is whether all is well.
type status struct {
	Kind, Text string
}

// row is a container in the table. It embeds nothing: a template takes much longer to find promoted fields.
type row struct {
	Container *Container
	Anchor    string // empty for one that has no CPUs to point from
	Mark      string
	Color     int
	Age       string // of the placement
	Stamp     string
}

// newPage makes a page of a report.
func newPage(r *Report, refresh int) *page {
	r = r.Printable()
	p := &page{Report: r, Refresh: refresh, Status: statusOf(r)}
	owners := Owners(r.Containers)
	for i := range owners {
		p.Owners = append(p.Owners, p.row(owners[i].Container, anchor(&owners[i]), owners[i].Mark, owners[i].Color))
	}
	for i := range r.Containers {
		if c := &r.Containers[i]; !c.Exclusive {
			p.Others = append(p.Others, p.row(c, "", "", 0))
		}
	}
	p.bound()
	d := newDrawing(r, owners)
	p.Legend = d.legend()
	if m := r.Machine; m != nil {
		p.MachineText = machineText(m)
		p.Large = m.Online.Len() <= maxLarge
		p.Groups = layout(m, d.thread)
		for id := range m.Offline.All() {
			p.Offline = append(p.Offline, core{d.thread(id)})
		}
	}
	return p
}

// bound cuts the table where it is too long to be one.
func (p *page) bound() {
	all := len(p.Owners) + len(p.Others)
	p.Owners = p.Owners[:min(len(p.Owners), maxRows)]
	p.Others = p.Others[:min(len(p.Others), maxRows-len(p.Owners))]
	p.Left = all - len(p.Owners) - len(p.Others)
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

func (p *page) row(c *Container, anchor, mark string, color int) row {
	return row{Container: c, Anchor: anchor, Mark: mark, Color: color, Age: p.Ago(c.Since), Stamp: stamp(c.Since)}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Ago is how long before the report something was.
func (p *page) Ago(t time.Time) string { return Age(p.Time.Sub(t)) }

// anchor names an owner's row. It stays the same for as long as the owner keeps its CPUs, whoever else comes and goes.
func anchor(o *Owner) string { return "owner-of-" + strconv.Itoa(o.CPUs.First()) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
