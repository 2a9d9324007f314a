package web_test

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// element is an HTML or SVG element of a page.
type element struct {
	name     string
	attrs    map[string]string
	parent   *element
	children []*element
	text     strings.Builder // all text in it, that of its children included
}

// parse reads a page. It fails on one whose elements are not closed properly, but for those that HTML does not close.
func parse(t testing.TB, page string) *element {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(page))
	decoder.Strict = false
	decoder.AutoClose = append([]string{"wbr"}, xml.HTMLAutoClose...)
	decoder.Entity = xml.HTMLEntity
	root := &element{name: "document"}
	open := root
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			if open != root {
				t.Fatalf("the page ends within <%s>", open.name)
			}
			return root
		}
		if err != nil {
			t.Fatalf("the page is no HTML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: map[string]string{}, parent: open}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			open.children = append(open.children, e)
			open = e
			if e.name == "br" {
				open.write([]byte(" "))
			}
		case xml.EndElement:
			open = open.parent
		case xml.CharData:
			open.write(token)
		}
	}
}

func (e *element) write(text []byte) {
	for ; e != nil; e = e.parent {
		e.text.Write(text)
	}
}

// find returns the elements below e with a name and an attribute of that value, in the order of the page. An empty name or attribute is any;
// of a class, one of several is enough.
func (e *element) find(name, attr, value string) []*element {
	var found []*element
	for _, c := range e.children {
		got, given := c.attrs[attr]
		matches := attr == "" || given && (got == value || attr == "class" && slices.Contains(strings.Fields(got), value))
		if (name == "" || c.name == name) && matches {
			found = append(found, c)
		}
		found = append(found, c.find(name, attr, value)...)
	}
	return found
}

// content is the text in e, with all space made one.
func (e *element) content() string { return strings.Join(strings.Fields(e.text.String()), " ") }
