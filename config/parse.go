package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSize bounds a configuration: it is the most that a ConfigMap holds.
const maxSize = 1 << 20

// Load reads the settings in force on a node from a file. What is wrong with the text is one or more joined [*Error]; any other error
// means that it could not be read.
//
// The file is opened once and read to its end, so a ConfigMap's change, which swaps a symbolic link in its path, gives the old text or the
// new one and never some of both.
func Load(file, node string) (*Config, error) {
	f, err := os.Open(file) //nolint:gosec // the operator's --config
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	c, found := parse(text, node)
	for _, e := range found {
		e.File = file
	}
	return c, join(found)
}

// Parse reads the settings in force on a node: YAML, or JSON, which is YAML too. The error is one or more joined [*Error].
func Parse(text []byte, node string) (*Config, error) {
	c, found := parse(text, node)
	return c, join(found)
}

func parse(text []byte, node string) (*Config, []*Error) {
	if len(text) > maxSize {
		return nil, []*Error{{Message: fmt.Sprintf("larger than %d bytes, which is the most that a ConfigMap holds", maxSize)}}
	}
	root, failed := document(text)
	if failed != nil {
		return nil, []*Error{failed}
	}
	c := Default()
	if root == nil {
		return c, nil
	}
	var r reader
	var overrides value
	known := settings(c)
	known["nodes"] = func(_ *reader, v value) { overrides = v }
	r.fields(value{node: root}, known)
	if overrides.node != nil {
		c = r.override(c, overrides, node)
	}
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	return c, nil
}

// document returns the root of the only YAML document in text, or nil where there is nothing but comments.
func document(text []byte) (*yaml.Node, *Error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, &Error{Line: second.Line, Message: "a second YAML document begins here: put everything in one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(err)
	}
	root := first.Content[0]
	if root.ShortTag() == "!!null" {
		return nil, nil
	}
	return root, nil
}

// syntaxError takes the line out of an error of the YAML library. Its scanner counts lines from 1, its parser from 0, and neither tells the
// first line.
func syntaxError(err error) *Error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &Error{Message: "not YAML: " + text}
	if where := yamlLine.FindStringSubmatch(text); where != nil {
		e.Line, _ = strconv.Atoi(where[1])
		e.Message = "not YAML: " + text[len(where[0]):]
		if yamlParser.MatchString(text) {
			e.Line++
		}
	}
	return e
}

var (
	yamlLine   = regexp.MustCompile(`^line (\d+): `)
	yamlParser = regexp.MustCompile(`did not find expected (<document start>|node content|key|'-' indicator|',' or '[\]}]')`)
)

// override reads nodes, a list of {names, config}, and returns the defaults as the first entry that names node changes them. The others are
// read too, for what is wrong with them.
func (r *reader) override(defaults *Config, nodes value, node string) *Config {
	var inForce *Config
	for entry := range r.items(nodes) {
		var names []string
		var config value
		if !r.fields(entry, map[string]field{
			"names":  set(&names, nil, list(pattern)),
			"config": func(_ *reader, v value) { config = v },
		}) {
			continue
		}
		if len(names) == 0 {
			r.fail(entry, `names no node: give names: ["NAME", "PREFIX-*"]`)
		}
		if config.node == nil {
			r.fail(entry, "has no config: give what is different on these nodes, or config: {} where nothing is")
			continue
		}
		changed := *defaults // no reader changes what a setting held: it puts something else in its place
		r.fields(config, settings(&changed))
		if inForce == nil && matchesAny(names, node) {
			inForce = &changed
		}
	}
	if inForce == nil {
		return defaults
	}
	return inForce
}
