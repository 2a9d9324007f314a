package plugin

import (
	"fmt"
	"path"
	"strings"

	"nri-cpuset/topology/cpuset"
)

// On cgroup v2 a container runs on no CPU that a cgroup above its own does not have, whatever its own says. The kubelet keeps all Burstable pods
// in one cgroup and all BestEffort pods in another, so two writes take all of their containers off a CPU at once, however many they are: a fence.
// The containers' own files follow in the background, and then hold without it.
//
// On v1 a cgroup cannot be narrower than what is below it; there every container is written by itself.

// fence is one cgroup above containers that share, all of them.
type fence struct {
	dir     string
	members map[string]*record // by container ID
	// exclusive counts members that have exclusive CPUs (exclusiveScope: container): with one of them the fence must stay open.
	exclusive int

	cpus cpuset.Set
	set  bool // cpus is what it has; otherwise nobody knows, and its members are written one by one
}

// fences are the fences of a node, by their cgroup's directory.
type fences map[string]*fence

// above returns the fence above a container's cgroup; nil for none.
func (f fences) above(dir string) *fence {
	at := fenceDir(dir)
	if at == "" {
		return nil
	}
	if f[at] == nil {
		f[at] = &fence{dir: at, members: map[string]*record{}}
	}
	return f[at]
}

// setExclusive notes whether a container has CPUs of its own.
func (r *record) setExclusive(exclusive bool) {
	if r.fence != nil && exclusive != r.exclusive {
		if exclusive {
			r.fence.exclusive++
		} else {
			r.fence.exclusive--
		}
	}
	r.exclusive = exclusive
}

// holds tells whether the fence alone keeps its members on cpus.
func (f *fence) holds(cpus cpuset.Set) bool {
	return f.set && f.exclusive == 0 && f.cpus.IsSubsetOf(cpus)
}

// fenceDir is the QoS class's cgroup above a container's own, kubepods/burstable or kubepods.slice/kubepods-burstable.slice; empty where there
// is none, as above a Guaranteed pod.
func fenceDir(dir string) string {
	above := path.Dir(path.Dir(dir))
	switch base := path.Base(above); {
	case strings.HasSuffix(strings.TrimSuffix(base, ".slice"), "burstable"), strings.HasSuffix(strings.TrimSuffix(base, ".slice"), "besteffort"):
		return above
	default:
		return ""
	}
}

// closeFences takes everybody behind a fence off the CPUs that are not the pool's.
func (c *changer) closeFences(pool cpuset.Set) {
	for _, f := range c.fences {
		if f.exclusive > 0 || len(f.members) == 0 || f.holds(pool) {
			continue
		}
		to := f.cpus.Intersect(pool)
		if !f.set || to.IsEmpty() {
			to = pool
		}
		c.setFence(f, to)
	}
}

// liftFences takes away those that have an exclusive container behind them now. The others behind them are where they belong by themselves.
func (c *changer) liftFences() {
	for _, f := range c.fences {
		if f.exclusive > 0 && f.set {
			c.clearFence(f)
		}
	}
}

// openFences lets everybody behind a fence have the whole pool, and takes fences away that are no longer to be.
func (c *changer) openFences(pool cpuset.Set, inForce bool) {
	for dir, f := range c.fences {
		switch {
		case !inForce || f.exclusive > 0 || len(f.members) == 0:
			c.clearFence(f)
		case !f.set || !f.cpus.Equal(pool):
			c.setFence(f, pool)
		}
		if len(f.members) == 0 {
			delete(c.fences, dir)
		}
	}
}

func (c *changer) setFence(f *fence, cpus cpuset.Set) {
	err := c.cgroups.setCPUs(f.dir, cpus, cpus)
	f.set, f.cpus = err == nil, cpus
	if err != nil {
		c.log.WithError(err).WithField("cgroup", f.dir).Warn("a whole QoS class cannot be moved at once; its containers are, one by one")
	}
}

// clearFence takes a fence away: an empty set is that of the cgroup above.
func (c *changer) clearFence(f *fence) {
	machine := c.node.Rules().Allocator.Machine()
	if err := c.cgroups.clearCPUs(f.dir, machine.Online.Union(machine.Offline)); err != nil {
		c.log.WithError(err).WithField("cgroup", f.dir).Warn("a QoS class's cpuset cannot be given back")
		return
	}
	f.set = false
}

// checkFences makes sure that nobody has opened a fence behind our back that keeps its members off cpus.
func (c *changer) checkFences(cpus cpuset.Set) error {
	for _, f := range c.fences {
		if !f.set || f.cpus.Overlaps(cpus) {
			continue // its members are looked at one by one
		}
		has, err := c.cgroups.cpus(f.dir)
		if err == nil && has.Overlaps(cpus) {
			f.set = false
			return fmt.Errorf("cgroup %s has been changed to %s by somebody else", f.dir, has)
		}
	}
	return nil
}

// everythingBut returns the online CPUs without these.
func (c *changer) everythingBut(cpus cpuset.Set) cpuset.Set {
	return c.node.Rules().Allocator.Machine().Online.Difference(cpus)
}

// unfenced yields the containers that no fence holds on cpus.
func (c *changer) unfenced(cpus cpuset.Set) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for id := range c.loose {
			if !yield(id) {
				return
			}
		}
		for _, f := range c.fences {
			if f.holds(cpus) {
				continue
			}
			for id := range f.members {
				if !yield(id) {
					return
				}
			}
		}
	}
}
