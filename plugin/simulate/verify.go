package simulate

import (
	"fmt"
	"maps"
	"slices"
)

// Differences compares what a step has led to with what was expected of it, and returns each difference as a line.
func (o *Outcome) Differences(expect *Outcome) []string {
	if expect == nil {
		return nil
	}
	var lines []string
	differ := func(what, got, want string) {
		if got != want {
			lines = append(lines, fmt.Sprintf("%s: got %q, want %q", what, got, want))
		}
	}
	if expect.Admitted != nil {
		got := "no"
		if o.Admitted != nil && *o.Admitted {
			got = "yes"
		}
		want := "no"
		if *expect.Admitted {
			want = "yes"
		}
		differ("admitted", got, want)
		differ("reason", o.Reason, expect.Reason)
	}
	for _, name := range slices.Sorted(maps.Keys(expect.Containers)) {
		got, want := o.Containers[name], expect.Containers[name]
		differ(name+": cpus", got.CPUs, want.CPUs)
		differ(name+": mems", got.Mems, want.Mems)
	}
	differ("shared", o.Shared, expect.Shared)
	if o.message != "" && len(lines) > 0 {
		lines = append(lines, "the refusal was: "+o.message)
	}
	return lines
}
