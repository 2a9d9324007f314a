package state

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

// Node is the books of one node. All its methods may be called from several goroutines; none blocks on anything but the state file.
type Node struct {
	mu sync.Mutex

	rules      Rules
	usage      *allocator.Usage
	containers map[Key]*Container
	byID       map[string]*Container
	pods       map[string]*pod // by UID

	file    *File
	unsaved bool // something has changed that the file would tell
	now     func() time.Time
}

// pod is the containers of one pod, by name, and what they have in common.
type pod struct {
	containers []*Container
	affinity   *allocator.Affinity // what the topology manager said of the first one, under its scope pod
}

// NewNode returns the books of a node on which nothing runs. file may be nil: then nothing is written, as in a simulation.
func NewNode(rules Rules, file *File, now func() time.Time) *Node {
	return &Node{
		rules:      rules,
		usage:      rules.Allocator.NewUsage(),
		containers: map[Key]*Container{},
		byID:       map[string]*Container{},
		pods:       map[string]*pod{},
		file:       file,
		now:        now,
	}
}

// Rules returns what is in force.
func (n *Node) Rules() Rules {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rules
}

// Place decides what a container gets that is about to be created, and books it. total is its whole pod's demand where the runtime tells it
// (used under the topology manager's scope pod). A key that is held already, by an attempt that has ended or by one whose end has not been
// heard of, gets what it has. The error is an [*allocator.Refusal]; then nothing has changed.
func (n *Node) Place(c Container, total *allocator.Amount) (Container, error) {
	n.mu.Lock()
	defer n.mu.Unlock()

	p, err := n.decide(&c, total, true)
	if err != nil {
		return Container{}, err
	}
	c.Phase = Creating
	c.CreatedMilliCPU = c.Demand.MilliCPU
	c.Unsettled = ""
	c.Since = n.now()
	if old := n.containers[c.Key]; old != nil && old.Placement.CPUs.Equal(p.CPUs) && !p.CPUs.IsEmpty() {
		c.Since = old.Since
	}
	c.Managed = n.rules.pins()
	n.book(&c, p)
	n.save()
	return c, nil
}

// Resize decides anew for a container whose demand has changed while it runs: it grows next to what it has, shrinks to a part of it, or goes
// to or from the shared pool. Its memory stays where it is. The error is an [*allocator.Refusal]; then nothing has changed.
func (n *Node) Resize(id string, d Demand) (Container, error) {
	n.mu.Lock()
	defer n.mu.Unlock()

	old := n.byID[id]
	if old == nil {
		return Container{}, fmt.Errorf("container %s is not known", id)
	}
	c := *old
	c.Demand = d
	p, err := n.decide(&c, nil, false)
	if err != nil {
		return Container{}, err
	}
	if !p.CPUs.Equal(c.Placement.CPUs) {
		c.Since = n.now()
	}
	c.Managed = c.Managed || n.rules.pins()
	n.book(&c, p)
	n.save()
	return c, nil
}

// SetPhase records how far the attempt with this ID has come. A phase never goes back, and an ID that is not the latest attempt's is
// ignored: its events come late.
func (n *Node) SetPhase(id string, phase Phase) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.byID[id]
	if c == nil || phaseOrder[phase] <= phaseOrder[c.Phase] {
		return
	}
	c.Phase = phase
	if phase == Exited {
		n.touch(c)
		n.save()
	}
}

var phaseOrder = map[Phase]int{Creating: 0, Created: 1, Running: 2, Exited: 3}

// Release forgets the container with this ID and frees what it has: the runtime has removed it. It is idempotent, and an ID that is not the
// latest attempt's frees nothing.
func (n *Node) Release(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.byID[id]; c != nil {
		n.forget(c)
		n.save()
	}
}

// ReleasePod forgets the containers of a pod sandbox that has stopped or gone, frees what they have, and returns them. It is idempotent. A
// pod whose sandbox was replaced keeps what its new sandbox's containers have.
func (n *Node) ReleasePod(uid, sandbox string) []Container {
	n.mu.Lock()
	defer n.mu.Unlock()
	var released []Container
	for _, c := range n.inPod(uid) {
		if c.Sandbox == sandbox {
			n.forget(c)
			released = append(released, *c)
		}
	}
	if len(released) > 0 {
		n.save()
	}
	return released
}

// Wanted returns what the container with this ID should have now. It is false for a container that is not known, has exited, or is none of
// our business, because the policy is `none` and we never touched it.
func (n *Node) Wanted(id string) (Wanted, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.byID[id]
	if c == nil {
		return Wanted{}, false
	}
	return n.wanted(c, n.rules.Allocator.Shared(n.usage))
}

// Live is one container that may be running, and what it should have.
type Live struct {
	ID          string
	Phase       Phase
	CgroupsPath string
	Exclusive   bool
	Wanted      Wanted
}

// Live returns all containers that may be running and should have something. buffer is used for the answer where it is large enough.
func (n *Node) Live(buffer []Live) []Live {
	n.mu.Lock()
	defer n.mu.Unlock()
	live := buffer[:0]
	pool := n.rules.Allocator.Shared(n.usage)
	for _, c := range n.byID {
		live = n.appendLive(live, c, pool)
	}
	return live
}

// LiveOf is [Node.Live] for the containers with these IDs. Its cost grows with them and not with all.
func (n *Node) LiveOf(ids iter.Seq[string], buffer []Live) []Live {
	n.mu.Lock()
	defer n.mu.Unlock()
	live := buffer[:0]
	pool := n.rules.Allocator.Shared(n.usage)
	for id := range ids {
		if c := n.byID[id]; c != nil {
			live = n.appendLive(live, c, pool)
		}
	}
	return live
}

func (n *Node) appendLive(live []Live, c *Container, pool cpuset.Set) []Live {
	w, ok := n.wanted(c, pool)
	if !ok {
		return live
	}
	return append(live, Live{ID: c.ID, Phase: c.Phase, CgroupsPath: c.CgroupsPath, Exclusive: c.Exclusive(), Wanted: w})
}

// Pool returns the shared pool, and whether it is in force: under policy `none` everybody runs everywhere.
func (n *Node) Pool() (pool cpuset.Set, inForce bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rules.Allocator.Shared(n.usage), n.rules.pins()
}

// Container returns the container with this ID.
func (n *Node) Container(id string) (Container, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.byID[id]
	if c == nil {
		return Container{}, false
	}
	return *c, true
}

// Unsettled tells whether a container is not where the rules want it, for lack of room.
func (n *Node) Unsettled() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.containers {
		if c.Unsettled != "" {
			return true
		}
	}
	return false
}

// Pod returns the containers of the pod with this UID, by name.
func (n *Node) Pod(uid string) []Container {
	n.mu.Lock()
	defer n.mu.Unlock()
	var in []Container
	for _, c := range n.inPod(uid) {
		in = append(in, *c)
	}
	return in
}

// SetPodQuota notes what the CFS quota of a pod's cgroup is to be when it is put back, in microseconds.
func (n *Node) SetPodQuota(uid string, quota int64, period uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.inPod(uid) {
		c.PodQuota, c.PodPeriod = quota, period
		n.touch(c)
	}
	n.save()
}

// Snapshot is the books at one moment.
type Snapshot struct {
	Rules      Rules
	Online     cpuset.Set
	Reserved   cpuset.Set
	Shared     cpuset.Set
	Exclusive  cpuset.Set
	Containers []Container // by namespace, pod and name
	SaveError  error       // why the state file could not be written the last time; nil when it was
}

// Snapshot returns the books as they are now.
func (n *Node) Snapshot() Snapshot {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Snapshot{
		Rules:     n.rules,
		Online:    n.rules.Allocator.Machine().Online,
		Reserved:  n.rules.Allocator.Reserved(),
		Shared:    n.rules.Allocator.Shared(n.usage),
		Exclusive: n.usage.Exclusive(),
		SaveError: n.file.lastError(),
	}
	for _, c := range n.containers {
		s.Containers = append(s.Containers, *c)
	}
	slices.SortFunc(s.Containers, func(a, b Container) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.PodUID, b.PodUID))
	})
	return s
}

// decide asks the allocator for c, which may hold something already, and checks the answer.
func (n *Node) decide(c *Container, total *allocator.Amount, creating bool) (allocator.Placement, error) {
	if n.rules.ignores(c) {
		return allocator.Placement{}, nil
	}
	r := allocator.Request{Amount: n.rules.amount(c), Devices: c.Demand.Devices}
	if old := n.containers[c.Key]; old != nil {
		r.Held = old.Placement
	}
	if !creating {
		r.Memory = nil // changing cpuset.mems of a running container migrates its pages
		r.Devices = nil
	}
	r.Reusable = n.reusable(c.Key)
	r.KeepShared = n.sharedIsUsed(c.Key)
	if n.rules.Allocator.Policy().Scope == allocator.ScopePod {
		if in := n.pods[c.PodUID]; in != nil && in.affinity != nil {
			r.Affinity = in.affinity
		} else if c.Demand.Guaranteed {
			r.Pod = total
		}
	}
	p, err := n.rules.Allocator.Place(n.usage, r)
	if err != nil {
		return p, err
	}
	if !creating {
		p.Blocks = r.Held.Blocks
	}
	return p, n.check(c, p)
}

// reusable adds up what the exited containers of a pod hold, but for the one with this key.
func (n *Node) reusable(key Key) allocator.Placement {
	var left allocator.Placement
	for _, c := range n.inPod(key.PodUID) {
		if c.Key != key && c.Phase == Exited {
			left.CPUs = left.CPUs.Union(c.Placement.CPUs)
			left.Blocks = append(left.Blocks, c.Placement.Blocks...)
		}
	}
	return left
}

// sharedIsUsed tells whether anybody but key runs in the shared pool.
func (n *Node) sharedIsUsed(key Key) bool {
	for _, c := range n.containers {
		if c.Key != key && !c.Exclusive() && c.Phase != Exited {
			return true
		}
	}
	return false
}

// book gives p to c, in place of what its key holds, and takes over what p uses of exited containers of the pod.
func (n *Node) book(c *Container, p allocator.Placement) {
	if old := n.containers[c.Key]; old != nil {
		n.forget(old)
	}
	for _, e := range n.inPod(c.PodUID) {
		if e.Phase != Exited {
			continue
		}
		n.usage.Give(e.Placement)
		e.Placement = allocator.Transfer(e.Placement, p)
		n.touch(e)
		n.usage.Take(e.Placement)
	}
	c.Placement = p
	booked := *c
	n.enter(&booked)
	if in := n.pods[c.PodUID]; in.affinity == nil && c.Demand.Guaranteed {
		in.affinity = &booked.Placement.Affinity
	}
}

// enter puts c, with its placement, into the books.
func (n *Node) enter(c *Container) {
	n.touch(c)
	n.usage.Take(c.Placement)
	n.containers[c.Key] = c
	n.byID[c.ID] = c
	in := n.pods[c.PodUID]
	if in == nil {
		in = &pod{}
		n.pods[c.PodUID] = in
	}
	at, _ := slices.BinarySearchFunc(in.containers, c.Name, func(o *Container, name string) int { return cmp.Compare(o.Name, name) })
	in.containers = slices.Insert(slices.Clone(in.containers), at, c)
}

// forget takes c out of the books. What its pod has in common goes with the last container.
func (n *Node) forget(c *Container) {
	n.touch(c)
	n.usage.Give(c.Placement)
	delete(n.containers, c.Key)
	delete(n.byID, c.ID)
	in := n.pods[c.PodUID]
	in.containers = slices.DeleteFunc(slices.Clone(in.containers), func(o *Container) bool { return o == c })
	if len(in.containers) == 0 {
		delete(n.pods, c.PodUID)
	}
}

func (n *Node) wanted(c *Container, pool cpuset.Set) (Wanted, bool) {
	w := Wanted{CPUs: pool, Quota: c.Demand.Quota, Period: c.Demand.Period}
	if pool.IsEmpty() { // only ignored containers are let in then, and an empty cpuset would mean "no change" to a runtime
		w.CPUs = n.rules.Allocator.Reserved()
	}
	switch {
	case c.Phase == Exited:
		return w, false
	case !n.rules.pins():
		w.CPUs = n.rules.Allocator.Machine().Online
		return w, c.Managed
	case c.Exclusive():
		w.CPUs = c.Placement.CPUs
		w.Unlimited = n.rules.LiftQuota
	}
	return w, true
}

// inPod returns the pod's containers by name. The slice is not changed by what happens later.
func (n *Node) inPod(uid string) []*Container {
	if in := n.pods[uid]; in != nil {
		return in.containers
	}
	return nil
}

// sorted returns all containers in a stable order, those first that have had theirs the longest.
func (n *Node) sorted() []*Container {
	return slices.SortedFunc(maps.Values(n.containers), func(a, b *Container) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Name, b.Name))
	})
}
