package plugin

import (
	"errors"
	"fmt"
	"math"

	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"nri-cpuset/state"
	"nri-cpuset/topology/cpuset"
)

// changer is the one place that moves running containers. It knows what each of them was given last, by the kernel and by the runtime's
// record, and brings both to what the books want: the cgroup first, because that takes microseconds and is what counts, the runtime's
// record after.
//
// Its callers hold the plugin's lock.
type changer struct {
	node    *state.Node
	cgroups *cgroups // nil: everything goes through the runtime
	log     *logrus.Entry

	records map[string]*record // by container ID
	loose   map[string]*record // those of them that are behind no fence
	fences  fences
	// flight is what is on its way to the runtime outside of any request, and may land at any time until the call returns.
	flight map[string]cpuset.Set
	// arrived is closed when what is on its way has arrived.
	arrived chan struct{}
	live    []state.Live // kept for its memory
}

// record is what one container was given last.
type record struct {
	dir       string // its cgroup, below the hierarchy's root; empty where the path is not understood
	fence     *fence // above it; nil for none
	exclusive bool
	kernel    setting // in the container's own files
	runtime   setting
	replied   setting // in the reply to an update that the runtime is making
	// asked counts how often the runtime was asked for what the kernel then did not have. The audit begins anew.
	asked int
	// lost says that the runtime did not take the last update: the container is gone, and nobody has told us.
	lost bool
}

// setting is a cpuset and whether the CFS quota is lifted.
type setting struct {
	cpus   cpuset.Set
	lifted bool
}

func (s setting) equal(t setting) bool { return s.lifted == t.lifted && s.cpus.Equal(t.cpus) }

func newChanger(node *state.Node, groups *cgroups, log *logrus.Entry) *changer {
	return &changer{
		node: node, cgroups: groups, log: log,
		records: map[string]*record{}, loose: map[string]*record{}, fences: fences{},
	}
}

// created notes what the reply to CreateContainer gives a container.
func (c *changer) created(id, cgroupsPath string, w state.Wanted, exclusive bool) {
	given := setting{w.CPUs, w.Unlimited}
	c.enter(id, &record{dir: c.dir(cgroupsPath), kernel: given, runtime: given}, exclusive)
}

// adopted notes what a container has that was found running, and returns its cpuset. What the kernel says goes before what the runtime says.
func (c *changer) adopted(id, cgroupsPath string, reported cpuset.Set, lifted bool) cpuset.Set {
	has := setting{reported, lifted}
	r := &record{dir: c.dir(cgroupsPath), kernel: has, runtime: has}
	if cpus, err := c.readOwn(r); err == nil {
		r.kernel.cpus = cpus
	}
	c.enter(id, r, true) // until the books say that it shares, its fence stays open
	return r.kernel.cpus
}

// ended tells whether a container that is said to run has no process any more, by its cgroup: empty, or gone while its pod's is still there.
func (c *changer) ended(cgroupsPath string) bool {
	dir := c.dir(cgroupsPath)
	if c.cgroups == nil || dir == "" {
		return false
	}
	pod := c.podDir(cgroupsPath)
	return c.cgroups.empty(dir) || pod != "" && c.cgroups.exists(pod) && !c.cgroups.exists(dir)
}

// enter begins to keep a record, in place of the one before.
func (c *changer) enter(id string, r *record, exclusive bool) {
	c.removed(id)
	c.records[id] = r
	if c.cgroups != nil && c.cgroups.v2 {
		r.fence = c.fences.above(r.dir)
	}
	if r.fence == nil {
		c.loose[id] = r
	} else {
		r.fence.members[id] = r
	}
	r.setExclusive(exclusive)
}

// removed forgets a container.
func (c *changer) removed(id string) {
	if r := c.records[id]; r != nil {
		r.setExclusive(false)
		if r.fence != nil {
			delete(r.fence.members, id)
		}
		delete(c.records, id)
		delete(c.loose, id)
	}
}

// keepOnly forgets all containers but these.
func (c *changer) keepOnly(ids map[string]bool) {
	for id := range c.records {
		if !ids[id] {
			c.removed(id)
		}
	}
}

func (c *changer) dir(cgroupsPath string) string {
	if c.cgroups == nil {
		return ""
	}
	dir, err := cgroupDir(cgroupsPath)
	if err != nil {
		c.log.WithError(err).Debug("this container's cpuset is set through the runtime")
	}
	return dir
}

// step is one change of one container on the way to what is wanted.
type step struct {
	live   *state.Live
	record *record
	to     setting
}

// urgency says which changes are due.
type urgency int

const (
	// shrinkOnly leaves out what merely gives a container more CPUs: nobody is hurt by waiting for that.
	shrinkOnly urgency = iota
	everything
)

// settle brings running containers to what they should have, as far as the cgroup files allow, and returns updates for those whose cpuset
// only the runtime can change: they are to go with the reply to the request that is being served. Nobody is put on a CPU that somebody has
// not left yet: first the shared containers leave what is no longer the pool's, then exclusive ones move, one after the other, then the shared
// ones take what has become free.
func (c *changer) settle(u urgency) []*api.ContainerUpdate {
	var updates []*api.ContainerUpdate
	left, _ := c.settleFiles(u, math.MaxInt)
	first := map[string]bool{}
	for _, s := range left {
		// A reply carries one update to each container. Leaving comes before anybody moves there; what can be taken after follows by itself.
		if first[s.live.ID] {
			continue
		}
		first[s.live.ID] = true
		updates = append(updates, c.updateFor(s, false))
		s.record.kernel, s.record.runtime = s.to, s.to
	}
	return updates
}

// settleFiles is settle without a request: it returns the steps that it could not make, which are left to the next call to the runtime. It
// stops after a number of cgroups, with more to do.
func (c *changer) settleFiles(u urgency, limit int) (left []step, more bool) {
	pool, inForce := c.node.Pool()
	if u == everything {
		for i := range c.liveNow() {
			c.setExclusive(c.live[i].ID, c.live[i].Exclusive)
		}
	}
	if inForce {
		c.closeFences(pool)
	}
	if u == shrinkOnly {
		c.live = c.node.LiveOf(c.unfenced(pool), c.live)
	}
	for i, stage := range stages {
		switch i {
		case 1:
			c.liftFences()
		case 2:
			if u == everything {
				c.openFences(pool.Difference(c.blocked().leaving), inForce)
			}
		}
		for _, s := range c.steps(stage, u) {
			if limit == 0 {
				return left, true
			}
			if c.writeStep(s) {
				limit--
			} else {
				left = append(left, s)
			}
		}
	}
	return left, false
}

// setExclusive notes whether a container has CPUs of its own. It has to be known before fences are closed.
func (c *changer) setExclusive(id string, exclusive bool) {
	if r := c.records[id]; r != nil {
		r.setExclusive(exclusive)
	}
}

// liveNow returns the containers that may be running, in memory that the next call uses again.
func (c *changer) liveNow() []state.Live {
	c.live = c.node.Live(c.live)
	return c.live
}

// oneEach keeps the last of several updates to one container: a reply may carry one.
func oneEach(updates []*api.ContainerUpdate) []*api.ContainerUpdate {
	last := make(map[string]int, len(updates))
	for i, u := range updates {
		last[u.GetContainerId()] = i
	}
	if len(last) == len(updates) {
		return updates
	}
	kept := updates[:0:0]
	for i, u := range updates {
		if last[u.GetContainerId()] == i {
			kept = append(kept, u)
		}
	}
	return kept
}

// A stage of a change says what a container that has one setting is to be given next.
type stage func(has setting, l *state.Live, b blocked) (to setting, due bool)

// blocked are CPUs that cannot be given to anybody yet.
type blocked struct {
	leaving  cpuset.Set // exclusive containers have lost them, and have not left them
	arriving cpuset.Set // an update that is on its way may still put a shared container there
}

var stages = []stage{leave, move, take}

// leave takes shared containers off the CPUs that are no longer the pool's.
func leave(has setting, l *state.Live, _ blocked) (setting, bool) {
	if l.Exclusive || has.cpus.IsSubsetOf(l.Wanted.CPUs) {
		return has, false
	}
	stays := has.cpus.Intersect(l.Wanted.CPUs)
	if stays.IsEmpty() {
		stays = l.Wanted.CPUs // the pool is somewhere else altogether
	}
	return setting{stays, has.lifted}, true
}

// move gives exclusive containers theirs, as far as nobody can arrive there any more.
func move(has setting, l *state.Live, b blocked) (setting, bool) {
	to := setting{l.Wanted.CPUs.Difference(b.arriving.Difference(has.cpus)), l.Wanted.Unlimited}
	return to, l.Exclusive && !has.equal(to) && !to.cpus.IsEmpty()
}

// take gives shared containers what is theirs now, as far as it has been left.
func take(has setting, l *state.Live, b blocked) (setting, bool) {
	to := setting{l.Wanted.CPUs.Difference(b.leaving), false}
	return to, !l.Exclusive && !has.equal(to) && !to.cpus.IsEmpty()
}

// steps collects a stage's steps for the containers that an update can reach. Exclusive containers that move come in an order in which none
// lands on one that has not moved yet, where there is such an order.
func (c *changer) steps(stage stage, u urgency) []step {
	var steps []step
	b := c.blocked()
	for i := range c.live {
		l := &c.live[i]
		if l.Phase == state.Creating {
			continue // the runtime does not know it yet: it is looked at again when it does
		}
		r := c.records[l.ID]
		if r == nil {
			r = &record{dir: c.dir(l.CgroupsPath)}
			c.enter(l.ID, r, l.Exclusive)
		}
		to, due := stage(r.kernel, l, b)
		if !due || u == shrinkOnly && !r.kernel.cpus.IsEmpty() && r.kernel.cpus.IsSubsetOf(to.cpus) && r.kernel.lifted == to.lifted {
			continue
		}
		steps = append(steps, step{live: l, record: r, to: to})
	}
	return inOrder(steps)
}

// blocked returns the CPUs that cannot be given to anybody yet. c.live is up to date.
func (c *changer) blocked() blocked {
	var b blocked
	for i := range c.live {
		l := &c.live[i]
		if r := c.records[l.ID]; r != nil && l.Exclusive && !r.kernel.cpus.IsSubsetOf(l.Wanted.CPUs) {
			b.leaving = b.leaving.Union(r.kernel.cpus.Difference(l.Wanted.CPUs))
		}
	}
	for _, cpus := range c.flight {
		b.arriving = b.arriving.Union(cpus)
	}
	return b
}

// leaving returns the CPUs that exclusive containers have lost, and have not left.
func (c *changer) leaving() cpuset.Set {
	c.live = c.node.LiveOf(func(yield func(string) bool) {
		for id, r := range c.records {
			if r.exclusive && !yield(id) {
				return
			}
		}
	}, c.live)
	return c.blocked().leaving
}

// inOrder puts first what lands on nobody.
func inOrder(steps []step) []step {
	for first := range steps {
		for i := first; i < len(steps); i++ {
			if !landsOn(steps[i], steps[first:]) {
				steps[first], steps[i] = steps[i], steps[first]
				break
			}
		}
	}
	return steps
}

func landsOn(s step, others []step) bool {
	if !s.live.Exclusive {
		return false
	}
	for _, o := range others {
		if o.live != s.live && o.record.kernel.cpus.Overlaps(s.to.cpus) {
			return true
		}
	}
	return false
}

// writeStep makes a step in the cgroup files and tells whether that was possible.
func (c *changer) writeStep(s step) bool {
	if c.cgroups == nil || s.record.dir == "" {
		return false
	}
	want := s.to.cpus
	if f := s.record.fence; f != nil && f.set {
		want = want.Intersect(f.cpus)
	}
	err := c.cgroups.setCPUs(s.record.dir, s.to.cpus, want)
	if err == nil && s.to.lifted != s.record.kernel.lifted {
		err = c.writeQuota(s)
	}
	if err != nil {
		level := logrus.WarnLevel
		if errors.Is(err, errNoCgroup) {
			level = logrus.DebugLevel // it has not been started yet, or is gone
		}
		c.log.WithError(err).WithField("container", s.live.ID).Log(level, "cgroup not written, changing it through the runtime")
		return false
	}
	quotaChanged := s.to.lifted != s.record.kernel.lifted
	s.record.kernel = s.to
	if quotaChanged {
		c.settlePodQuota(s.live.ID)
	}
	return true
}

func (c *changer) writeQuota(s step) error {
	if s.to.lifted {
		return c.cgroups.setQuota(s.record.dir, -1, 0)
	}
	if s.live.Wanted.Quota <= 0 {
		return nil
	}
	return c.cgroups.setQuota(s.record.dir, s.live.Wanted.Quota, s.live.Wanted.Period)
}

// readOwn returns what the container's own file says.
func (c *changer) readOwn(r *record) (cpuset.Set, error) {
	if c.cgroups == nil || r.dir == "" {
		return cpuset.Set{}, errNoCgroup
	}
	return c.cgroups.ownCPUs(r.dir)
}

// readCPUs returns the CPUs that the container may run on.
func (c *changer) readCPUs(r *record) (cpuset.Set, error) {
	if c.cgroups == nil || r.dir == "" {
		return cpuset.Set{}, errNoCgroup
	}
	return c.cgroups.cpus(r.dir)
}

// updateFor is a step as an update through the runtime.
func (c *changer) updateFor(s step, ignoreFailure bool) *api.ContainerUpdate {
	u := &api.ContainerUpdate{}
	u.SetContainerId(s.live.ID)
	u.SetLinuxCPUSetCPUs(s.to.cpus.String())
	if s.to.lifted || s.record.runtime.lifted {
		setQuota(u, s.to, &s.live.Wanted)
	}
	if ignoreFailure {
		u.SetIgnoreFailure()
	}
	return u
}

// setQuota lifts the CFS quota in an update, or puts it back.
func setQuota(u *api.ContainerUpdate, to setting, w *state.Wanted) {
	switch {
	case to.lifted:
		u.SetLinuxCPUQuota(-1)
	case w.Quota > 0:
		u.SetLinuxCPUQuota(w.Quota)
		u.SetLinuxCPUPeriod(int64(min(w.Period, maxPeriod)))
	}
}

// maxPeriod is the kernel's longest CFS period, in microseconds.
const maxPeriod = 1_000_000

// Causes of a drift.
const (
	causeRuntime = "runtime" // the kernel has what the runtime's record has: an update was lost, or an old one came back
	causeForeign = "foreign" // it has what nobody here has asked for
)

// verify compares what the kernel has for one container with what it should have, and brings it there. It has drifted where that is neither
// what it should have nor what it was given last, and where it may run on CPUs that it has no right to; has and the drift's cause are
// returned then.
func (c *changer) verify(id string) (has cpuset.Set, cause string) {
	w, known := c.node.Wanted(id)
	r := c.records[id]
	if !known || r == nil {
		return has, ""
	}
	has, err := c.readCPUs(r)
	if err != nil {
		return has, ""
	}
	own, err := c.readOwn(r)
	if err != nil || own.Equal(w.CPUs) && has.Equal(w.CPUs) {
		return has, ""
	}
	switch {
	case has.Equal(w.CPUs), has.IsSubsetOf(w.CPUs) && own.Equal(r.kernel.cpus):
	case c.flies(id, own): // our own update, which has landed before its call has returned
	case own.Equal(r.runtime.cpus):
		cause = causeRuntime
	default:
		cause = causeForeign
	}
	r.kernel.cpus = own
	c.liveNow()
	b := c.blocked()
	for i := range c.live {
		if l := &c.live[i]; l.ID == id {
			c.bring(l, r, b)
		}
	}
	return has, cause
}

// askAgain lets the runtime be asked again to change a container.
func (c *changer) askAgain(id string) {
	if r := c.records[id]; r != nil {
		r.asked = 0
	}
}

// maxAsked is how often the runtime is asked in a row to change a container that does not change.
const maxAsked = 3

// flies tells whether an update that gives a container these CPUs is on its way to the runtime.
func (c *changer) flies(id string, cpus cpuset.Set) bool {
	on, ok := c.flight[id]
	return ok && on.Equal(cpus)
}

// bring takes one container through all stages.
func (c *changer) bring(l *state.Live, r *record, b blocked) {
	for _, stage := range stages {
		to, due := stage(r.kernel, l, b)
		switch {
		case !due:
		case c.writeStep(step{live: l, record: r, to: to}):
			r.asked = 0
		case r.asked < maxAsked:
			r.asked++
			r.runtime.cpus = r.kernel.cpus // so that the runtime is asked for it
		}
	}
}

// batch returns updates for a few containers whose record in the runtime is behind, and notes that they are on their way. landed must be
// called when they have arrived.
func (c *changer) batch(size int) []*api.ContainerUpdate {
	c.liveNow()
	var updates []*api.ContainerUpdate
	c.flight, c.arrived = map[string]cpuset.Set{}, make(chan struct{})
	b := c.blocked()
	for _, stage := range stages {
		for i := range c.live {
			l := &c.live[i]
			r := c.records[l.ID]
			if r == nil || l.Phase == state.Creating || len(updates) == size {
				continue
			}
			to, due := stage(r.runtime, l, b)
			if want := (setting{l.Wanted.CPUs, l.Wanted.Unlimited}); due && r.kernel.equal(want) {
				to = want // the kernel is there already: the record must not take it back a stage
			}
			if !due || c.flight[l.ID].Len() > 0 {
				continue
			}
			c.flight[l.ID] = to.cpus
			updates = append(updates, c.updateFor(step{live: l, record: r, to: to}, true))
		}
		if len(updates) > 0 {
			break // the next stage only when this one has arrived everywhere
		}
	}
	return updates
}

// landed notes what became of a batch. Meanwhile the books may have changed and the kernel with them: then the batch has just undone that,
// and it is done again at once.
func (c *changer) landed(updates []*api.ContainerUpdate, failed []*api.ContainerUpdate, err error) {
	if c.flight == nil {
		return // the runtime has been away meanwhile, and has shown what runs
	}
	defer c.endFlight()
	lost := map[string]bool{}
	for _, u := range failed {
		lost[u.GetContainerId()] = true
	}
	for _, u := range updates {
		id := u.GetContainerId()
		r := c.records[id]
		if r == nil {
			continue
		}
		if r.lost = lost[id]; r.lost {
			c.log.WithField("container", id).Warn("the runtime did not take an update to this container")
		}
		if err == nil && !r.lost {
			r.runtime = setting{c.flight[id], u.GetLinux().GetResources().GetCpu().GetQuota().GetValue() == -1}
			if _, err := c.readCPUs(r); err != nil {
				r.kernel = r.runtime
			}
		}
		c.verify(id)
	}
}

// endFlight notes that nothing is on its way any more.
func (c *changer) endFlight() {
	if c.flight != nil {
		close(c.arrived)
	}
	c.flight = nil
}

// resized returns what the reply to an update of a container gives it. It is less than it should have where somebody may still arrive there;
// the rest follows. ok is false where nothing is left.
func (c *changer) resized(id string, w state.Wanted, was, exclusive bool) (to setting, ok bool) {
	to = setting{w.CPUs, w.Unlimited}
	r := c.records[id]
	if r == nil {
		return to, true
	}
	if exclusive {
		arriving := c.blocked().arriving
		if was { // nobody arrives on what it has for itself already
			arriving = arriving.Difference(r.kernel.cpus)
		}
		to.cpus = to.cpus.Difference(arriving)
	}
	r.replied = to
	return to, !to.cpus.IsEmpty()
}

// updated notes that the runtime has changed a container as our reply to its update said.
func (c *changer) updated(id string) {
	r := c.records[id]
	if r == nil || r.replied.cpus.IsEmpty() {
		return
	}
	r.runtime, r.kernel = r.replied, r.replied
	r.replied = setting{}
	if cpus, err := c.readOwn(r); err == nil {
		r.kernel.cpus = cpus
	}
}

// urgent tells whether a container may run on CPUs that it has no right to any more, so that the runtime's record must not wait.
func (c *changer) urgent(id string) bool {
	w, known := c.node.Wanted(id)
	r := c.records[id]
	return known && r != nil && !r.kernel.cpus.IsSubsetOf(w.CPUs)
}

// inFlightError is an update on its way to the runtime that could put a container on CPUs that are not its own.
type inFlightError struct {
	container string
	cpus      cpuset.Set
	arrived   <-chan struct{}
}

func (e *inFlightError) Error() string {
	return fmt.Sprintf("an update on its way to the runtime could put container %s on %s", e.container, e.cpus)
}

// clear makes sure, as the last thing before an exclusive container starts, that it runs on its CPUs and that nobody else may. The error names
// who may.
func (c *changer) clear(id string, cpus cpuset.Set) error {
	for other, on := range c.flight {
		if other != id && on.Overlaps(cpus) {
			return &inFlightError{container: other, cpus: on.Intersect(cpus), arrived: c.arrived}
		}
	}
	if r := c.records[id]; r != nil {
		if has, err := c.readCPUs(r); err == nil && !has.IsSubsetOf(cpus) {
			return fmt.Errorf("its cgroup lets it run on %s, and cannot be confined to %s", has, cpus)
		}
	}
	if err := c.checkFences(cpus); err != nil {
		return err
	}
	c.live = c.node.LiveOf(c.unfenced(c.everythingBut(cpus)), c.live)
	for i := range c.live {
		l := &c.live[i]
		r := c.records[l.ID]
		if l.ID == id || r.lost && c.cgroups == nil || l.Phase == state.Creating || !mayRunOn(r.kernel.cpus, cpus) {
			continue
		}
		has, err := c.readCPUs(r)
		switch {
		case c.cgroups != nil && errors.Is(err, errNoCgroup):
			continue // it has not been started, or is gone
		case err != nil:
			has = r.kernel.cpus
		}
		if mayRunOn(has, cpus) {
			return fmt.Errorf("container %s may still run on %s", l.ID, cpus)
		}
	}
	return nil
}

// mayRunOn tells whether a container that has a cpuset may run on one of cpus. None at all means anywhere.
func mayRunOn(has, cpus cpuset.Set) bool { return has.IsEmpty() || has.Overlaps(cpus) }
