package integration

import (
	"testing"
)

// Restarts move nobody, whoever restarts, and what was created meanwhile is taken up.
func TestRestarts(t *testing.T) {
	for _, test := range []struct {
		name    string
		restart func(*node) // ends with plugin and runtime up; a pod may be run where neither is
	}{
		{"the plugin", func(n *node) {
			n.stopPlugin()
			n.mustRun(`{"name":"meanwhile","containers":[{"name":"meanwhile"}]}`)
			n.startPlugin()
		}},
		{"the plugin, which has forgotten everything", func(n *node) {
			n.stopPlugin()
			n.options.StateDir = n.t.TempDir()
			n.startPlugin()
		}},
		{"the plugin, killed", func(n *node) {
			n.stopPlugin()
			n.startProcess()
			n.stopPlugin()
			n.mustRun(`{"name":"meanwhile","containers":[{"name":"meanwhile","limits":{"cpu":"2","memory":"1Gi"}}]}`)
			n.startPlugin()
		}},
		{"the runtime", func(n *node) {
			n.oracle.Away(true)
			succeed(n.t, n.rt.Restart())
			n.waitPlugin()
		}},
		{"both, the plugin first", func(n *node) {
			n.stopPlugin()
			succeed(n.t, n.rt.Restart())
			n.startPlugin()
		}},
		{"both, the runtime first", func(n *node) {
			n.rt.Down()
			n.stopPlugin()
			succeed(n.t, n.rt.Up())
			n.startPlugin()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, s setup) {
				n := newNode(t, s)
				n.startPlugin()
				_, web := n.mustRun(sharedPod)
				dbPod, db := n.mustRun(exclusivePod)
				firstPod, first := n.mustRun(`{"name":"first","containers":[{"name":"first","limits":{"cpu":"2","memory":"1Gi"}}]}`)
				succeed(t, n.end(dbPod, db)) // so that a new packing would be another
				n.settle()
				before := n.view(first["first"]).CPUs
				test.restart(n)
				if after := n.view(first["first"]).CPUs; !after.Equal(before) {
					t.Errorf("the exclusive container was moved from %s to %s", before, after)
				}
				dbPod, db = n.mustRun(exclusivePod)
				n.settle()
				if db := n.view(db["db"]).CPUs; db.Len() != 4 || db.Overlaps(before) {
					t.Errorf("the next one got %s, want 4 CPUs beside %s", db, before)
				}
				succeed(t, n.end(dbPod, db), n.end(firstPod, first))
				n.settle()
				n.wantPool(web["web"])
			})
		})
	}
}
