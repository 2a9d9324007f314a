package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/sirupsen/logrus"

	"nri-cpuset/config"
	"nri-cpuset/plugin/web"
	"nri-cpuset/state"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

var reportTime = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// servingPlugin is a plugin on 8 CPUs, CPU 0 of which is reserved, that is connected and has placed an exclusive container and three others.
func servingPlugin(t *testing.T) *Plugin {
	t.Helper()
	machine, err := topology.ReadDescription("../test/conformance/testdata/topologies/desktop-1s-4c-8t.json")
	if err != nil {
		t.Fatal(err)
	}
	file := "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\nignoredPods: [{namespaces: [kube-system]}]\n" +
		"cpuManagerPolicyOptions: {full-pcpus-only: \"true\", align-by-socket: \"false\"}\n"
	cfg, err := config.Parse([]byte(file), "n1")
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetLevel(logrus.PanicLevel)
	p, err := New(machine, cfg, nil, nil, Options{NodeName: "n1", Version: "v1", Log: log, Now: func() time.Time { return reportTime }})
	if err != nil {
		t.Fatal(err)
	}
	p.connected.Store(&runtimeInfo{Name: "containerd", Version: "v2.4.2", NRI: "v0.12.3"})
	p.synchronized.Store(true)
	for _, c := range []state.Container{
		{Namespace: "db", Pod: "pg-0", ID: "1", Key: state.Key{PodUID: "u0", Name: "pg"}, Demand: whole(2)},
		{Namespace: "db", Pod: "pg-0", ID: "2", Key: state.Key{PodUID: "u0", Name: "exporter"}, Demand: state.Demand{Guaranteed: true, MilliCPU: 100}},
		{Namespace: "kube-system", Pod: "dns", ID: "3", Key: state.Key{PodUID: "u1", Name: "dns"}, Demand: whole(2)},
	} {
		if _, err := p.node.Place(c, nil); err != nil {
			t.Fatal(err)
		}
	}
	p.refusals.add(&state.Container{Namespace: "db", Pod: "pg-9", Key: state.Key{Name: "pg"}}, errors.New("SMTAlignmentError: 3 CPUs"), p.options.Now())
	return p
}

func whole(cpus int64) state.Demand {
	return state.Demand{Guaranteed: true, MilliCPU: cpus * 1000, LimitMilliCPU: cpus * 1000}
}

func TestReport(t *testing.T) {
	p := servingPlugin(t)
	wrong, conflict := "line 3: no", "cpuManagerPolicy"
	p.configError.Store(&wrong)
	p.conflict.Store(&conflict)
	got := p.Report()
	want := web.Report{
		Node: "n1", Version: "v1", Time: reportTime, Started: reportTime, Runtime: &web.Runtime{Name: "containerd", Version: "v2.4.2", NRI: "v0.12.3"},
		Ready: false, Policy: "static", PolicyOptions: []string{"full-pcpus-only"}, MemoryManagerPolicy: "None", TopologyManagerPolicy: "none",
		TopologyManagerScope: "container", Config: p.config.String(), ConfigErr: wrong, Conflict: conflict,
		Machine: p.machine,
		Online:  cpuset.Range(0, 7), Reserved: cpuset.New(0), Shared: cpuset.MustParse("0,2-4,6-7"), Exclusive: cpuset.MustParse("1,5"),
		Containers: []web.Container{
			{Namespace: "db", Pod: "pg-0", PodUID: "u0", Name: "exporter", ID: "2", Phase: "creating", Policy: web.PolicyShared, Since: reportTime},
			{
				Namespace: "db", Pod: "pg-0", PodUID: "u0", Name: "pg", ID: "1", Phase: "creating", Exclusive: true, Policy: web.PolicyExclusive,
				CPUs: cpuset.MustParse("1,5"), Since: reportTime,
			},
			{Namespace: "kube-system", Pod: "dns", PodUID: "u1", Name: "dns", ID: "3", Phase: "creating", Policy: web.PolicyIgnored, Since: reportTime},
		},
		Refusals: []web.Refusal{{Namespace: "db", Pod: "pg-9", Container: "pg", Message: "SMTAlignmentError: 3 CPUs"}},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(cpuset.Set.Equal), cmp.Comparer(func(a, b *topology.Machine) bool { return a == b }),
		cmpopts.IgnoreFields(web.Container{}, "Why"), cmpopts.IgnoreFields(web.Refusal{}, "Time")); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	for i := range got.Containers {
		if c := &got.Containers[i]; c.Exclusive && c.Why == "" {
			t.Errorf("nothing says why %s has its CPUs", c.Name)
		}
	}
}

func TestServer(t *testing.T) {
	ready, unready := servingPlugin(t), servingPlugin(t)
	unready.synchronized.Store(false)
	for _, test := range []struct {
		name, method, path string
		plugin             *Plugin
		wantStatus         int
		wantType           string
		wantBody           string // in it
	}{
		{"the page", http.MethodGet, "/", ready, http.StatusOK, "text/html; charset=utf-8", "<b>pg</b>"},
		{"the state", http.MethodGet, "/api/v1/state", ready, http.StatusOK, "application/json", `"cpus": "1,5"`},
		{"metrics", http.MethodGet, "/metrics", ready, http.StatusOK, "text/plain", "nri_cpuset_cpus{state=\"exclusive\"} 2"},
		{"alive", http.MethodGet, "/healthz", ready, http.StatusOK, "text/plain; charset=utf-8", "ok"},
		{"ready", http.MethodGet, "/readyz", ready, http.StatusOK, "text/plain; charset=utf-8", "ok"},
		{"alive though not ready", http.MethodGet, "/healthz", unready, http.StatusOK, "", "ok"},
		{"not ready", http.MethodGet, "/readyz", unready, http.StatusServiceUnavailable, "", "not synchronized"},
		{"the page though not ready", http.MethodGet, "/", unready, http.StatusOK, "", "not synchronized"},
		{"a page that is not there", http.MethodGet, "/index.html", ready, http.StatusNotFound, "", "404"},
		{"head", http.MethodHead, "/api/v1/state", ready, http.StatusOK, "application/json", ""},
		{"post to the page", http.MethodPost, "/", ready, http.StatusMethodNotAllowed, "", ""},
		{"put to the state", http.MethodPut, "/api/v1/state", ready, http.StatusMethodNotAllowed, "", ""},
		{"delete of the state", http.MethodDelete, "/api/v1/state", ready, http.StatusMethodNotAllowed, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			test.plugin.handler().ServeHTTP(recorder, httptest.NewRequest(test.method, test.path, nil))
			if recorder.Code != test.wantStatus {
				t.Errorf("status %d, want %d", recorder.Code, test.wantStatus)
			}
			if got := recorder.Header().Get("Content-Type"); !strings.HasPrefix(got, test.wantType) {
				t.Errorf("Content-Type %q, want %q", got, test.wantType)
			}
			if got := recorder.Body.String(); !strings.Contains(got, test.wantBody) {
				t.Errorf("body %q, want %q in it", got, test.wantBody)
			}
			if got := recorder.Header().Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("X-Content-Type-Options %q, want nosniff", got)
			}
		})
	}
}

// A plugin whose lock somebody holds for good is not alive, and says what it knows all the same.
func TestServerWhileALockIsHeld(t *testing.T) {
	p := servingPlugin(t)
	p.lock <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // a probe's patience
	defer cancel()
	for path, want := range map[string]int{"/healthz": http.StatusServiceUnavailable, "/readyz": http.StatusOK, "/": http.StatusOK} {
		recorder := httptest.NewRecorder()
		p.handler().ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		if recorder.Code != want {
			t.Errorf("%s answers %d, want %d", path, recorder.Code, want)
		}
	}
}

// What /api/v1/state says is what a reader makes of it.
func TestStateIsReadBack(t *testing.T) {
	p := servingPlugin(t)
	recorder := httptest.NewRecorder()
	p.handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/api/v1/state", nil))
	var r web.Report
	if err := json.Unmarshal(recorder.Body.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if want := cpuset.MustParse("1,5"); !r.Exclusive.Equal(want) || r.Machine == nil || !r.Machine.Online.Equal(p.machine.Online) {
		t.Errorf("exclusive %s on %v, want %s on %s", r.Exclusive, r.Machine, want, p.machine.Online)
	}
}
