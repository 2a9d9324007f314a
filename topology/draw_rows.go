package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"nri-cpuset/topology/cpuset"
)

// rowStyle is what a picture shows of each CPU.
type rowStyle int

const (
	numbered          rowStyle = iota // its number
	numberedAndMarked                 // its number, and its mark below
	marked                            // its mark
)

// cell is a CPU in a row, or a text between CPUs.
type cell struct {
	cpu   int // or none
	text  string
	width int
}

// cpuRows draws some CPUs, at most width columns wide, core by core. The cores at one last-level cache are in brackets.
func (p *picture) cpuRows(cpus cpuset.Set, width int) drawing {
	var rows [][]cell
	var d drawing
	for _, group := range p.cacheGroups(cpus) {
		pieces := p.fold(group, width)
		d.flaws += len(pieces) - 1
		for _, piece := range pieces {
			last := len(rows) - 1
			if last < 0 || cellsWidth(rows[last])+1+cellsWidth(piece) > width {
				rows = append(rows, piece)
				continue
			}
			rows[last] = append(append(rows[last], separator(" ")), piece...)
		}
	}
	for _, row := range rows {
		if p.rows != marked {
			d.lines = append(d.lines, p.numbers(row))
		}
		if p.rows != numbered {
			d.lines = append(d.lines, p.marks(row))
		}
	}
	return d
}

// cacheGroup is some cores, in brackets if they share a last-level cache.
type cacheGroup struct {
	cores    [][]cell
	brackets bool
}

// cacheGroups groups CPUs by cache, in the order of the lowest.
func (p *picture) cacheGroups(cpus cpuset.Set) []cacheGroup {
	m := p.machine
	var groups []cacheGroup
	widths := m.threadWidths()
	at := map[int]int{}
	for cpu := range cpus.All() {
		c := m.cpus[cpu]
		core := m.Cores[c.Core].CPUs.Intersect(cpus)
		if core.First() != cpu {
			continue
		}
		i, seen := at[c.Cache]
		if !seen {
			i = len(groups)
			at[c.Cache] = i
			groups = append(groups, cacheGroup{brackets: c.Cache != none})
		}
		groups[i].cores = append(groups[i].cores, p.coreCells(core, widths))
	}
	return groups
}

// threadWidths returns how many digits the first, second, ... thread of a core needs at most, so that cores stand in columns.
func (m *Machine) threadWidths() []int {
	var widths []int
	for _, core := range m.Cores {
		thread := 0
		for cpu := range core.CPUs.All() {
			if thread == len(widths) {
				widths = append(widths, 0)
			}
			widths[thread] = max(widths[thread], len(strconv.Itoa(cpu)))
			thread++
		}
	}
	return widths
}

func (p *picture) coreCells(core cpuset.Set, widths []int) []cell {
	var cells []cell
	thread := 0
	for cpu := range core.All() {
		if p.rows == marked {
			cells = append(cells, cell{cpu: cpu, width: 1})
			continue
		}
		if thread > 0 {
			cells = append(cells, separator("·"))
		}
		cells = append(cells, cell{cpu: cpu, width: widths[thread]})
		thread++
	}
	return cells
}

// fold breaks a group into pieces of at most width columns, about equally long.
func (p *picture) fold(g cacheGroup, width int) [][]cell {
	gap := " "
	widest := 0
	for _, core := range g.cores {
		widest = max(widest, cellsWidth(core))
		if len(core) > 1 && p.rows != marked {
			gap = "  "
		}
	}
	begin, end, indent := "", "", ""
	if g.brackets {
		begin, end, indent = "[", "]", " "
	}
	room := width - len(begin) - len(end)
	most := max(1, (room+len(gap))/(widest+len(gap)))
	pieceCount := (len(g.cores) + most - 1) / most
	each := (len(g.cores) + pieceCount - 1) / pieceCount
	var pieces [][]cell
	for first := 0; first < len(g.cores); first += each {
		last := min(first+each, len(g.cores))
		piece := []cell{separator(begin)}
		if first > 0 {
			piece = []cell{separator(indent)}
		}
		for i := first; i < last; i++ {
			if i > first {
				piece = append(piece, separator(gap))
			}
			piece = append(piece, g.cores[i]...)
		}
		if last == len(g.cores) {
			piece = append(piece, separator(end))
		}
		pieces = append(pieces, piece)
	}
	return pieces
}

func separator(text string) cell { return cell{cpu: none, text: text, width: plain(text).width} }

func cellsWidth(cells []cell) int {
	width := 0
	for _, c := range cells {
		width += c.width
	}
	return width
}

func (p *picture) numbers(row []cell) line {
	return p.render(row, func(cpu int) string { return strconv.Itoa(cpu) })
}

// marks draws the marks of a row of CPUs. Below their numbers, they stand alone.
func (p *picture) marks(row []cell) line {
	if p.rows == numberedAndMarked {
		row = slices.Clone(row)
		for i := range row {
			row[i].text = strings.Repeat(" ", utf8.RuneCountInString(row[i].text))
		}
	}
	return p.render(row, func(cpu int) string { return string(p.options.Mark(cpu).Rune) })
}

// render writes a row with some text for each CPU, at the right of its cell.
func (p *picture) render(row []cell, text func(cpu int) string) line {
	var b strings.Builder
	for _, c := range row {
		if c.cpu == none {
			b.WriteString(c.text)
			continue
		}
		shown := text(c.cpu)
		b.WriteString(strings.Repeat(" ", max(0, c.width-utf8.RuneCountInString(shown))))
		b.WriteString(p.colored(c.cpu, shown))
	}
	return line{text: b.String(), width: cellsWidth(row)}
}

// colored puts the colour of a CPU's mark around a text.
func (p *picture) colored(cpu int, text string) string {
	if !p.options.Color || p.options.Mark == nil {
		return text
	}
	color := p.options.Mark(cpu).Color
	if color == 0 {
		return text
	}
	return fmt.Sprintf("\x1b[38;5;%dm%s\x1b[0m", color, text)
}
