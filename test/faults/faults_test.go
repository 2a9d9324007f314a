// Package faults lets everything go wrong around the plugin that we can think of, at random, on the real NRI adaptation and a runtime whose
// containers exist in memory only (package nriruntime), and looks at every change of the kernel's state (judge_test.go).
//
// A world (world_test.go) is one node. A sequence of steps (step_test.go) follows from a seed; each of them is something that the kubelet, a pod,
// the operator or the machine does (kubelet_test.go), or a fault that waits for its moment (injector_test.go). Every 20 steps the faults end, and
// everything has to come right. When an invariant breaks the sequence is made shorter for as long as it still breaks one (shrink_test.go).
package faults

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	total    = flag.Int("steps", 2000, "how many steps to make in all")
	length   = flag.Int("length", 100, "how many steps a seed has")
	parallel = flag.Int("worlds", 64, "how many worlds there are at a time: most of their time they wait")
	first    = flag.Uint64("seed", 0, "make the steps of this seed only, with -manner and -only; otherwise the first of many")
	manner   = flag.String("manner", "", "of this way only: containerd/v2, cri-o/runtime, ..., or the beginning of several")
	only     = flag.String("only", "", "numbers of the seed's steps, separated by commas: no others are made")
	shrinkIn = flag.Duration("shrink", 2*time.Minute, "how long to look for a shorter sequence that fails too; 0: not at all")
)

func TestFaults(t *testing.T) {
	chosen := slices.DeleteFunc(slices.Clone(ways), func(w way) bool { return !strings.HasPrefix(w.name, *manner) })
	if len(chosen) == 0 {
		t.Fatalf("-manner %s: there is none", *manner)
	}
	start := time.Now()
	var jobs []attempt
	for i := range max(1, *total / *length) {
		seed := uint64(i + 1)
		if *first != 0 {
			seed = *first
		}
		for _, w := range chosen {
			if *first == 0 && w.name != chosen[i%len(chosen)].name {
				continue
			}
			jobs = append(jobs, attempt{way: w, seed: seed, keep: kept(t)})
		}
		if *first != 0 {
			break
		}
	}
	var made atomic.Int64
	var mu sync.Mutex
	var failures []*failure
	inParallel(*parallel, jobs, func(a attempt) bool {
		f := a.run(&made)
		if f == nil {
			return true
		}
		mu.Lock()
		defer mu.Unlock()
		failures = append(failures, f)
		return len(failures) < 3 // enough to think about
	})
	took := time.Since(start)
	t.Logf("%d steps in %d worlds, %d at a time, in %s: %.0f steps/s", made.Load(), len(jobs), *parallel, took.Round(time.Millisecond),
		float64(made.Load())/took.Seconds())
	for i, f := range failures {
		if i == 0 && *shrinkIn > 0 && *only == "" {
			f = shrink(f, *shrinkIn)
		}
		t.Error(f)
	}
}

// kept returns the numbers in -only; nil for all.
func kept(t *testing.T) []int {
	if *only == "" {
		keep := make([]int, *length)
		for i := range keep {
			keep[i] = i
		}
		return keep
	}
	var keep []int
	for text := range strings.SplitSeq(*only, ",") {
		i, err := strconv.Atoi(text)
		if err != nil || i < 0 || i >= *length {
			t.Fatalf("-only: %q is no step's number below -length %d", text, *length)
		}
		keep = append(keep, i)
	}
	return keep
}

// inParallel does jobs, n at a time, until one says that it is enough.
func inParallel[T any](n int, jobs []T, do func(T) bool) {
	queue := make(chan T)
	enough := make(chan struct{})
	var once sync.Once
	var workers sync.WaitGroup
	for range min(n, len(jobs)) {
		workers.Go(func() {
			for job := range queue {
				if !do(job) {
					once.Do(func() { close(enough) })
				}
			}
		})
	}
	defer workers.Wait()
	defer close(queue)
	for _, job := range jobs {
		select {
		case queue <- job:
		case <-enough:
			return
		}
	}
}

// attempt is some of a seed's steps, in one world.
type attempt struct {
	way  way
	seed uint64
	keep []int // the numbers of the steps
}

// failure is an attempt in which an invariant broke.
type failure struct {
	attempt
	what    []string
	history []string
}

func (f *failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s, %d steps:\n  %s\n", f.seed, f.way.name, len(f.keep), strings.Join(f.what, "\n  "))
	steps := sequence(f.seed, *length)
	numbers := make([]string, len(f.keep))
	for i, k := range f.keep {
		numbers[i] = strconv.Itoa(k)
		if len(f.keep) <= 60 {
			fmt.Fprintf(&b, "  %3d %s\n", k, steps[k])
		}
	}
	fmt.Fprintf(&b, "what happened last:\n  %s\n", strings.Join(f.history, "\n  "))
	fmt.Fprintf(&b, "once more: cd test && go test ./faults -run TestFaults -seed %d -length %d -manner %s -only %s\n", f.seed, *length, f.way.name,
		strings.Join(numbers, ","))
	return b.String()
}

// run makes the steps, and returns nil if all is well.
func (a attempt) run(made *atomic.Int64) *failure {
	w, err := newWorld(a.way, a.seed)
	if err != nil {
		return &failure{attempt: a, what: []string{err.Error()}}
	}
	steps := sequence(a.seed, *length)
	w.perform(step{op: settle})
	for i, k := range a.keep {
		w.note("step %d: %s", k, steps[k])
		w.perform(steps[k])
		made.Add(1)
		if len(w.judge.found()) > 0 {
			a.keep = a.keep[:i+1]
			break
		}
	}
	if len(w.judge.found()) == 0 {
		w.perform(step{op: settle})
	}
	found := w.judge.found()
	history := w.history.last(120)
	if err := w.close(); err != nil {
		found = append(found, err.Error())
	}
	if len(found) == 0 {
		return nil
	}
	return &failure{attempt: a, what: found, history: history}
}
