package web

import (
	"fmt"
	"html/template"
	"strings"
)

// core is the threads of one core, drawn as a column.
type core []thread

// thread is one CPU in the picture.
type thread struct {
	cpu     int    // its number, or noCPU
	class   string // what it is
	pattern string // drawn over it: hatch or dots
	mark    string // whose it is
	anchor  string // of its owner's row
	title   string
}

// noCPU is the number of the samples in the legend.
const noCPU = -1

// The measures of a picture. How large a core is on the page is for the style to say, in proportion.
const (
	threadWidth  = 34
	threadHeight = 18
	threadPitch  = threadHeight + 1
)

// SVG draws the core. It is not the template's work because that would take ten times as long, on a page that is nearly all of this.
func (c core) SVG() template.HTML {
	var b strings.Builder
	height := len(c) * threadPitch
	fmt.Fprintf(&b, `<svg class="core" viewBox="0 0 %d %d" width="%d" height="%d">`, threadWidth, height, threadWidth, height)
	for i := range c {
		c[i].draw(&b, i*threadPitch)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // the title, which alone has names from outside in it, is escaped
}

func (t *thread) draw(b *strings.Builder, y int) {
	if t.anchor != "" {
		fmt.Fprintf(b, `<a href="#%s">`, t.anchor)
	}
	fmt.Fprintf(b, `<g class="cpu %s"`, t.class)
	if t.cpu != noCPU {
		fmt.Fprintf(b, ` data-cpu="%d"`, t.cpu)
	}
	fmt.Fprintf(b, ` transform="translate(0 %d)"><title>%s</title>`, y, template.HTMLEscapeString(t.title))
	rect := func(class string) {
		fmt.Fprintf(b, `<rect class="%s" x=".5" y=".5" width="%d" height="%d" rx="3"/>`, class, threadWidth-1, threadHeight-1)
	}
	rect("is")
	if t.pattern != "" {
		rect(t.pattern)
	}
	if t.cpu != noCPU {
		fmt.Fprintf(b, `<text x="3.5" y="13">%d</text>`, t.cpu)
	}
	if t.mark != "" {
		fmt.Fprintf(b, `<text class="mark" x="31.5" y="13">%s</text>`, t.mark)
	}
	b.WriteString("</g>")
	if t.anchor != "" {
		b.WriteString("</a>")
	}
}
