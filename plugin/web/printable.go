package web

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is shown of texts from outside, in characters. Kubernetes allows 253 for a pod's name, and less for the others.
const (
	maxName    = 256
	maxMessage = 2000  // of a reason or an error
	maxConfig  = 20000 // of YAML
)

// Printable returns the report with every text in it made fit to be shown to people: bounded, and without what would move a terminal's
// cursor or turn the direction of writing. The rest of what a form of output needs is left to that.
func (r *Report) Printable() *Report {
	p := *r
	name(&p.Node, &p.Version, &p.Policy, &p.MemoryManagerPolicy, &p.TopologyManagerPolicy, &p.TopologyManagerScope)
	p.PolicyOptions = slices.Clone(p.PolicyOptions)
	for i := range p.PolicyOptions {
		name(&p.PolicyOptions[i])
	}
	p.Config = printable(p.Config, maxConfig, '\n')
	for _, text := range []*string{&p.ConfigErr, &p.Conflict, &p.StateErr} {
		*text = printable(*text, maxMessage, '\n')
	}
	if p.Runtime != nil {
		runtime := *p.Runtime
		name(&runtime.Name, &runtime.Version, &runtime.NRI)
		p.Runtime = &runtime
	}
	if p.Machine != nil {
		machine := *p.Machine
		name(&machine.Name)
		p.Machine = &machine
	}
	p.Containers = slices.Clone(p.Containers)
	for i := range p.Containers {
		c := &p.Containers[i]
		name(&c.Namespace, &c.Pod, &c.PodUID, &c.Name, &c.ID, &c.Phase, (*string)(&c.Policy))
		message(&c.Why, &c.Unsettled)
	}
	p.Refusals = slices.Clone(p.Refusals)
	for i := range p.Refusals {
		f := &p.Refusals[i]
		name(&f.Namespace, &f.Pod, &f.Container)
		message(&f.Message)
	}
	return &p
}

func name(texts ...*string) {
	for _, text := range texts {
		*text = printable(*text, maxName, ' ')
	}
}

func message(texts ...*string) {
	for _, text := range texts {
		*text = printable(*text, maxMessage, ' ')
	}
}

// printable returns at most so many characters of a text. Line breaks become lineBreak; what is no character that can be seen becomes "�".
func printable(text string, most int, lineBreak rune) string {
	if isPlain(text) && len(text) <= most {
		return text
	}
	var b strings.Builder
	count := 0
	for _, r := range text { // an invalid byte comes as RuneError
		if count++; count > most {
			b.WriteRune('…')
			break
		}
		switch {
		case r == '\n':
			b.WriteRune(lineBreak)
		case r == '\t' || r == '\r':
			b.WriteRune(' ')
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteRune(utf8.RuneError)
		}
	}
	return b.String()
}

// isPlain tells whether a text is printable ASCII, as nearly all of them are.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
