package cluster

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/cpuset"

	"nri-cpuset/test/cluster/kube"
)

// pace leaves the CPUs to others between two looks: there may be only two of them.
const pace = 2 * time.Millisecond

// watcher looks at the effective CPUs of every container again and again, while a test does something.
type watcher struct {
	f         *fixture
	exclusive []string // pod/container of those whose CPUs are nobody else's
	stopping  chan struct{}
	stopped   chan struct{}

	known   []kube.Container
	rounds  int
	seen    map[string]int      // pod/container -> rounds in which it had processes
	history map[string][]string // container ID -> its effective CPUs, each time they had changed
	exposed []string
	byOwn   int // rounds in which it was by the plugin's own container
}

// watch begins to watch that nobody else may run where one of the exclusive containers, given as pod/container, has its CPUs and processes on
// them. Sandboxes are left out: no NRI plugin can place them, and they only wait.
func (f *fixture) watch(t *testing.T, exclusive ...string) *watcher {
	t.Helper()
	w := &watcher{
		f: f, exclusive: exclusive, stopping: make(chan struct{}), stopped: make(chan struct{}),
		seen: map[string]int{}, history: map[string][]string{},
	}
	go func() {
		defer close(w.stopped)
		for {
			select {
			case <-w.stopping:
				return
			case <-time.After(pace):
				w.look(t)
			}
		}
	}()
	t.Cleanup(sync.OnceFunc(func() { w.end() }))
	return w
}

func (w *watcher) look(t *testing.T) {
	all, err := w.f.Runtime.Containers(t.Context())
	if err != nil {
		all = w.known // containerd is away, and they run on
	}
	w.known = all
	w.rounds++
	// The exclusive ones before the others and once more after them: one that was on its CPUs all that time was there when the others were
	// looked at.
	pinned := slices.DeleteFunc(slices.Clone(all), func(c kube.Container) bool {
		return !slices.Contains(w.exclusive, fullName(c)) || w.where(c) != w.f.last
	})
	found := make([][]string, len(pinned))
	for _, c := range all {
		cpus := w.where(c)
		if cpus == "" {
			continue
		}
		w.seen[fullName(c)]++
		if h := w.history[c.ID]; len(h) == 0 || h[len(h)-1] != cpus {
			w.history[c.ID] = append(h, cpus)
		}
		for i, p := range pinned {
			switch {
			case c.ID == p.ID || !overlap(cpus, w.f.last):
			case c.Name == "nri-cpuset": // nobody is there to place it before it has connected
				w.byOwn++
			default:
				found[i] = append(found[i], fmt.Sprintf("%s on %s beside %s on %s", fullName(c), cpus, fullName(p), w.f.last))
			}
		}
	}
	for i, p := range pinned {
		if w.where(p) == w.f.last {
			w.exposed = append(w.exposed, found[i]...)
		}
	}
}

// where returns a container's effective CPUs, nothing if it has no processes.
func (w *watcher) where(c kube.Container) string {
	pids, err := w.f.Cgroups.Processes(c.Cgroup)
	if err != nil || len(pids) == 0 {
		return ""
	}
	cpus, err := w.f.Cgroups.EffectiveCPUs(c.Cgroup)
	if err != nil {
		return "" // it has just ended
	}
	return cpus
}

func overlap(a, b string) bool {
	one, err1 := cpuset.Parse(a)
	other, err2 := cpuset.Parse(b)
	return err1 != nil || err2 != nil || !one.Intersection(other).IsEmpty()
}

func fullName(c kube.Container) string { return c.Pod + "/" + c.Name }

func (w *watcher) end() {
	select {
	case <-w.stopping:
	default:
		close(w.stopping)
	}
	<-w.stopped
}

// expectNoOverlap ends the watch.
func (w *watcher) expectNoOverlap(t *testing.T) {
	t.Helper()
	w.end()
	for _, name := range w.exclusive {
		if w.seen[name] == 0 {
			t.Errorf("the watch never saw %s run, in %d rounds", name, w.rounds)
		}
	}
	if len(w.exposed) > 0 {
		t.Errorf("%d times in %d rounds a container could run on CPUs of an exclusive one; first: %s", len(w.exposed), w.rounds, w.exposed[0])
	}
	say(t, "measured: looked %d times while %s ran, %d times somebody else could run there", w.rounds, strings.Join(w.exclusive, ", "), len(w.exposed))
	if w.byOwn > 0 {
		say(t, "measured: and %d times nri-cpuset itself, before it had connected", w.byOwn)
	}
}

// expectStayed ends the watch and asserts that these containers were in one place all the time.
func (w *watcher) expectStayed(t *testing.T, containers ...kube.Container) {
	t.Helper()
	w.end()
	for _, c := range containers {
		if h := w.history[c.ID]; len(h) != 1 {
			t.Errorf("%s was on %q, want one place in %d rounds", fullName(c), h, w.rounds)
		}
	}
}
