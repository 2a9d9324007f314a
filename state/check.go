package state

import (
	"errors"
	"fmt"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

// The invariants, each with an error of its own.
var (
	// ErrReserved is a container that has CPUs reserved for the system.
	ErrReserved = errors.New("reserved CPUs belong to nobody")
	// ErrOverlap is two containers that have the same exclusive CPU.
	ErrOverlap = errors.New("no two containers share an exclusive CPU")
	// ErrShared is an exclusive CPU that is in the shared pool.
	ErrShared = errors.New("an exclusive CPU is not in the shared pool")
	// ErrCoverage is an online CPU that is nobody's, or a CPU that is somebody's and not online.
	ErrCoverage = errors.New("shared, exclusive and withheld CPUs make up the online CPUs")
	// ErrSharedEmpty is a shared pool that is empty while a container runs in it.
	ErrSharedEmpty = errors.New("the shared pool is not empty while it is used")
)

// violation is an invariant that does not hold, and where.
func violation(invariant error, format string, args ...any) error {
	return fmt.Errorf("invariant violated: %w: %s", invariant, fmt.Sprintf(format, args...))
}

// check looks at the allocator's answer for c before it is booked. An answer that breaks an invariant is a bug, and refused.
func (n *Node) check(c *Container, p allocator.Placement) error {
	var own cpuset.Set
	for _, o := range n.inPod(c.PodUID) {
		if o.Key == c.Key || o.Phase == Exited {
			own = own.Union(o.Placement.CPUs)
		}
	}
	machine := n.rules.Allocator.Machine()
	if taken := p.CPUs.Intersect(n.usage.Exclusive()).Difference(own); !taken.IsEmpty() {
		return violation(ErrOverlap, "%s was decided for %s, where %s is taken", p.CPUs, c.Name, taken)
	}
	if gone := p.CPUs.Difference(machine.Online); !gone.IsEmpty() {
		return violation(ErrCoverage, "%s was decided for %s, where %s is not online", p.CPUs, c.Name, gone)
	}
	if reserved := p.CPUs.Intersect(n.rules.Allocator.Reserved()).Difference(own); !reserved.IsEmpty() {
		return violation(ErrReserved, "%s was decided for %s, where %s is reserved", p.CPUs, c.Name, reserved)
	}
	return nil
}

// Check looks at all of the books and returns every invariant that does not hold.
func (n *Node) Check() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.rules.Allocator
	books := books{
		online: a.Machine().Online, reserved: a.Reserved(), withheld: a.Withheld(), shared: a.Shared(n.usage),
		containers: n.sorted(), pins: n.rules.pins(),
	}
	return books.check()
}

// books are what the invariants speak of, of a node or of a state file.
type books struct {
	online, reserved, withheld, shared cpuset.Set
	containers                         []*Container
	pins                               bool
}

func (b *books) check() error {
	if !b.pins {
		return nil
	}
	var errs []error
	var exclusive cpuset.Set
	sharedUsed := false
	for _, c := range b.containers {
		own := c.Placement.CPUs
		if own.IsEmpty() {
			sharedUsed = sharedUsed || c.Phase != Exited
			continue
		}
		if both := own.Intersect(exclusive); !both.IsEmpty() {
			errs = append(errs, violation(ErrOverlap, "%s/%s/%s has %s, of which %s is another's", c.Namespace, c.Pod, c.Name, own, both))
		}
		if reserved := own.Intersect(b.reserved); !reserved.IsEmpty() && c.Unsettled == "" {
			errs = append(errs, violation(ErrReserved, "%s/%s/%s has %s, of which %s is reserved", c.Namespace, c.Pod, c.Name, own, reserved))
		}
		exclusive = exclusive.Union(own)
	}
	if both := exclusive.Intersect(b.shared); !both.IsEmpty() {
		errs = append(errs, violation(ErrShared, "%s is both", both))
	}
	if all := b.shared.Union(exclusive).Union(b.withheld); !all.Equal(b.online) {
		errs = append(errs, violation(ErrCoverage, "%s is online and nobody's, %s is somebody's and not online",
			orNone(b.online.Difference(all)), orNone(all.Difference(b.online))))
	}
	if sharedUsed && b.shared.IsEmpty() {
		errs = append(errs, violation(ErrSharedEmpty, "every CPU of %s is exclusive or withheld", b.online))
	}
	return errors.Join(errs...)
}

func orNone(s cpuset.Set) string {
	if s.IsEmpty() {
		return "none"
	}
	return s.String()
}
