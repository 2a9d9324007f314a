package web

import (
	"cmp"
	"slices"

	"nri-cpuset/topology"
)

// Owner is a container with exclusive CPUs and how it is marked in a picture.
type Owner struct {
	*Container

	Mark  string // the same in the picture and in the table: A, B, ... in the order of the lowest CPUs
	Color int    // one of [0, Colors)
}

// Colors is how many colours owners have. It is a prime number, so that containers of equal size, side by side, differ.
const Colors = 11

// Owners returns the containers with exclusive CPUs in the order of their lowest CPU, and how each is marked. A container keeps its colour as
// long as it keeps its CPUs, whoever else comes and goes.
func Owners(containers []Container) []Owner {
	var owners []Owner
	for i := range containers {
		if c := &containers[i]; c.Exclusive {
			owners = append(owners, Owner{Container: c, Color: max(c.CPUs.First(), 0) % Colors})
		}
	}
	slices.SortStableFunc(owners, func(a, b Owner) int { return cmp.Compare(a.CPUs.First(), b.CPUs.First()) })
	for i := range owners {
		owners[i].Mark = mark(i)
	}
	return owners
}

// mark returns the i-th mark: one letter or digit, and two letters where these are used up.
func mark(i int) string {
	const letters, single = 26, 62
	if i < single {
		return string(topology.OwnerRune(i))
	}
	i -= single
	return string([]rune{topology.OwnerRune(i / letters % letters), topology.OwnerRune(i % letters)})
}
