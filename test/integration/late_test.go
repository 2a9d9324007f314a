package integration

import (
	"sync/atomic"
	"testing"

	"nri-cpuset/test/nriruntime"
)

// TestLateReplyIsARefusal: with the failure policy that we register with, a runtime whose NRI knows it (0.12.4 and later) creates no container
// whose reply came too late, keeps the plugin, and goes on with the next.
func TestLateReplyIsARefusal(t *testing.T) {
	for _, manner := range []nriruntime.Manner{nriruntime.Containerd, nriruntime.CRIO} {
		t.Run(string(manner), func(t *testing.T) {
			t.Parallel()
			var late atomic.Bool
			n := newNode(t, setup{direct: true, runtime: nriruntime.Options{Manner: manner, Hooks: nriruntime.Hooks{
				Call: func(c *nriruntime.Call) error {
					err := c.Deliver()
					if c.Method == "CreateContainer" && late.Load() {
						return c.Expire()
					}
					return err
				},
			}}})
			n.startPlugin()
			_, web := n.mustRun(sharedPod)

			late.Store(true)
			pod, db, err := n.run(podSpec(t, exclusivePod))
			if err == nil {
				t.Fatalf("a container whose reply came too late is created: %v", db)
			}
			late.Store(false)
			succeed(t, n.end(pod, db))
			n.settle()
			n.wantPool(web["web"])

			_, db = n.mustRun(exclusivePod)
			n.wantCPUs(db["db"], "1-2,13-14")
			n.wantCPUs(web["web"], "0,3-12,15-23")
		})
	}
}
