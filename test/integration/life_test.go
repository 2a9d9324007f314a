package integration

import (
	"fmt"
	"strings"
	"testing"

	"nri-cpuset/test/nriruntime"
)

const (
	sharedPod    = `{"name":"web","containers":[{"name":"web","requests":{"cpu":"250m"}}]}`
	exclusivePod = `{"name":"db","containers":[{"name":"db","limits":{"cpu":"4","memory":"1Gi"}}]}`
)

// The packed placement on two packages of 6 cores with two threads each, of which CPUs 0 and 12 are reserved: whole cores first.
func TestLife(t *testing.T) {
	everyWay(t, func(t *testing.T, s setup) {
		n := newNode(t, s)
		n.startPlugin()
		_, web := n.mustRun(sharedPod)
		n.wantCPUs(web["web"], "0-23")

		dbPod, db := n.mustRun(exclusivePod)
		n.wantCPUs(db["db"], "1-2,13-14")
		n.wantCPUs(web["web"], "0,3-12,15-23")
		if got := n.view(db["db"]).Quota; got != -1 {
			t.Errorf("the exclusive container's quota is %d, want -1", got)
		}
		if got := n.rt.Shown(db["db"]).GetAnnotations()["nri-cpuset/assignment"]; !strings.Contains(got, "1-2,13-14") {
			t.Errorf("the exclusive container's annotation is %q, want its CPUs in it", got)
		}

		spec := podSpec(t, `{"name":"huge","containers":[{"name":"huge","limits":{"cpu":"22","memory":"1Gi"}}]}`)
		pod, huge, err := n.run(spec)
		if err == nil || !strings.Contains(err.Error(), "UnexpectedAdmissionError") || !strings.Contains(err.Error(), "22") {
			t.Errorf("22 CPUs of 18: %v, %v, want UnexpectedAdmissionError with the numbers", huge, err)
		}
		n.wantCPUs(web["web"], "0,3-12,15-23")
		succeed(t, n.end(pod, huge))

		succeed(t, n.end(dbPod, db))
		n.wantCPUs(web["web"], "0-23")
	})
}

// A restart of a container comes back to the same CPUs, also if the end of the one before is told after.
func TestRestartInPlace(t *testing.T) {
	everyWay(t, func(t *testing.T, s setup) {
		n := newNode(t, s)
		n.startPlugin()
		_, web := n.mustRun(sharedPod)
		pod, db := n.mustRun(exclusivePod)
		for range 3 {
			old := db["db"]
			n.rt.Exit(old)
			again, err := n.rt.Create(pod, "db")
			succeed(t, err, n.rt.Start(again))
			n.rt.Settle()
			succeed(t, n.rt.Remove(old))
			n.wantCPUs(again, "1-2,13-14")
			n.wantCPUs(web["web"], "0,3-12,15-23")
			db["db"] = again
		}
	})
}

// An init container's CPUs are the first that the container after it gets; a sidecar keeps its own.
func TestInitContainers(t *testing.T) {
	everyWay(t, func(t *testing.T, s setup) {
		n := newNode(t, s)
		n.startPlugin()
		pod, containers := n.mustRun(`{"name":"ingest",
			"initContainers":[
				{"name":"load","limits":{"cpu":"2","memory":"1Gi"}},
				{"name":"ship","restartPolicy":"Always","limits":{"cpu":"1","memory":"1Gi"}}],
			"containers":[{"name":"ingest","limits":{"cpu":"4","memory":"1Gi"}}]}`)
		_, web := n.mustRun(sharedPod)
		if got := n.rt.State(containers["load"]); got != nriruntime.Exited {
			t.Errorf("the init container is %s, want exited", got)
		}
		taken := n.view(containers["ship"]).CPUs.Union(n.view(containers["ingest"]).CPUs)
		if taken.Len() != 5 {
			t.Errorf("sidecar and app have %s, want 5 CPUs", taken)
		}
		n.wantPool(web["web"]) // nothing is left behind of what the init container had
		succeed(t, n.end(pod, containers))
		n.wantCPUs(web["web"], "0-23")
	})
}

func TestResize(t *testing.T) {
	everyWay(t, func(t *testing.T, s setup) {
		n := newNode(t, s)
		n.startPlugin()
		_, web := n.mustRun(sharedPod)
		_, db := n.mustRun(exclusivePod)
		for _, size := range []string{"6", "2", "4"} {
			limits := podSpec(t, fmt.Sprintf(`{"name":"db","containers":[{"name":"db","limits":{"cpu":%q,"memory":"1Gi"}}]}`, size)).Containers[0].Limits
			succeed(t, n.rt.UpdateResources(db["db"], nil, limits))
			n.settle()
			has := n.view(db["db"]).CPUs
			if got := fmt.Sprint(has.Len()); got != size {
				t.Errorf("resized to %s CPUs it has %s", size, has)
			}
			n.wantPool(web["web"])
		}
		before := n.view(db["db"]).CPUs
		limits := podSpec(t, `{"name":"db","containers":[{"name":"db","limits":{"cpu":"40","memory":"1Gi"}}]}`).Containers[0].Limits
		if err := n.rt.UpdateResources(db["db"], nil, limits); err == nil {
			t.Error("a resize to 40 CPUs of 24 succeeded")
		}
		if after := n.view(db["db"]).CPUs; !after.Equal(before) {
			t.Errorf("after a refused resize it has %s, want %s", after, before)
		}
	})
}

// A runtime that cannot bear to be called outside of its own requests is not: the pool grows with the reply to the next one.
func TestOldRuntime(t *testing.T) {
	for _, manner := range []nriruntime.Manner{nriruntime.Containerd, nriruntime.CRIO} {
		t.Run(string(manner), func(t *testing.T) {
			n := newNode(t, setup{runtime: nriruntime.Options{Manner: manner, NRIVersion: "v0.11.0"}})
			n.startPlugin()
			_, web := n.mustRun(sharedPod)
			dbPod, db := n.mustRun(exclusivePod)
			n.wantCPUs(web["web"], "0,3-12,15-23")
			succeed(t, n.end(dbPod, db))
			batch, containers := n.mustRun(`{"name":"batch","containers":[{"name":"batch"}]}`)
			succeed(t, n.end(batch, containers))
			n.wantCPUs(web["web"], "0-23")
		})
	}
}
