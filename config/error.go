package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Error is one thing that is wrong with a configuration. Parse and Load join several where they found several: errors.As gives the first.
type Error struct {
	File    string // as it was given to Load; empty from Parse
	Line    int    // counted from 1; 0 where the fault has no line
	Field   string // the path of the setting, "nodes[1].config.cpuManagerPolicy"; empty where the text is no YAML
	Message string // what is wrong and what is right
}

func (e *Error) Error() string {
	text := e.Message
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	switch {
	case e.File != "" && e.Line > 0:
		return e.File + ":" + strconv.Itoa(e.Line) + ": " + text
	case e.File != "":
		return e.File + ": " + text
	case e.Line > 0:
		return "line " + strconv.Itoa(e.Line) + ": " + text
	default:
		return text
	}
}

// maxErrors bounds how many errors of one file are told: nobody reads more, and a file may be wrong in every line.
const maxErrors = 20

// join makes one error of several, the first line first.
func join(found []*Error) error {
	slices.SortStableFunc(found, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, 0, min(len(found), maxErrors+1))
	for i, e := range found {
		if i == maxErrors {
			errs = append(errs, fmt.Errorf("%d more are not shown", len(found)-i))
			break
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}
