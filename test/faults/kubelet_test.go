package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/state"
	"nri-cpuset/test/nriruntime"
	"nri-cpuset/test/oracle"
	"nri-cpuset/topology/cpuset"
)

// running is a pod as the kubelet sees it.
type running struct {
	pod     *nriruntime.Pod
	current map[string]*nriruntime.Container
	done    map[string]bool // init containers that have
	ended   []*nriruntime.Container

	resizing []pending
}

// perform lets one step happen.
func (n *world) perform(s step) {
	n.lookForPlugin()
	rng := s.rng()
	switch s.op {
	case advance:
		for range 1 + rng.IntN(3) {
			n.advance(s.slot, rng)
		}
	case pair:
		n.pair(s.slot, rng)
	case end:
		n.end(s.slot, rng)
	case exit, stop:
		n.endContainer(s, rng)
	case resize:
		n.resize(s.slot, rng)
	case foreign:
		n.foreignWrite(s.slot, rng)
	case disconnect:
		n.disconnect()
	case runtimeCycle, runtimeDown:
		n.judge.setAway(true)
		n.rt.Down()
		n.restarted = true
		if s.op == runtimeCycle {
			n.expect(n.rt.Up())
		}
	case runtimeUp:
		n.expect(n.rt.Up())
	case pluginStop:
		n.stopPlugin()
	case pluginKill:
		n.killPlugin(time.Duration(rng.IntN(8000)) * time.Microsecond)
	case pluginStale, pluginBroken:
		n.loseState(s.op, rng)
	case pluginStart:
		n.startPlugin()
	case configure:
		n.configure(configs[max(0, rng.IntN(len(configs)+4)-4)])
	case hotplug:
		n.setOnline(n.somebodysCPUs(rng))
	case settle:
		n.settle()
	default:
		n.faults.arm(s)
	}
}

// expect notes an error of something that cannot fail.
func (n *world) expect(err error) {
	if err != nil {
		n.judge.fail("%v", err)
	}
}

// tried notes what became of a call, and judges its failure: somebody has to have said why.
func (n *world) tried(err error, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if err == nil {
		n.note("%s", what)
		return nil
	}
	n.note("%s: %v", what, err)
	if !n.mayFail(err) {
		n.judge.fail("%s failed for no good reason: %v", what, err)
	}
	return err
}

func (n *world) mayFail(err error) bool {
	for _, reason := range []error{nriruntime.ErrDown, errInjected} {
		if errors.Is(err, reason) {
			return true
		}
	}
	reasons := []string{"nri-cpuset refuses", "start yet", "could put others on", "made to fail", "updates of ", "deadline exceeded", "could not decide in time"}
	if n.way.runtime.CgroupV1 { // the runtime's record has a CPU that has gone
		reasons = append(reasons, "permission denied")
	}
	for _, reason := range reasons {
		if strings.Contains(err.Error(), reason) {
			return true
		}
	}
	n.judge.mu.Lock()
	defer n.judge.mu.Unlock()
	return n.judge.away || n.judge.grace != ""
}

// advance does the next thing that a pod needs.
func (n *world) advance(slot int, rng *rand.Rand) {
	p := n.kubelet[slot]
	if p == nil {
		n.run(slot, rng)
		return
	}
	spec := &p.pod.Spec
	for i, c := range spec.Ordered() {
		if p.done[c.Name] {
			continue
		}
		cur := p.current[c.Name]
		switch {
		case cur == nil:
			n.create(p, c.Name)
			return
		case n.rt.State(cur) == nriruntime.Exited:
			p.ended = append(p.ended, cur)
			if rng.IntN(2) == 0 {
				n.removeEnded(p)
			}
			n.create(p, c.Name)
			return
		case n.rt.State(cur) == nriruntime.Created:
			if n.tried(n.rt.Start(cur), "start %s", cur) != nil {
				p.ended = append(p.ended, cur)
				delete(p.current, c.Name)
				n.removeEnded(p)
			}
			return
		case i < len(spec.InitContainers) && !c.Sidecar():
			n.note("exit %s", cur)
			n.rt.Exit(cur)
			p.done[c.Name] = true
			return
		}
	}
	n.removeEnded(p)
}

func (n *world) run(slot int, rng *rand.Rand) {
	n.serial++
	spec := randomPod(fmt.Sprintf("pod-%d", n.serial), rng)
	if room := n.reserved.Len() + n.held() + needs(&spec); room > n.rules.online.Len() && rng.IntN(6) > 0 {
		spec.InitContainers, spec.Containers = nil, []kubepod.Container{{Name: "a"}} // the scheduler knows that nothing else fits
	}
	pod, err := n.rt.RunPod(spec)
	if n.tried(err, "run %s, which needs %d CPUs", spec.Name, needs(&spec)) == nil {
		n.kubelet[slot] = &running{pod: pod, current: map[string]*nriruntime.Container{}, done: map[string]bool{}}
	}
}

func (n *world) create(p *running, name string) {
	delete(p.current, name)
	c, err := n.rt.Create(p.pod, name)
	if n.tried(err, "create %s/%s", p.pod.Spec.Name, name) == nil {
		p.current[name] = c
	}
}

func (n *world) removeEnded(p *running) {
	for _, c := range p.ended {
		if n.tried(n.rt.Remove(c), "remove %s", c) != nil {
			return // once more the next time
		}
		p.ended = p.ended[1:]
	}
}

// pair lets two pods advance at once.
func (n *world) pair(slot int, rng *rand.Rand) {
	other := (slot + 1 + rng.IntN(slots-1)) % slots
	if n.kubelet[slot] == nil || n.kubelet[other] == nil {
		n.advance(slot, rng)
		return
	}
	if !n.way.direct {
		// What the one's reply asks of the other may come between the other's task and its start, and is lost then.
		n.effect("two containers at once", false)
	}
	rngs := [2]*rand.Rand{rand.New(rand.NewPCG(rng.Uint64(), 0)), rand.New(rand.NewPCG(rng.Uint64(), 0))}
	var both sync.WaitGroup
	for i, at := range []int{slot, other} {
		both.Go(func() {
			n.advance(at, rngs[i])
			n.advance(at, rngs[i])
		})
	}
	both.Wait()
}

// end ends a pod: container by container, or all at once.
func (n *world) end(slot int, rng *rand.Rand) {
	p := n.kubelet[slot]
	if p == nil {
		return
	}
	if rng.IntN(2) == 0 {
		for _, c := range p.pod.Spec.Ordered() {
			if cur := p.current[c.Name]; cur != nil {
				_ = n.tried(n.rt.Stop(cur), "stop %s", cur)
			}
		}
	}
	if n.tried(n.rt.StopPod(p.pod), "stop pod %s", p.pod.Spec.Name) != nil {
		return
	}
	if n.tried(n.rt.RemovePod(p.pod), "remove pod %s", p.pod.Spec.Name) == nil {
		n.kubelet[slot] = nil
	}
}

// container picks one that runs.
func (n *world) container(slot int, rng *rand.Rand) (*running, *nriruntime.Container) {
	p := n.kubelet[slot]
	if p == nil {
		return nil, nil
	}
	var there []*nriruntime.Container
	for _, c := range p.pod.Spec.Ordered() {
		if cur := p.current[c.Name]; cur != nil && n.rt.State(cur) == nriruntime.Running {
			there = append(there, cur)
		}
	}
	if len(there) == 0 {
		return nil, nil
	}
	return p, there[rng.IntN(len(there))]
}

func (n *world) endContainer(s step, rng *rand.Rand) {
	_, c := n.container(s.slot, rng)
	switch {
	case c == nil:
	case s.op == exit:
		n.note("exit %s", c)
		n.rt.Exit(c)
	default:
		_ = n.tried(n.rt.Stop(c), "stop %s", c)
	}
}

// resize asks for other CPUs for a container of a Guaranteed pod, whole ones mostly.
func (n *world) resize(slot int, rng *rand.Rand) {
	p, c := n.container(slot, rng)
	if c == nil || p.pod.Spec.QoS() != kubepod.Guaranteed {
		return
	}
	if n.way.runtime.Manner == nriruntime.CRIO && n.away() {
		return // if CRI-O is restarted before the plugin is back, it shows the resources of the creation, and nobody knows of the resize
	}
	size := limits(1+rng.IntN(6), 0)
	if rng.IntN(5) == 0 {
		size = limits(rng.IntN(4), 500)
	}
	if n.resizeTo(c, size) != nil {
		p.resizing = append(p.resizing, pending{c, size})
	}
}

// pending is a resize that has not come about. The kubelet goes on trying.
type pending struct {
	container *nriruntime.Container
	size      kubepod.Resources
}

func (n *world) resizeTo(c *nriruntime.Container, size kubepod.Resources) error {
	cpu := size["cpu"]
	err := n.tried(n.rt.UpdateResources(c, nil, size), "resize %s to %s", c, cpu.String())
	if err != nil && strings.Contains(err.Error(), "nri-cpuset refuses") {
		return nil // that is an answer
	}
	return err
}

// resizeAgain tries again what has not come about.
func (n *world) resizeAgain() {
	for _, p := range n.kubelet {
		if p == nil {
			continue
		}
		for _, r := range p.resizing {
			n.eventually(func() bool {
				return n.rt.State(r.container) != nriruntime.Running || n.resizeTo(r.container, r.size) == nil
			})
		}
		p.resizing = nil
	}
}

// foreignWrite is somebody who writes a container's cpuset.
func (n *world) foreignWrite(slot int, rng *rand.Rand) {
	_, c := n.container(slot, rng)
	if c == nil || !n.way.direct {
		return
	}
	n.judge.excuse("somebody else has written a cpuset")
	var found string
	_ = filepath.WalkDir(n.options.CgroupRoot, func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "cpuset.cpus" && strings.Contains(path, c.ID()) {
			found = path
		}
		return nil // what is removed meanwhile is not looked for
	})
	if found == "" {
		return
	}
	n.note("somebody writes the cpuset of %s", c)
	file, err := os.OpenFile(found, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return // it has ended meanwhile
	}
	_, err = file.WriteString(n.rules.online.String())
	n.expect(errors.Join(err, file.Close()))
}

// loseState kills the plugin, and takes from the state file what it wrote last, or its readability.
func (n *world) loseState(how op, rng *rand.Rand) {
	name := n.stateFile()
	n.stopPlugin()
	if n.way.runtime.Manner == nriruntime.CRIO && !n.way.direct {
		return // after a restart of its own it shows the creations, and then nobody knows of a resize or a move
	}
	text, err := os.ReadFile(name)
	if err != nil || len(text) == 0 {
		return
	}
	if how == pluginStale {
		if n.stale != nil {
			text = n.stale // as it was when everything had settled
		}
	} else {
		text[rng.IntN(len(text))] ^= 1 << rng.IntN(8)
		text = text[:rng.IntN(len(text)+1)]
	}
	n.expect(os.WriteFile(name, text, 0o600))
}

// somebodysCPUs returns the CPUs that are to be online now: all, or all but a few that are not reserved.
func (n *world) somebodysCPUs(rng *rand.Rand) cpuset.Set {
	online := n.present
	for range rng.IntN(6) {
		online.Remove(4 + rng.IntN(8) + 12*rng.IntN(2))
	}
	return online
}

// leaks returns what the books hold for pods that are gone.
func (n *world) leaks(booked []state.Container) (wrong []string) {
	there := map[string]bool{}
	for _, p := range n.kubelet {
		if p != nil {
			there[p.pod.ID()] = true
		}
	}
	for i := range booked {
		if c := &booked[i]; !there[c.Sandbox] {
			wrong = append(wrong, fmt.Sprintf("the books still have %s/%s, whose pod is gone", c.Pod, c.Name))
		}
	}
	return wrong
}

// held returns how many CPUs the pods that are there may have for themselves.
func (n *world) held() int {
	sum := 0
	for _, p := range n.kubelet {
		if p == nil {
			continue
		}
		for _, c := range p.pod.Spec.Ordered() {
			sum += oracle.Exclusive(&p.pod.Spec, n.rt.Asks(p.pod, c.Name))
		}
	}
	return sum
}

// needs returns the most CPUs that a pod can come to have for itself.
func needs(spec *kubepod.Pod) int {
	sum := 0
	for _, c := range spec.Ordered() {
		sum += oracle.Exclusive(spec, c)
	}
	return sum
}

// randomPod makes up a pod: BestEffort, Burstable, Guaranteed with a fraction, or Guaranteed with whole CPUs.
func randomPod(name string, rng *rand.Rand) kubepod.Pod {
	p := kubepod.Pod{Name: name}
	whole := func() kubepod.Resources { return limits(1+rng.IntN(6), 0) }
	switch rng.IntN(7) {
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
