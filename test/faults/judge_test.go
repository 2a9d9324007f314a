package faults

import (
	"fmt"
	"slices"
	"sync"

	"nri-cpuset/state"
	"nri-cpuset/test/nriruntime"
	"nri-cpuset/test/oracle"
	"nri-cpuset/topology/cpuset"
)

// judge looks at every change of the kernel's state. What a container ought to have it knows from its pod; the plugin is asked for one thing only:
// whether it says itself that a container is not where it should be.
//
// A container is established from the moment at which it runs where it should. From then on, and whoever is away meanwhile, nobody else may run on
// its CPUs, and it may not be moved but for a reason. While the plugin is away, or a fault has its effect, new containers are not established,
// until everything has settled.
type judge struct {
	mu         sync.Mutex
	static     bool   // the policy
	away       bool   // the plugin
	grace      string // the fault that has its effect; empty: none
	mayMove    bool   // the rules have changed
	seen       map[string]*subject
	violations []string

	unsettled func(id string) bool // the plugin says so
	report    func(violation string)
}

// subject is one container under judgment.
type subject struct {
	excused     bool // it came, or changed, while the plugin was away or a fault had its effect
	ran         bool
	wanted      int
	established bool
	resized     bool
	cpus        cpuset.Set
}

func newJudge() *judge { return &judge{static: true, away: true, seen: map[string]*subject{}} }

func (j *judge) set(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
}

func (j *judge) setAway(away bool) { j.set(func() { j.away = away }) }

// excuse begins a time in which a fault has its effect. It ends when everything has settled.
func (j *judge) excuse(why string) { j.set(func() { j.grace = why }) }

// fail notes a violation.
func (j *judge) fail(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.violation(format, args...)
}

func (j *judge) violation(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	const most = 5 // the first ones tell most
	if len(j.violations) == most || slices.Contains(j.violations, text) {
		return
	}
	j.violations = append(j.violations, text)
	j.report(text)
}

func (j *judge) found() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.violations)
}

// changed judges one change of the kernel's state. It is a runtime's Hooks.Changed.
func (j *judge) changed(s nriruntime.Snapshot) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range s.Containers {
		j.follow(&s.Containers[i])
	}
	if j.grace != "" || !j.static {
		return
	}
	for i := range s.Containers {
		v := &s.Containers[i]
		if at := j.seen[v.Container.ID()]; at.established {
			j.overlaps(&s, v)
		}
	}
}

// follow judges one container by itself.
func (j *judge) follow(v *nriruntime.View) {
	id := v.Container.ID()
	at := j.seen[id]
	troubled := j.away || j.grace != ""
	if at == nil {
		at = &subject{excused: troubled, wanted: wants(v)}
		j.seen[id] = at
	}
	if wanted := wants(v); wanted != at.wanted || v.Next != nil {
		at.wanted, at.resized = wanted, true
		at.excused = at.excused || troubled
	}
	ran := at.ran
	at.ran = v.Running
	at.excused = at.excused || troubled && v.Running && !ran                        // it starts while nobody can look
	leaves := v.Next != nil && oracle.Exclusive(&v.Container.Pod.Spec, v.Next) == 0 // it is about to share
	switch {
	case leaves || at.excused || at.wanted == 0 || !j.static || !v.Running:
		at.established = false
		return
	case j.grace != "":
		at.cpus = v.CPUs
		return
	case !at.established:
		if v.CPUs.Len() != at.wanted && !ran && !j.unsettled(id) {
			j.violation("%s starts on %s, and asked for %d CPUs of its own", v.Container, v.CPUs, at.wanted)
		}
		at.established = true
	case !v.CPUs.Equal(at.cpus) && !j.mayMove:
		grown := at.resized && (v.CPUs.IsSubsetOf(at.cpus) || at.cpus.IsSubsetOf(v.CPUs))
		if !grown && !j.unsettled(id) {
			j.violation("%s was moved from %s to %s", v.Container, at.cpus, v.CPUs)
		}
	}
	at.cpus = v.CPUs
}

func (j *judge) overlaps(s *nriruntime.Snapshot, v *nriruntime.View) {
	for i := range s.Containers {
		other := &s.Containers[i]
		if other.Container == v.Container || !other.Running || j.seen[other.Container.ID()].excused {
			continue
		}
		both := other.CPUs.Intersect(v.CPUs)
		if both.IsEmpty() || j.unsettled(v.Container.ID()) || j.unsettled(other.Container.ID()) {
			continue
		}
		j.violation("%s may run on %s, which %s has for itself", other.Container, both, v.Container)
	}
}

func wants(v *nriruntime.View) int { return oracle.Exclusive(&v.Container.Pod.Spec, v.Asks) }

// settled returns what is wrong in a state in which nothing should be. If nothing is, nothing is excused from now on.
func (j *judge) settled(s nriruntime.Snapshot, books state.Snapshot, r rules) []string {
	wrong := wrongIn(s, books, r)
	if len(wrong) > 0 {
		return wrong
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.static, j.grace, j.mayMove = r.static, "", false
	seen := map[string]*subject{}
	for i := range s.Containers {
		v := &s.Containers[i]
		id := v.Container.ID()
		if wants(v) > 0 && (j.away || j.unsettled(id)) {
			seen[id] = &subject{excused: true, wanted: wants(v), ran: v.Running}
			continue
		}
		seen[id] = &subject{wanted: wants(v), ran: v.Running, cpus: v.CPUs, established: v.Running && r.static && wants(v) > 0}
	}
	j.seen = seen
	return nil
}

// rules are what the operator wants, and what there is.
type rules struct {
	static    bool
	keepQuota bool
	online    cpuset.Set
}

// wrongIn returns what is wrong in a state in which nothing should be.
func wrongIn(s nriruntime.Snapshot, books state.Snapshot, r rules) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if !books.Online.Equal(r.online) {
		complain("the books have the CPUs %s, and %s are online", books.Online, r.online)
	}
	booked := map[string]*state.Container{}
	for i := range books.Containers {
		booked[books.Containers[i].ID] = &books.Containers[i]
	}
	pool := books.Shared
	if pool.IsEmpty() {
		pool = books.Reserved
	}
	owner := map[int]*nriruntime.Container{}
	for i := range s.Containers {
		v := &s.Containers[i]
		b := booked[v.Container.ID()]
		switch wanted := wants(v); {
		case !v.Running:
		case b == nil:
			complain("%s runs and is not in the books", v.Container)
		case !r.static:
			if !v.CPUs.Equal(r.online) && (b.Managed || v.CPUs.Len() > 0) {
				complain("%s runs on %s under policy none, not on %s", v.Container, v.CPUs, r.online)
			}
			if wanted > 0 && v.Quota <= 0 {
				complain("%s has no quota under policy none", v.Container)
			}
		case !b.Exclusive() && (wanted == 0 || b.Unsettled != ""):
			if !v.CPUs.Equal(pool) {
				complain("%s shares, and runs on %s, not on %s", v.Container, v.CPUs, pool)
			}
		default:
			if v.CPUs.Len() != wanted && b.Unsettled == "" {
				complain("%s runs on %s, and asked for %d CPUs of its own", v.Container, v.CPUs, wanted)
			}
			if reserved := v.CPUs.Intersect(books.Reserved); !reserved.IsEmpty() && b.Unsettled == "" {
				complain("%s runs on %s, of which %s is reserved", v.Container, v.CPUs, reserved)
			}
			if lifted := v.Quota <= 0; lifted == r.keepQuota && b.Unsettled == "" {
				complain("%s has CPUs of its own and a quota of %d", v.Container, v.Quota)
			}
			for cpu := range v.CPUs.All() {
				if owner[cpu] != nil {
					complain("%s and %s both have CPU %d for themselves", v.Container, owner[cpu], cpu)
				}
				owner[cpu] = v.Container
			}
		}
	}
	for i := range s.Containers {
		v := &s.Containers[i]
		for cpu := range v.CPUs.All() {
			if o := owner[cpu]; v.Running && o != nil && o != v.Container {
				complain("%s may run on %d, which %s has for itself", v.Container, cpu, o)
			}
		}
	}
	return wrong
}
