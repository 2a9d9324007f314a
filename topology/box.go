package topology

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// line is one line of a picture. Its width is in columns, without the codes for colours in it.
type line struct {
	text  string
	width int
}

func plain(text string) line { return line{text: text, width: utf8.RuneCountInString(text)} }

// drawing is some lines, and how many things in them are not as they should be: titles cut, the cores of one cache in several lines.
type drawing struct {
	lines []line
	flaws int
}

func (d drawing) below(e drawing) drawing {
	return drawing{lines: slices.Concat(d.lines, e.lines), flaws: d.flaws + e.flaws}
}

// box is a part of a picture with a title, and with a frame unless it is bare. Its content is drawn to fit a width, and may be narrower, or
// wider where it must.
type box struct {
	title   string
	bare    bool
	content func(width int) drawing
}

// border is how many columns the frame takes: "│ " and " │".
func (b box) border() int {
	if b.bare {
		return 0
	}
	return 4
}

// titleBorder is how many columns a frame takes at least of the line with the title: "╭─ " and " ─╮".
func (b box) titleBorder() int { return b.border() * 3 / 2 }

// gap is how many columns are between boxes that are side by side.
func (b box) gap() int {
	if b.bare {
		return 2
	}
	return 1
}

// arrange puts boxes, all bare or all framed, side by side and below each other, in as many columns as look best: with few lines, and few
// flaws in them.
func arrange(boxes []box, width, flawWeight int) drawing {
	const minColumn = 16
	var best drawing
	cost := func(d drawing) int { return len(d.lines) + flawWeight*d.flaws }
	for columns := 1; columns <= len(boxes); columns++ {
		columnWidth := (width - (columns-1)*boxes[0].gap()) / columns
		if columns > 1 && columnWidth < minColumn {
			break
		}
		d, natural := arrangeIn(boxes, columns, columnWidth)
		if columns == 1 || (natural <= columnWidth && cost(d) < cost(best)) {
			best = d
		}
	}
	return best
}

// arrangeIn arranges boxes in a given number of columns. All boxes are as wide as the widest of them has to be, which it returns.
func arrangeIn(boxes []box, columns, width int) (d drawing, natural int) {
	contents := make([][]line, len(boxes))
	for i, b := range boxes {
		content := b.content(width - b.border())
		contents[i] = content.lines
		d.flaws += content.flaws
		titled := utf8.RuneCountInString(b.title) + b.titleBorder()
		if titled > width {
			titled = width // a title can be cut, a line of CPUs cannot
			d.flaws += 2
		}
		natural = max(natural, titled)
		for _, l := range content.lines {
			natural = max(natural, l.width+b.border())
		}
	}
	for first := 0; first < len(boxes); first += columns {
		last := min(first+columns, len(boxes))
		height := 0
		for _, content := range contents[first:last] {
			height = max(height, len(content))
		}
		var rows [][]string
		for i := first; i < last; i++ {
			for y, text := range boxes[i].draw(contents[i], height, natural) {
				if i == first {
					rows = append(rows, nil)
				}
				rows[y] = append(rows[y], text)
			}
		}
		gap := boxes[first].gap()
		for _, row := range rows {
			d.lines = append(d.lines, line{text: strings.Join(row, strings.Repeat(" ", gap)), width: len(row)*(natural+gap) - gap})
		}
	}
	return d, natural
}

// draw draws a box around its content, width columns wide, the content padded to a height.
func (b box) draw(content []line, height, width int) []string {
	title := plain(truncate(b.title, width-b.titleBorder()))
	var rows []string
	if b.bare {
		rows = append(rows, title.padded(width))
	} else {
		rows = append(rows, "╭─ "+title.text+" "+strings.Repeat("─", width-5-title.width)+"╮")
	}
	for y := range height {
		var l line
		if y < len(content) {
			l = content[y]
		}
		text := l.padded(width - b.border())
		if !b.bare {
			text = "│ " + text + " │"
		}
		rows = append(rows, text)
	}
	if !b.bare {
		rows = append(rows, "╰"+strings.Repeat("─", width-2)+"╯")
	}
	return rows
}

func (l line) padded(width int) string { return l.text + strings.Repeat(" ", max(0, width-l.width)) }

func truncate(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-1)]) + "…"
}

// wrap breaks a text at spaces into lines of at most width columns; the second and the following are indented.
func wrap(text string, width int) []line {
	const indent = "  "
	var lines []line
	current := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case current == "":
			current = word
		case utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) <= width:
			current += " " + word
		default:
			lines = append(lines, plain(current))
			current = indent + word
		}
	}
	if current != "" {
		lines = append(lines, plain(current))
	}
	return lines
}
