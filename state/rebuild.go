package state

import (
	"cmp"
	"errors"
	"slices"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

// Move is a container that runs and got other CPUs than it had. Moves are to be carried out in the order they are given: then none lands
// on CPUs that the one before has not left.
type Move struct {
	Container Container // as it is now
	From      cpuset.Set
	Why       string // what spoke against the CPUs it had, or that it had none
}

// Rebuilt is what a change of the rules, or a look at what really runs, has led to.
type Rebuilt struct {
	Kept     int         // exclusive containers that stayed where they are
	Moves    []Move      // exclusive containers that did not
	Unplaced []Unplaced  // containers that should be exclusive, or elsewhere, and for whom nothing fits
	Released []Container // what was held for containers that are gone
	Late     []Container // containers that were created without us and share; they are in the shared pool from now on
}

// Unplaced is a container that the rules cannot be kept for now.
type Unplaced struct {
	Container Container // with what it has: its old CPUs where they are still usable, or none
	Err       error
}

// Reconfigure puts new rules in force: another policy, another machine, or both. What runs keeps its CPUs wherever the new rules allow it; the
// rest is placed again. It does not fail: a container for which nothing fits keeps what remains of what it has.
func (n *Node) Reconfigure(rules Rules) Rebuilt {
	n.mu.Lock()
	defer n.mu.Unlock()
	containers := n.sorted()
	n.rules = rules
	r := n.rebuild(containers)
	n.save()
	return r
}

// rebuild makes the books anew of containers, in whose order ties are decided.
func (n *Node) rebuild(containers []*Container) Rebuilt {
	n.usage = n.rules.Allocator.NewUsage()
	n.containers = map[Key]*Container{}
	n.byID = map[string]*Container{}
	n.pods = map[string]*pod{}

	var r Rebuilt
	var queue []waiting
	for _, c := range containers {
		if n.containers[c.Key] != nil {
			continue // an older attempt
		}
		why := n.objection(c)
		c.Unsettled = ""
		had := c.Placement.CPUs
		if why == "" {
			if c.Exclusive() {
				r.Kept++
			}
		} else {
			c.Placement.CPUs = cpuset.Set{}
			queue = append(queue, waiting{c: c, had: had, why: why})
		}
		n.enter(c)
	}
	n.placeWaiting(queue, &r)
	for _, c := range n.containers {
		c.Managed = c.Managed || n.rules.pins()
		n.touch(c)
	}
	n.unsaved = true // the rules are in the file too
	return r
}

// waiting is a container that is to be placed again.
type waiting struct {
	c   *Container
	had cpuset.Set
	why string
	err error
}

// objection says what speaks against a container's keeping what it has; "" for nothing.
func (n *Node) objection(c *Container) string {
	want := n.rules.amount(c).CPUs
	if !n.rules.pins() {
		want = 0
	}
	has := c.Placement.CPUs
	switch {
	case want == 0 && has.IsEmpty():
		return ""
	case want == 0:
		return "no exclusive CPUs under the rules now in force"
	case has.IsEmpty():
		if c.Phase == Exited {
			return "" // nothing to keep, and nobody to give anything to
		}
		return "should be exclusive and is not"
	case has.Len() != want:
		return "has another number of CPUs than it asks for"
	}
	if taken := has.Intersect(n.usage.Exclusive()); !taken.IsEmpty() {
		return "shares " + taken.String() + " with another exclusive container"
	}
	if err := n.rules.Allocator.Keeps(c.Placement); err != nil {
		return err.Error()
	}
	return ""
}

// placeWaiting finds room for those who could not keep theirs. While one is placed the CPUs of those still to come count as taken, so that
// the moves can be carried out one after the other; whoever does not fit is tried again when others have left.
func (n *Node) placeWaiting(queue []waiting, r *Rebuilt) {
	usable := n.rules.Allocator.Assignable()
	queue = slices.DeleteFunc(queue, func(w waiting) bool {
		wants := n.rules.pins() && n.rules.amount(w.c).CPUs > 0
		if !wants && w.c.Phase != Exited {
			r.Moves = append(r.Moves, Move{Container: *w.c, From: w.had, Why: w.why})
		}
		return !wants || w.c.Phase == Exited // what has ended merely loses what it held
	})
	for progress := true; progress && len(queue) > 0; {
		progress = false
		var again []waiting
		for i := range queue {
			w := queue[i]
			var others cpuset.Set
			for j := range queue {
				if j != i {
					others = others.Union(queue[j].had)
				}
			}
			if err := n.placeAgain(w, usable, others); err != nil {
				w.err = err
				again = append(again, w)
				continue
			}
			r.Moves = append(r.Moves, Move{Container: *w.c, From: w.had, Why: w.why})
			queue[i].had = cpuset.Set{}
			progress = true
		}
		queue = again
	}
	for _, w := range queue {
		n.keepRest(w)
		r.Unplaced = append(r.Unplaced, Unplaced{Container: *w.c, Err: w.err})
	}
	slices.SortFunc(r.Unplaced, func(a, b Unplaced) int { return cmp.Compare(a.Container.ID, b.Container.ID) })
}

// placeAgain places one container, next to as much as it can keep of what it had, and on nothing of others.
func (n *Node) placeAgain(w waiting, usable, others cpuset.Set) error {
	blocked := allocator.Placement{CPUs: others.Difference(n.usage.Exclusive()).Difference(w.had)}
	n.usage.Take(blocked)
	defer n.usage.Give(blocked)

	c := w.c
	request := allocator.Request{Amount: allocator.Amount{CPUs: n.rules.amount(c).CPUs}, KeepShared: n.sharedIsUsed(c.Key)}
	rest := allocator.Placement{CPUs: w.had.Intersect(usable).Difference(n.usage.Exclusive())}
	if rest.CPUs.Len() < request.CPUs { // it lost some, or wants more: what it has stays
		request.Held = rest
	} else {
		request.Reusable = rest
	}
	p, err := n.rules.Allocator.Place(n.usage, request)
	if err == nil && n.rules.Allocator.Keeps(p) != nil {
		err = errNotKept
	}
	if err != nil { // what it has left may be in the way of what the policy wants, such as whole cores
		request.Held, request.Reusable = allocator.Placement{}, rest
		p, err = n.rules.Allocator.Place(n.usage, request)
	}
	if err != nil {
		return err
	}
	if err := n.check(c, p); err != nil {
		return err
	}
	p.Blocks = c.Placement.Blocks // memory stays where it is: moving it would migrate pages
	p.Affinity = c.Placement.Affinity
	n.forget(c)
	c.Placement = p
	c.Since = n.now()
	n.enter(c)
	return nil
}

// errNotKept is a placement next to what a container has that the next look at it would object to.
var errNotKept = errors.New("the policy would not keep that")

// keepRest leaves a container for which nothing fits what is still usable of what it had, or puts it in the shared pool.
func (n *Node) keepRest(w waiting) {
	c := w.c
	n.forget(c)
	c.Placement.CPUs = w.had.Intersect(n.rules.Allocator.Machine().Online).Difference(n.usage.Exclusive())
	c.Placement.Why = "keeps what remains: " + w.why
	c.Unsettled = w.why
	n.enter(c)
}
