package integration

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestKill kills the plugin's process at random points of a sequence of 300 pods: between two calls, and in the middle of them. No container
// that has CPUs of its own may move, and whenever the plugin is back no overlap may be left.
func TestKill(t *testing.T) {
	const pods, kills = 300, 15
	everyWay(t, func(t *testing.T, s setup) {
		w := newWorld(t, s)
		var troubled atomic.Bool
		w.troubled = troubled.Load
		w.startProcess()
		next := pods / kills
		for killed := 0; w.serial < pods; {
			if w.serial < next {
				w.step()
				continue
			}
			// The plugin dies while the next steps are under way, and is gone for some more.
			next += pods / kills
			killed++
			w.note("kill %d", killed)
			w.oracle.Away(true)
			troubled.Store(true)
			dead := make(chan struct{})
			time.AfterFunc(time.Duration(w.rng.Int64N(int64(8*time.Millisecond))), func() {
				w.stop()
				close(dead)
			})
			for range 3 {
				w.step()
			}
			<-dead
			w.stopPlugin()
			for range w.rng.IntN(4) {
				w.step()
			}
			troubled.Store(false)
			w.startProcess()
			if t.Failed() {
				return
			}
		}
		w.settle()
	})
}
