package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"nri-cpuset/plugin/owners"
	"nri-cpuset/plugin/web"
	"nri-cpuset/topology"
)

const (
	statusWidth  = 100 // columns
	statusIndent = "     "
)

// columns are how wide each column of the table may be, mark, container, CPUs, mems, policy, phase and age, so that all fit with gaps of 2.
var columns = []int{2, 35, 18, 5, 9, 8, 11}

// writeStatus writes a report for people: what is in force and what is wrong, the machine with its owners, the containers, and who was refused.
func writeStatus(out io.Writer, r *web.Report, color bool) error {
	r = r.Printable()
	t := &statusText{}
	t.head(r)
	if m := r.Machine; m != nil {
		t.line("")
		marks := marksOf(r)
		if err := m.Draw(&t.Buffer, topology.DrawOptions{Width: statusWidth, Mark: marks.Mark, Color: color}); err != nil {
			return err
		}
	}
	t.containers(r)
	t.refusals(r)
	_, err := t.WriteTo(out)
	return err
}

// statusText is a status while it is written.
type statusText struct {
	bytes.Buffer
}

func (t *statusText) line(text string) { t.WriteString(strings.TrimRight(text, " ") + "\n") }

// folded writes a text of any length, indented and no wider than the rest.
func (t *statusText) folded(indent, text string) {
	for paragraph := range strings.SplitSeq(text, "\n") {
		for _, line := range fold(paragraph, statusWidth-len(indent)) {
			t.line(indent + line)
		}
	}
}

func (t *statusText) head(r *web.Report) {
	t.folded("", fmt.Sprintf("node %s · nri-cpuset %s · up %s", r.Node, r.Version, web.Age(r.Time.Sub(r.Started))))
	t.folded("", strings.Join(r.Policies(), " · "))
	if r.Runtime != nil {
		t.folded("", r.Runtime.String())
	}
	for _, p := range r.Problems() {
		t.line("")
		t.folded("", "! "+p.Title)
		t.folded("  ", p.Text)
	}
}

// marksOf is how each CPU is marked: by the owners in the order in which the page has them too.
func marksOf(r *web.Report) *owners.Marks {
	marks := &owners.Marks{Shared: r.Shared, Reserved: r.Reserved, Isolated: r.Isolated}
	for i, o := range web.Owners(r.Containers) {
		label := o.Namespace + "/" + o.Pod + " " + o.Name
		marks.Owners = append(marks.Owners, owners.Owner{Number: i, Label: label, CPUs: o.CPUs})
	}
	return marks
}

func (t *statusText) containers(r *web.Report) {
	t.line("")
	rows := [][]string{{"", "CONTAINER", "CPUS", "MEMS", "POLICY", "PHASE", "SINCE"}}
	notes := []string{""}
	add := func(mark string, c *web.Container) {
		cpus, note := c.CPUs.String(), c.Why
		if !c.Exclusive {
			cpus = "shared"
		}
		if c.Unsettled != "" {
			note = "UNSETTLED: " + c.Unsettled + " " + note
		}
		rows = append(rows, []string{
			mark, c.Namespace + "/" + c.Pod + " " + c.Name, cpus, orDash(c.Mems.String()), string(c.Policy),
			c.Phase, web.Age(r.Time.Sub(c.Since)),
		})
		notes = append(notes, note)
	}
	for _, o := range web.Owners(r.Containers) {
		add(o.Mark, o.Container)
	}
	for i := range r.Containers {
		if c := &r.Containers[i]; !c.Exclusive {
			add("", c)
		}
	}
	if len(rows) == 1 {
		t.line("No container is known.")
		return
	}
	t.table(rows, notes)
}

// table writes rows in columns, and below each row its note. What is too wide for its column goes on in the next line.
func (t *statusText) table(rows [][]string, notes []string) {
	widths := make([]int, len(columns))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], min(utf8.RuneCountInString(cell), columns[i]))
		}
	}
	for r, row := range rows {
		cells := make([][]string, len(row))
		height := 0
		for i, cell := range row {
			cells[i] = fold(cell, widths[i])
			height = max(height, len(cells[i]))
		}
		for y := range height {
			var line strings.Builder
			for i, cell := range cells {
				text := ""
				if y < len(cell) {
					text = cell[y]
				}
				line.WriteString(text + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2))
			}
			t.line(line.String())
		}
		if notes[r] != "" {
			t.folded(statusIndent, notes[r])
		}
	}
}

func (t *statusText) refusals(r *web.Report) {
	for i := range r.Refusals {
		if i == 0 {
			t.line("")
			t.line("REFUSED LATELY")
		}
		f := &r.Refusals[i]
		t.folded("", fmt.Sprintf("%s ago: %s/%s %s", web.Age(r.Time.Sub(f.Time)), f.Namespace, f.Pod, f.Container))
		t.folded(statusIndent, f.Message)
	}
}

// fold breaks a text into lines of at most width characters: after a space, a comma or a slash where there is one, or anywhere.
func fold(text string, width int) []string {
	var lines []string
	rest := []rune(text)
	for len(rest) > width {
		end := width
		for i := width; i > width/3; i-- {
			if strings.ContainsRune(" ,/", rest[i-1]) || rest[i] == ' ' {
				end = i
				break
			}
		}
		lines = append(lines, strings.TrimRight(string(rest[:end]), " "))
		rest = []rune(strings.TrimLeft(string(rest[end:]), " "))
	}
	return append(lines, string(rest))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
