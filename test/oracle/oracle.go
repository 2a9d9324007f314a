// Package oracle judges what a plugin does by what the kernel would do: no instant may exist in which a container can run on a CPU that
// another one has for itself. It knows from the pods alone who ought to have CPUs of its own, and asks the plugin nothing.
package oracle

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/test/nriruntime"
	"nri-cpuset/topology/cpuset"
)

// Oracle watches the kernel of one runtime. Give its Changed to the runtime's hooks.
type Oracle struct {
	// Reserved are CPUs that no container may have for itself.
	Reserved cpuset.Set
	// Report is told of each violation at the moment it is seen, if it is not nil. It must not block.
	Report func(violation string)
	// KeepQuota says that exclusive containers keep their CFS quota (disableCPUQuotaWithExclusiveCPUs: false).
	KeepQuota bool

	mu         sync.Mutex
	away       bool
	settled    bool // nothing is under way
	violations []string
	had        map[key]cpuset.Set  // what every exclusive container had last
	known      map[string]struct{} // ids of containers that were there while the plugin was
	unpinned   map[string]struct{} // ids of those that came while it was away, and that nobody has looked at since
}

// key names a container over its restarts. An init container's CPUs go to the containers after it, so that each of its attempts is another.
type key struct{ podUID, name string }

// maxViolations is how many are kept: the first ones tell most.
const maxViolations = 20

// New returns an oracle for a plugin that is there from the beginning.
func New(reserved cpuset.Set) *Oracle {
	return &Oracle{Reserved: reserved, had: map[key]cpuset.Set{}, known: map[string]struct{}{}, unpinned: map[string]struct{}{}}
}

// Away says whether the plugin is away. Then containers are created without it, which nobody can help; but those that have been pinned
// still may not move.
func (o *Oracle) Away(away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = away
}

// Changed judges the kernel's state after one change.
func (o *Oracle) Changed(s nriruntime.Snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range s.Containers {
		id := s.Containers[i].Container.ID()
		if !o.away {
			o.known[id] = struct{}{}
		} else if _, known := o.known[id]; !known {
			o.unpinned[id] = struct{}{}
		}
	}
	o.judge(&s)
}

// Settled judges a state in which the plugin is there again and has had the time to put everything right. If nothing is wrong, nothing is
// excused any more from now on; otherwise it returns what is wrong, and has noted nothing.
func (o *Oracle) Settled(s nriruntime.Snapshot) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	strict := &Oracle{Reserved: o.Reserved, KeepQuota: o.KeepQuota, had: maps.Clone(o.had), settled: true}
	strict.judge(&s)
	if len(strict.violations) == 0 {
		o.had = strict.had
		maps.Copy(o.known, o.unpinned)
		clear(o.unpinned)
	}
	return strict.violations
}

// Violations returns what was seen that must not be, the first ones first.
func (o *Oracle) Violations() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.violations)
}

// Exclusive returns how many CPUs a container ought to have for itself: SPEC.md section 1.
func Exclusive(pod *kubepod.Pod, c *kubepod.Container) int {
	if pod.QoS() != kubepod.Guaranteed {
		return 0
	}
	return c.WholeCPUs()
}

func (o *Oracle) judge(s *nriruntime.Snapshot) {
	for i := range s.Containers {
		v := &s.Containers[i]
		if !v.Running {
			continue // it has executed nothing yet
		}
		if _, excused := o.unpinned[v.Container.ID()]; excused {
			continue
		}
		if wanted := wants(v); wanted > 0 {
			o.judgeExclusive(v, wanted)
			o.judgeOverlaps(s, v)
		}
	}
}

// judgeExclusive looks at one exclusive container by itself. While it is being resized it may have what it had, what it is to have, or
// something on the way from one to the other; it never leaves the CPUs that it keeps.
func (o *Oracle) judgeExclusive(v *nriruntime.View, wanted int) {
	if !o.KeepQuota && v.Quota > 0 {
		o.violation("%s has CPUs of its own and a quota of %d", v.Container, v.Quota)
	}
	if reserved := v.CPUs.Intersect(o.Reserved); !reserved.IsEmpty() {
		o.violation("%s runs on %s, of which %s is reserved", v.Container, v.CPUs, reserved)
	}
	before, pinned := o.had[keyOf(v)]
	if pinned && !v.CPUs.IsSubsetOf(before) && !before.IsSubsetOf(v.CPUs) {
		o.violation("%s was moved from %s to %s", v.Container, before, v.CPUs)
	}
	if most := max(wanted, before.Len(), wantedNext(v)); v.CPUs.Len() != wanted && (!pinned || o.settled || v.CPUs.Len() > most) {
		o.violation("%s runs on %s, and asked for %d CPUs of its own", v.Container, v.CPUs, wanted)
	}
	o.had[keyOf(v)] = v.CPUs
}

func wantedNext(v *nriruntime.View) int {
	if v.Next == nil {
		return 0
	}
	return Exclusive(&v.Container.Pod.Spec, v.Next)
}

// judgeOverlaps looks at who else may run where an exclusive container does.
func (o *Oracle) judgeOverlaps(s *nriruntime.Snapshot, v *nriruntime.View) {
	for i := range s.Containers {
		other := &s.Containers[i]
		if other.Container == v.Container || !other.Running {
			continue
		}
		if _, excused := o.unpinned[other.Container.ID()]; excused {
			continue
		}
		if both := other.CPUs.Intersect(v.CPUs); !both.IsEmpty() {
			o.violation("%s may run on %s, which %s has for itself", other.Container, both, v.Container)
		}
	}
}

func (o *Oracle) violation(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(o.violations) == maxViolations || slices.Contains(o.violations, text) {
		return
	}
	o.violations = append(o.violations, text)
	if o.Report != nil {
		o.Report(text)
	}
}

func wants(v *nriruntime.View) int {
	return Exclusive(&v.Container.Pod.Spec, v.Asks)
}

func keyOf(v *nriruntime.View) key {
	c := v.Container
	for i := range c.Pod.Spec.InitContainers {
		if init := &c.Pod.Spec.InitContainers[i]; init.Name == c.Name && !init.Sidecar() {
			return key{c.Pod.UID(), c.ID()}
		}
	}
	return key{c.Pod.UID(), c.Name}
}
