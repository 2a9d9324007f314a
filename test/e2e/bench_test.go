package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/cpuset"

	"nri-cpuset/test/e2e/node"
)

// BenchmarkCreateContainer is how long a pod's exclusive container takes to create while others run that have to make way: without the
// plugin, when nobody makes way, and with it, in both ways. x-of-none is the median's ratio to that with no others, x-of-no-plugin to that
// without the plugin. The pause before each creation lets the plugin and containerd come to rest.
func BenchmarkCreateContainer(b *testing.B) {
	withoutPlugin := map[int]time.Duration{} // by the number of others
	for _, by := range []way{{name: "no-plugin"}, byCgroups, byRuntime} {
		b.Run("way="+by.name, func(b *testing.B) {
			f := start(b, node.Options{}, by.flags...)
			during := f.rest
			if by.name == "no-plugin" {
				f.killPlugin(b)
				during = f.all
			}
			var shared []*node.Container
			var none time.Duration
			for _, count := range []int{0, 20, 100, 250} {
				for i := len(shared); i < count; i++ {
					shared = append(shared, f.run(b, fmt.Sprintf("shared-%d", i), burstable))
				}
				b.Run(fmt.Sprintf("shared=%d", count), func(b *testing.B) {
					took := f.createAmong(b, shared, during)
					median := took[len(took)/2]
					if count == 0 {
						none = median
					}
					b.ReportMetric(float64(median.Microseconds())/1000, "p50-ms")
					b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
					if none > 0 {
						b.ReportMetric(float64(median)/float64(none), "x-of-none")
					}
					if by.name == "no-plugin" {
						withoutPlugin[count] = median
					}
					if without := withoutPlugin[count]; without > 0 {
						b.ReportMetric(float64(median)/float64(without), "x-of-no-plugin")
					}
				})
			}
		})
	}
}

// createAmong creates an exclusive container again and again, and returns how long that took, sorted. during is where the others are then.
func (f *fixture) createAmong(b *testing.B, shared []*node.Container, during string) (took []time.Duration) {
	b.Helper()
	rest := time.Second + time.Duration(len(shared))*20*time.Millisecond
	for b.Loop() {
		time.Sleep(rest)
		expectOn(b, "at rest", f.all, shared...)
		pod := f.pod(b, "exclusive", exclusive)
		c := create(b, pod)
		took = append(took, c.CreateTime)
		expectOn(b, "the exclusive container is created", during, shared...)
		do(b, pod.Remove)
	}
	b.ReportMetric(0, "ns/op") // it would be that of the pauses
	slices.Sort(took)
	return took
}

// BenchmarkExposure creates exclusive containers among shared ones that come and go, and looks all the while, as fast as it can, whether a
// shared one may run on the CPU of an exclusive one that has been started. No such moment is allowed.
func BenchmarkExposure(b *testing.B) {
	for _, by := range []way{byCgroups, byRuntime} {
		b.Run("way="+by.name, func(b *testing.B) {
			f := start(b, node.Options{}, by.flags...)
			last, err := cpuset.Parse(f.last)
			if err != nil {
				b.Fatal(err)
			}
			var mu sync.Mutex
			var pinned *node.Container
			var shared []*node.Container
			for i := range 20 {
				shared = append(shared, f.run(b, fmt.Sprintf("shared-%d", i), burstable))
			}
			looks, exposed, first := 0, 0, ""
			end := watch(0, func() {
				mu.Lock()
				p, others := pinned, slices.Clone(shared)
				mu.Unlock()
				if p == nil || !p.Running() {
					return
				}
				var found []string
				for _, c := range others {
					text, err := c.EffectiveCPUs()
					if on, parseErr := cpuset.Parse(text); err == nil && parseErr == nil && !on.Intersection(last).IsEmpty() {
						found = append(found, c.Name()+" on "+text)
					}
				}
				if p.Running() {
					looks += len(others)
					if exposed += len(found); first == "" && len(found) > 0 {
						first = found[0]
					}
				}
			})
			i := 0
			for b.Loop() {
				// One shared container goes and another comes, before, and while the exclusive one runs.
				mu.Lock()
				old := shared[0]
				shared = shared[1:]
				mu.Unlock()
				do(b, old.Pod().Remove)
				c := create(b, f.pod(b, fmt.Sprintf("exclusive-%d", i), exclusive))
				mu.Lock()
				pinned = c
				mu.Unlock()
				do(b, c.Start)
				next := f.run(b, fmt.Sprintf("churn-%d", i), burstable)
				mu.Lock()
				shared = append(shared, next)
				mu.Unlock()
				do(b, c.Pod().Remove)
				i++
			}
			end()
			if looks == 0 {
				b.Error("nobody was ever looked at")
			}
			if exposed > 0 {
				b.Errorf("%d of %d looks found a shared container on a started exclusive one's CPU; first: %s", exposed, looks, first)
			}
			b.ReportMetric(float64(looks), "looks")
			b.ReportMetric(float64(exposed), "exposed")
		})
	}
}
