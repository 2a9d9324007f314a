package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/test/nriruntime"
	"nri-cpuset/test/oracle"
)

// world is a node and the pods on it, to which things happen at random. It is the kubelet: it creates containers again that have ended, and
// tries again what failed.
type world struct {
	*node
	rng    *rand.Rand
	pods   []*running
	serial int

	// troubled says that the plugin may be dying at this moment, so that a call may fail without a reason.
	troubled func() bool
}

// running is a pod and its latest containers.
type running struct {
	pod        *nriruntime.Pod
	containers map[string]*nriruntime.Container
}

// seed makes what is random; another one makes another sequence. Where a test fails it is printed.
var seed = flag.Uint64("seed", 1, "of the random sequences")

const (
	assignable = 22 // CPUs of the machine that are not reserved
	maxPods    = 10
)

func newWorld(t testing.TB, s setup) *world {
	s.runtime.Seed = int64(*seed)
	w := &world{node: newNode(t, s), rng: rand.New(rand.NewPCG(*seed, 0)), troubled: func() bool { return false }}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to have the same steps again: cd test && go test ./integration -run '%s' -seed %d", t.Name(), *seed)
		}
	})
	return w
}

// step lets one thing happen.
func (w *world) step() {
	w.t.Helper()
	if len(w.pods) == 0 || len(w.pods) < maxPods && w.rng.IntN(3) == 0 {
		w.add()
		return
	}
	at := w.rng.IntN(len(w.pods))
	switch w.rng.IntN(4) {
	case 0, 1:
		w.end(at)
	case 2:
		w.restart(w.pods[at])
	default:
		w.resize(w.pods[at])
	}
}

// add runs a pod of a random kind.
func (w *world) add() {
	w.t.Helper()
	w.serial++
	spec := w.spec(fmt.Sprintf("pod-%d", w.serial))
	free := assignable - w.held()
	if w.troubled() && needs(&spec) > free {
		return // without the plugin nobody would refuse it, but the scheduler would not have sent it either
	}
	pod, containers, err := w.node.run(spec)
	w.note("run %s, which needs %d of %d free CPUs: %v", spec.Name, needs(&spec), free, err)
	if pod == nil && w.troubled() {
		return
	}
	if pod == nil {
		w.t.Fatalf("running %s: %v", spec.Name, err)
	}
	w.pods = append(w.pods, &running{pod, containers})
	if err == nil {
		return
	}
	if forNow(err) {
		w.heldBack++
		w.end(len(w.pods) - 1)
		return
	}
	if !w.troubled() && needs(&spec) <= free {
		w.t.Errorf("%s needs %d CPUs of %d that are free, and was refused: %v", spec.Name, needs(&spec), free, err)
	}
	if !w.troubled() && !strings.Contains(err.Error(), "UnexpectedAdmissionError") {
		w.t.Errorf("%s failed for no good reason: %v", spec.Name, err)
	}
	w.end(len(w.pods) - 1)
}

// spec makes up a pod: BestEffort, Burstable, Guaranteed with a fraction, or Guaranteed with whole CPUs.
func (w *world) spec(name string) kubepod.Pod {
	p := kubepod.Pod{Name: name}
	whole := func() kubepod.Resources { return limits(1+w.rng.IntN(6), 0) }
	switch w.rng.IntN(6) {
	case 0:
		p.Containers = []kubepod.Container{{Name: "a"}}
	case 1:
		p.Containers = []kubepod.Container{{Name: "a", Requests: limits(1, 0)}, {Name: "b"}}
	case 2:
		p.Containers = []kubepod.Container{{Name: "a", Limits: limits(1, 500)}}
	case 3:
		p.InitContainers = []kubepod.Container{
			{Name: "i", Limits: whole()},
			{Name: "s", RestartPolicy: kubepod.RestartAlways, Limits: limits(1, 0)},
		}
		p.Containers = []kubepod.Container{{Name: "a", Limits: whole()}}
	case 4:
		p.Containers = []kubepod.Container{{Name: "a", Limits: whole()}, {Name: "b", Limits: limits(0, 500)}}
	default:
		p.Containers = []kubepod.Container{{Name: "a", Limits: whole()}}
	}
	return p
}

func limits(whole, milli int) kubepod.Resources {
	return kubepod.Resources{
		"cpu":    *resource.NewMilliQuantity(int64(1000*whole+milli), resource.DecimalSI),
		"memory": *resource.NewQuantity(1<<30, resource.BinarySI),
	}
}

// needs returns the most CPUs that a pod can come to have for itself, with what its init containers may leave behind.
func needs(spec *kubepod.Pod) int {
	sum := 0
	for _, c := range spec.Ordered() {
		sum += oracle.Exclusive(spec, c)
	}
	return sum
}

// held returns how many CPUs the pods that are there may have for themselves.
func (w *world) held() int {
	sum := 0
	for _, p := range w.pods {
		for name := range p.containers {
			sum += oracle.Exclusive(&p.pod.Spec, w.rt.Asks(p.pod, name))
		}
	}
	return sum
}

// end ends a pod, and tries until that has worked.
func (w *world) end(at int) {
	w.t.Helper()
	p := w.pods[at]
	w.pods = slices.Delete(w.pods, at, at+1)
	w.note("end %s", p.pod.Spec.Name)
	w.insist("ending "+p.pod.Spec.Name, func() error { return w.node.end(p.pod, p.containers) })
}

// restart ends one container of a pod, by itself or not, and creates it again.
func (w *world) restart(p *running) {
	w.t.Helper()
	var names []string
	for name, c := range p.containers {
		if w.rt.State(c) == nriruntime.Running {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	name := names[w.rng.IntN(len(names))]
	old := p.containers[name]
	w.note("restart %s", old)
	if w.rng.IntN(2) == 0 {
		w.rt.Exit(old)
	} else {
		w.insist("stopping", func() error { return w.rt.Stop(old) })
	}
	w.insist("creating "+name+" again", func() error {
		again, err := w.rt.Create(p.pod, name)
		if err != nil {
			return err
		}
		again, err = w.start(p.pod, again)
		p.containers[name] = again
		return err
	})
	w.insist("removing", func() error { return w.rt.Remove(old) })
}

// resize asks for another number of CPUs for a container that has some for itself.
func (w *world) resize(p *running) {
	w.t.Helper()
	var resizable []*nriruntime.Container
	for name, c := range p.containers {
		if w.rt.State(c) == nriruntime.Running && oracle.Exclusive(&p.pod.Spec, w.rt.Asks(p.pod, name)) > 0 {
			resizable = append(resizable, c)
		}
	}
	if len(resizable) == 0 {
		return
	}
	slices.SortFunc(resizable, func(a, b *nriruntime.Container) int { return strings.Compare(a.Name, b.Name) })
	c := resizable[w.rng.IntN(len(resizable))]
	has := oracle.Exclusive(&p.pod.Spec, w.rt.Asks(p.pod, c.Name))
	size, free := 1+w.rng.IntN(6), assignable-w.held()
	if w.troubled() {
		return
	}
	err := w.rt.UpdateResources(c, nil, limits(size, 0))
	w.note("resize %s from %d to %d with %d free: %v", c, has, size, free, err)
	if forNow(err) {
		w.heldBack++
	} else if err != nil && !w.troubled() && size-has <= free {
		w.t.Errorf("a resize of %s from %d to %d with %d free was refused: %v", c, has, size, free, err)
	}
}

// insist does what the kubelet does with what fails: again, for as long as the plugin may be the reason.
func (w *world) insist(what string, f func() error) {
	w.t.Helper()
	var err error
	for range 100 {
		if err = f(); err == nil {
			return
		}
		w.note("%s: %v", what, err)
		if !w.troubled() && !forNow(err) {
			break
		}
	}
	w.t.Errorf("%s: %v", what, err)
}

func (w *world) note(format string, args ...any) {
	w.t.Helper()
	w.t.Logf(format, args...)
}

// TestRandom lets random things happen to pods, plugin and runtime, and looks at every change of the kernel's state.
func TestRandom(t *testing.T) {
	const steps = 200
	everyWay(t, func(t *testing.T, s setup) {
		w := newWorld(t, s)
		w.startPlugin()
		for i := range steps {
			switch i % 80 {
			case 79:
				w.note("the plugin is restarted")
				w.stopPlugin()
				w.startPlugin()
			case 39:
				w.note("the runtime is restarted")
				w.oracle.Away(true)
				succeed(t, w.rt.Restart())
				w.waitPlugin()
			default:
				w.step()
			}
			if t.Failed() {
				return
			}
		}
		w.settle()
		for len(w.pods) > 0 {
			w.end(0)
		}
		_, web := w.mustRun(sharedPod)
		w.wantCPUs(web["web"], "0-23")
	})
}
