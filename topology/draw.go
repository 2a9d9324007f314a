package topology

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"nri-cpuset/topology/cpuset"
)

// Mark is what a picture shows in place of a CPU, to tell whose it is.
type Mark struct {
	Rune  rune   // one column wide
	Label string // what the legend says of it
	Color uint8  // of the 256 that terminals have; 0 for the terminal's own. The rune has to tell as much without it.
}

// OwnerRune returns a rune for the i-th of several owners: A-Z, a-z, 0-9, and then "*" for all that follow.
func OwnerRune(i int) rune {
	const runes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	if i < 0 || i >= len(runes) {
		return '*'
	}
	return rune(runes[i])
}

// DrawOptions say how [Machine.Draw] draws. The zero value draws the CPUs by number, without colour.
type DrawOptions struct {
	Width int                // in columns; 0 is 100
	Mark  func(cpu int) Mark // whose an online CPU is; nil: nobody asks
	Color bool
	Brief bool // without what is the same in every picture of the machine: its summary, memory, distances and devices
}

// Draw writes a picture of the machine, in boxes: packages, the NUMA nodes in them (or the other way round where nodes are the larger), and in
// these the CPUs. Threads of one core stand together, and the cores of one last-level cache in brackets. Marked CPUs come with a legend.
// 256 CPUs fit a screen of 100 columns and 50 lines.
func (m *Machine) Draw(w io.Writer, o DrawOptions) error {
	if o.Width == 0 {
		o.Width = 100
	}
	p := picture{machine: m, options: o}
	for _, l := range slices.Concat(p.fit(), p.legend()) {
		if _, err := io.WriteString(w, strings.TrimRight(l.text, " ")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// picture is a machine while it is drawn.
type picture struct {
	machine *Machine
	options DrawOptions
	rows    rowStyle
	density density
}

// density is how much a picture does without to be low.
type density int

const (
	roomy   density = iota
	bare            // nodes within a package, and packages within a node, have no frames
	barest          // and nothing but CPUs and memory is shown of a node
	crammed         // and titles are cut and caches broken over lines, if that helps
)

const (
	maxNumbered = 32 // lines, up to which marked CPUs are shown by number too
	maxLines    = 50
)

// fit draws all but the legend, as much of it as fits a screen.
func (p *picture) fit() []line {
	if p.options.Mark != nil {
		p.rows = numberedAndMarked
		if lines := p.draw(); len(lines) <= maxNumbered {
			return lines
		}
		p.rows = marked
	}
	lines := p.draw()
	for p.density < crammed && len(lines) > maxLines {
		p.density++
		lines = p.draw()
	}
	return lines
}

func (p *picture) draw() []line {
	if p.options.Brief {
		return p.boxes()
	}
	return slices.Concat(p.summary(), p.boxes(), p.notes())
}

// arrange arranges boxes by how dense the picture is.
func (p *picture) arrange(boxes []box, width int) drawing {
	if p.density == crammed {
		return arrange(boxes, width, 0)
	}
	return arrange(boxes, width, 1)
}

// boxes draws packages with the nodes in them, or nodes with the packages in them where there are fewer nodes, and then what has no CPUs.
func (p *picture) boxes() []line {
	outer, inner := p.packageParts(), p.nodeParts()
	if len(inner) < len(outer) {
		outer, inner = inner, outer
	}
	var withCPUs, without []box
	for _, out := range outer {
		withCPUs = append(withCPUs, p.nest(out, inner))
	}
	for i := range p.machine.Nodes {
		if n := &p.machine.Nodes[i]; n.CPUs.IsEmpty() && !p.options.Brief {
			without = append(without, p.box(p.nodePart(n)))
		}
	}
	return p.arrange(withCPUs, p.options.Width).below(p.arrange(without, p.options.Width)).lines
}

// part is a package or a node, or what of it is in a package.
type part struct {
	title string
	cpus  cpuset.Set
	node  *Node // nil for a package
}

func (p *picture) packageParts() []part {
	parts := make([]part, 0, len(p.machine.Packages))
	for i, pkg := range p.machine.Packages {
		id := pkg.ID
		if id < 0 {
			id = i // a kernel without numbers for them
		}
		parts = append(parts, part{title: fmt.Sprintf("package %d", id), cpus: pkg.CPUs})
	}
	return parts
}

// nodeParts returns the nodes that have CPUs, and the CPUs that are on no node, if there are such.
func (p *picture) nodeParts() []part {
	var parts []part
	homeless := p.machine.Online
	for i := range p.machine.Nodes {
		if n := &p.machine.Nodes[i]; !n.CPUs.IsEmpty() {
			homeless = homeless.Difference(n.CPUs)
			parts = append(parts, p.nodePart(n))
		}
	}
	if !homeless.IsEmpty() {
		parts = append(parts, part{title: "no NUMA node", cpus: homeless})
	}
	return parts
}

func (p *picture) nodePart(n *Node) part {
	title := fmt.Sprintf("node %d", n.ID)
	if p.options.Brief {
		return part{title: title, cpus: n.CPUs, node: n}
	}
	if n.CPUs.IsEmpty() {
		title += " · no CPUs"
	}
	if n.MemoryKiB == 0 {
		title += " · no memory"
	} else {
		title += " · " + amount(n.MemoryKiB)
	}
	for _, kib := range n.pageSizes() {
		if pages := n.HugePages[kib]; pages > 0 && p.density < barest {
			title += fmt.Sprintf(" · %d × %s", pages, amount(kib))
		}
	}
	return part{title: title, cpus: n.CPUs, node: n}
}

// maxInnerPackages is how many packages of one node have boxes of their own. More of them, as virtual machines and POWER have, are so small
// that the boxes would be all there is to see.
const maxInnerPackages = 4

// nest makes the box of a part with those of the inner parts in it. Where there is only one of these, they share a box.
func (p *picture) nest(out part, inner []part) box {
	var in []part
	for _, candidate := range inner {
		candidate.cpus = candidate.cpus.Intersect(out.cpus)
		if !candidate.cpus.IsEmpty() {
			in = append(in, candidate)
		}
	}
	switch {
	case len(in) == 1:
		one := in[0]
		one.title = out.title + " · " + one.title
		if one.node == nil {
			one.node = out.node
		}
		return p.box(one)
	case out.node != nil && len(in) > maxInnerPackages:
		out.title += " · " + plural(len(in), "package")
		return p.box(out)
	}
	var boxes []box
	for _, one := range in {
		b := p.box(one)
		b.bare = p.density >= bare
		boxes = append(boxes, b)
	}
	return box{title: out.title, content: func(width int) drawing {
		return p.arrange(boxes, width).below(p.devicesOf(out, width))
	}}
}

// box makes the box of a part that has no others in it.
func (p *picture) box(one part) box {
	return box{title: one.title, content: func(width int) drawing {
		return p.cpuRows(one.cpus, width).below(p.devicesOf(one, width))
	}}
}

func (p *picture) devicesOf(one part, width int) drawing {
	if one.node == nil || p.density >= barest || p.options.Brief {
		return drawing{}
	}
	return drawing{lines: p.devices(one.node.ID, width)}
}

// amount writes an amount of memory in the largest unit of which it is at least one.
func amount(kib uint64) string {
	value, units := float64(kib), []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for value >= 1024 && len(units) > 1 {
		value, units = value/1024, units[1:]
	}
	digits := 1
	if value >= 100 {
		digits = 0
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', digits, 64), ".0") + " " + units[0]
}
