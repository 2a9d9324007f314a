// Package owners marks every CPU of a machine by whose it is, for [topology.Machine.Draw]: one set of marks for all pictures that we draw in
// text.
package owners

import (
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// Owner is one container that has CPUs of its own.
type Owner struct {
	Number int // chooses the mark; the same in every picture in which the owner is
	Label  string
	CPUs   cpuset.Set
}

// Marks are whose the CPUs of a machine are.
type Marks struct {
	Owners   []Owner
	Shared   cpuset.Set // the shared pool; reserved CPUs may be in it
	Reserved cpuset.Set
	Isolated cpuset.Set // isolated CPUs that the shared pool does not have
}

// The marks of what is no container's own. They are no letters, as owners have.
const (
	sharedRune   = '·'
	reservedRune = '#'
	isolatedRune = '='
	idleRune     = ' '
)

// colors are those of the 256 that are told apart on a dark and on a light ground.
var colors = []uint8{33, 208, 40, 170, 136, 44, 161, 99, 107, 203, 67, 179}

// Mark returns the mark of one CPU.
func (m *Marks) Mark(cpu int) topology.Mark {
	for i := range m.Owners {
		if o := &m.Owners[i]; o.CPUs.Contains(cpu) {
			return topology.Mark{Rune: topology.OwnerRune(o.Number), Label: o.Label, Color: colors[o.Number%len(colors)]}
		}
	}
	switch {
	case m.Reserved.Contains(cpu) && m.Shared.Contains(cpu):
		return topology.Mark{Rune: reservedRune, Label: "reserved, and in the shared pool"}
	case m.Reserved.Contains(cpu):
		return topology.Mark{Rune: reservedRune, Label: "reserved"}
	case m.Shared.Contains(cpu):
		return topology.Mark{Rune: sharedRune, Label: "shared pool"}
	case m.Isolated.Contains(cpu):
		return topology.Mark{Rune: isolatedRune, Label: "isolated"}
	default:
		return topology.Mark{Rune: idleRune, Label: "nobody's"}
	}
}
