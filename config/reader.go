package config

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader walks a YAML document and collects all that is wrong with it. What its methods return after an error is of no use, and nobody
// uses it: a document with errors gives no settings.
type reader struct {
	errs []*Error
}

// value is one value in a YAML document.
type value struct {
	node *yaml.Node
	path string // "nodes[1].config.cpuManagerPolicy"

	key     string // under which it stands in its mapping
	keyLine int
}

// field reads the value of one field of a mapping to where it belongs.
type field func(*reader, value)

// set is the field that read reads to target. Where it is null, as in "names:" with nothing after it, target gets its default.
func set[T any](target *T, def T, read func(*reader, value) T) field {
	return func(r *reader, v value) {
		if v.isNull() {
			*target = def
			return
		}
		*target = read(r, v)
	}
}

// fields reads a mapping with known fields, each at most once, and tells whether nothing was wrong.
func (r *reader) fields(v value, known map[string]field) bool {
	before := len(r.errs)
	for _, member := range r.members(v) {
		read, ok := known[member.key]
		if !ok {
			r.failKey(member, "unknown field: %s", unknownField(member.key, known))
			continue
		}
		read(r, member)
	}
	return len(r.errs) == before
}

func unknownField(name string, known map[string]field) string {
	if advice, ok := foreign[name]; ok {
		return advice
	}
	names := slices.Sorted(maps.Keys(known))
	for _, right := range names {
		if strings.EqualFold(name, right) {
			return "it is written " + right
		}
	}
	return "known are " + words(names)
}

// mapOf reads a mapping whose keys are free, or checked by read.
func mapOf[T any](read func(*reader, value) T) func(*reader, value) map[string]T {
	return func(r *reader, v value) map[string]T {
		members := r.members(v)
		if len(members) == 0 {
			return nil
		}
		m := make(map[string]T, len(members))
		for _, member := range members {
			m[member.key] = read(r, member)
		}
		return m
	}
}

// members returns the values of a mapping in their order, without those whose key cannot be one.
func (r *reader) members(v value) []value {
	if v.node.Kind != yaml.MappingNode {
		r.fail(v, "want a mapping, got %s", v.kind())
		return nil
	}
	lines := make(map[string]int, len(v.node.Content)/2)
	members := make([]value, 0, len(v.node.Content)/2)
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := value{node: v.node.Content[i], path: v.path}
		name, ok := r.text(key)
		if !ok {
			continue
		}
		member := value{node: v.node.Content[i+1], path: memberPath(v.path, name), key: name, keyLine: key.node.Line}
		if line, twice := lines[name]; twice {
			r.failKey(member, "is here twice, first in line %d", line)
			continue
		}
		lines[name] = member.keyLine
		members = append(members, member)
	}
	return members
}

func memberPath(parent, name string) string {
	if strings.ContainsFunc(name, func(c rune) bool { return !strings.ContainsRune("-_", c) && !isAlphanumeric(c) }) || len(name) > maxShown {
		return parent + "[" + quote(name) + "]"
	}
	if parent == "" {
		return name
	}
	return parent + "." + name
}

func isAlphanumeric(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// list reads a list.
func list[T any](read func(*reader, value) T) func(*reader, value) []T {
	return func(r *reader, v value) []T {
		all := []T{}
		for item := range r.items(v) {
			all = append(all, read(r, item))
		}
		return all
	}
}

// items yields the values of a list.
func (r *reader) items(v value) iter.Seq[value] {
	return func(yield func(value) bool) {
		if v.node.Kind != yaml.SequenceNode {
			r.fail(v, "want a list, got %s", v.kind())
			return
		}
		for i, item := range v.node.Content {
			if !yield(value{node: item, path: v.path + "[" + strconv.Itoa(i) + "]"}) {
				return
			}
		}
	}
}

// text reads a string.
func (r *reader) text(v value) (string, bool) {
	switch {
	case v.isScalar("!!str"):
		return v.node.Value, true
	case v.isScalar("!!int"), v.isScalar("!!float"), v.isScalar("!!bool"):
		r.fail(v, "want a string, got %s: put it in quotes, %q", v.kind(), v.node.Value)
	default:
		r.fail(v, "want a string, got %s", v.kind())
	}
	return "", false
}

// oneOf reads one of several words. The first is the default, which an empty string gives too, as in the kubelet.
func oneOf[T ~string](known ...T) func(*reader, value) T {
	return func(r *reader, v value) T {
		text, ok := r.text(v)
		switch {
		case ok && text == "":
			return known[0]
		case ok && !slices.Contains(known, T(text)):
			r.fail(v, "%s is none of %s", quote(text), words(known))
		}
		return T(text)
	}
}

func boolean(r *reader, v value) bool {
	if !v.isScalar("!!bool") {
		r.fail(v, "want true or false, got %s", v.kind())
	}
	return strings.EqualFold(v.node.Value, "true")
}

func number(r *reader, v value) int {
	n, err := strconv.Atoi(v.node.Value)
	if !v.isScalar("!!int") || err != nil {
		r.fail(v, "want a whole number, got %s", v.kind())
	}
	return n
}

// isNull tells whether v is null, written out or left empty.
func (v value) isNull() bool { return v.isScalar("!!null") }

func (v value) isScalar(tag string) bool {
	return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == tag
}

// kind names v in an error.
func (v value) kind() string {
	switch {
	case v.node.Kind == yaml.MappingNode:
		return "a mapping"
	case v.node.Kind == yaml.SequenceNode:
		return "a list"
	case v.node.Kind == yaml.AliasNode:
		return "an alias; anchors and aliases are not read here, write the value itself"
	case v.isNull():
		return "nothing"
	case v.isScalar("!!str"):
		return "the string " + quote(v.node.Value)
	default:
		return cut(v.node.Value)
	}
}

// fail says what is wrong with a value.
func (r *reader) fail(v value, format string, args ...any) {
	r.errs = append(r.errs, &Error{Line: v.node.Line, Field: v.path, Message: fmt.Sprintf(format, args...)})
}

// failKey says what is wrong with the key of a value, which may stand in an earlier line.
func (r *reader) failKey(v value, format string, args ...any) {
	r.errs = append(r.errs, &Error{Line: v.keyLine, Field: v.path, Message: fmt.Sprintf(format, args...)})
}

// maxShown bounds how much of a text from the file an error repeats.
const maxShown = 64

func cut(text string) string {
	if len(text) > maxShown {
		return text[:maxShown] + "..."
	}
	return text
}

func quote(text string) string { return strconv.Quote(cut(text)) }

// words lists what is known for an error.
func words[T ~string](known []T) string {
	var b strings.Builder
	for i, word := range known {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(word))
	}
	return b.String()
}
