package faults

import (
	"fmt"
	"math/rand/v2"
)

// op is a kind of thing that happens.
type op string

// What the kubelet does, and what pods do.
const (
	advance op = "advance" // the next thing that a pod needs: its sandbox, a container, a start; when all is there, one container ends
	pair    op = "pair"    // the same for two pods at once
	end     op = "end"     // a pod ends
	exit    op = "exit"    // a container ends by itself
	stop    op = "stop"    // a container is stopped
	resize  op = "resize"  // a container is resized in place
)

// What goes wrong.
const (
	updateFails   op = "update-fails"    // the next update to another container fails
	updatePretend op = "update-pretends" // it is reported done and is not
	loseEvent     op = "lose-event"      // the next event of a kind never comes
	doubleEvent   op = "double-event"    // it comes twice
	lateEvent     op = "late-event"      // it comes later, when others have overtaken it
	slowReply     op = "slow-reply"      // the next reply of the plugin takes its time
	expire        op = "expire"          // it takes longer than the runtime waits
	failAt        op = "fail-at"         // the next creation or start fails half way
	slowAt        op = "slow-at"         // it takes its time half way
	foreign       op = "foreign-write"   // somebody else writes a container's cpuset
	disconnect    op = "disconnect"      // the connection is lost
	runtimeCycle  op = "runtime-restart"
	runtimeDown   op = "runtime-down"
	runtimeUp     op = "runtime-up"
	pluginStop    op = "plugin-stop"
	pluginKill    op = "plugin-kill"  // it dies while the next things happen
	pluginStale   op = "plugin-stale" // it dies, and its last writes to the state file with it
	pluginBroken  op = "plugin-broken"
	pluginStart   op = "plugin-start"
)

// What the operator and the machine do, and the end of a while.
const (
	configure op = "configure"
	hotplug   op = "hotplug"
	settle    op = "settle" // faults end, and everything has to come right
)

// weights say how often each op comes among the others.
var weights = []struct {
	op     op
	weight int
}{
	{advance, 440},
	{pair, 30},
	{end, 80},
	{exit, 60},
	{stop, 30},
	{resize, 100},
	{updateFails, 15},
	{updatePretend, 15},
	{loseEvent, 15},
	{doubleEvent, 20},
	{lateEvent, 20},
	{slowReply, 15},
	{expire, 2},
	{failAt, 20},
	{slowAt, 20},
	{foreign, 10},
	{disconnect, 5},
	{runtimeCycle, 5},
	{runtimeDown, 4},
	{runtimeUp, 10},
	{pluginStop, 4},
	{pluginKill, 5},
	{pluginStale, 2},
	{pluginBroken, 2},
	{pluginStart, 20},
	{configure, 10},
	{hotplug, 6},
}

// step is one thing that happens. What exactly follows from the state that it meets and from arg alone, so that a sequence from which steps
// are taken out is a sequence still.
type step struct {
	op   op
	slot int // of the pod that it happens to
	arg  uint64
}

func (s step) String() string { return fmt.Sprintf("%s %d", s.op, s.slot) }

// rng returns what decides the step's details.
func (s step) rng() *rand.Rand { return rand.New(rand.NewPCG(s.arg, 0)) }

const (
	slots       = 12 // pods at a time, at most
	settleEvery = 20
)

// sequence returns the first n steps that follow from a seed.
func sequence(seed uint64, n int) []step {
	rng := rand.New(rand.NewPCG(seed, 1))
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	steps := make([]step, 0, n)
	for i := range n {
		s := step{op: settle, slot: rng.IntN(slots), arg: rng.Uint64()}
		at := rng.IntN(total)
		for _, w := range weights {
			if at -= w.weight; at < 0 {
				s.op = w.op
				break
			}
		}
		if i%settleEvery == settleEvery-1 {
			s.op = settle
		}
		steps = append(steps, s)
	}
	return steps
}
