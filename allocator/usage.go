package allocator

import "nri-cpuset/topology/cpuset"

// Usage is what is taken of a machine. Its methods keep the books and decide nothing; they take what they are told, even if it overlaps,
// which the caller finds by checks of its own.
type Usage struct {
	exclusive cpuset.Set
}

// NewUsage returns the books of a machine on which nothing is taken.
func (a *Allocator) NewUsage() *Usage { return &Usage{} }

// Exclusive returns the CPUs that exclusive containers have.
func (u *Usage) Exclusive() cpuset.Set { return u.exclusive }

// Take books p as taken.
func (u *Usage) Take(p Placement) { u.exclusive = u.exclusive.Union(p.CPUs) }

// Give gives p back: exactly what Take booked.
func (u *Usage) Give(p Placement) { u.exclusive = u.exclusive.Difference(p.CPUs) }

// Transfer returns what is left of a placement when another container of its pod has taken over what it could use of it.
func Transfer(left, taken Placement) Placement {
	left.CPUs = left.CPUs.Difference(taken.CPUs)
	return left
}
