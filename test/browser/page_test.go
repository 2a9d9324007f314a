// Package browser_test looks at the status page in a real browser: Chromium, driven over its DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol/) through a pair of pipes.
package browser_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nri-cpuset/plugin/web"
	"nri-cpuset/plugin/web/webtest"
	"nri-cpuset/topology/cpuset"
)

var screenshots = flag.String("screenshots", "", "write screenshots to this `folder`")

var chromium *Chromium

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if chromium, err = Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer chromium.Close()
	return m.Run()
}

// serve serves the page of a report, as the plugin does, and counts how often it is asked for.
func serve(t *testing.T, r *web.Report) (address string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", web.Handler(func() web.Report {
		asked.Add(1)
		return *r
	}))
	server := httptest.NewServer(web.SafeHeaders(mux))
	t.Cleanup(server.Close)
	return server.URL + "/", asked
}

// open shows a page in a tab.
func open(t *testing.T, v View, address string) *Tab {
	t.Helper()
	tab, err := chromium.Open(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Go(address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, complaint := range tab.Complaints() {
			t.Errorf("the browser complains: %s", complaint)
		}
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	})
	return tab
}

// troubled is a report in which everything is wrong that can be, with names as long as Kubernetes allows.
func troubled() web.Report {
	r := webtest.Server.Report()
	r.Node = strings.Repeat("node-", 50)
	r.ConfigErr = "/etc/nri-cpuset/config.yaml:14: cpuManagerPolicyOptions: full-pcpus-only and distribute-cpus-across-cores do not go together\nline 2"
	r.StateErr, r.Conflict = "/run/nri-cpuset/state.json: no space left on device", strings.Repeat("unbreakable", 20)
	r.Machine.Offline = cpuset.Range(128, 140)
	r.Shared = r.Shared.Difference(r.Reserved)                    // strict-cpu-reservation
	r.Isolated = r.Isolated.Union(r.Containers[0].CPUs.Lowest(1)) // isolatedCPUs: exclusive
	r.Containers[0].Unsettled = "CPU 1 is offline, and no other was free"
	r.Containers[1].Pod, r.Containers[1].Name = strings.Repeat("p", 253), strings.Repeat("c", 63)
	r.Containers[1].Why = strings.Repeat("because", 40)
	r.Containers[len(r.Containers)-1].Pod = strings.Repeat("s", 253)
	r.Refusals[0].Pod, r.Refusals[0].Message = strings.Repeat("r", 253), strings.Repeat("0,2,4,6,", 100)
	r.Config += "ignoredPods:\n- namespaces: [" + strings.Repeat("a-very-long-namespace, ", 20) + "]\n"
	return r
}

// views are the windows and schemes in which every page has to do.
func views(t *testing.T, look func(t *testing.T, v View)) {
	for _, v := range []View{
		{Width: 390, Height: 844, Phone: true},
		{Width: 390, Height: 844, Phone: true, Dark: true},
		{Width: 768, Height: 1024},
		{Width: 1280, Height: 800},
		{Width: 1280, Height: 800, Dark: true},
		{Width: 1920, Height: 1080},
	} {
		scheme := map[bool]string{false: "light", true: "dark"}[v.Dark]
		t.Run(fmt.Sprintf("%d pixels, %s", v.Width, scheme), func(t *testing.T) { look(t, v) })
	}
}

func reports() map[string]web.Report {
	reports := map[string]web.Report{"everything wrong": troubled()}
	for _, shape := range []webtest.Shape{webtest.Laptop, webtest.Server, webtest.Giant} {
		reports[fmt.Sprintf("%d CPUs", shape.CPUs())] = shape.Report()
	}
	return reports
}

func TestLayout(t *testing.T) {
	script, err := os.ReadFile("measure.js")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range reports() {
		t.Run(name, func(t *testing.T) {
			address, _ := serve(t, &r)
			views(t, func(t *testing.T, v View) {
				tab := open(t, v, address)
				var m measurements
				if err := tab.Evaluate(string(script), &m); err != nil {
					t.Fatal(err)
				}
				m.judge(t, &r, v)
			})
		})
	}
}

// A click on a CPU leads to its owner's row, which then stands out; no script has a part in it.
func TestClickOnACPULeadsToItsOwner(t *testing.T) {
	r := webtest.Server.Report()
	owner := web.Owners(r.Containers)[2]
	address, _ := serve(t, &r)
	tab := open(t, View{Width: 1280, Height: 800}, address)
	if err := tab.Click(fmt.Sprintf(`g[data-cpu="%d"] rect`, owner.CPUs.First())); err != nil {
		t.Fatal(err)
	}
	var row string
	eventually(t, func() bool {
		err := tab.Evaluate(`document.querySelector("tr:target")?.querySelector(".who").innerText ?? ""`, &row)
		return err == nil && row != ""
	})
	if want := owner.Namespace + "/" + owner.Pod + " " + owner.Name; row != want {
		t.Errorf("the row that stands out is that of %q, want %q", row, want)
	}
}

// The page loads itself anew, until the reader wants it to stop.
func TestPageRefreshesItself(t *testing.T) {
	r := webtest.Laptop.Report()
	address, asked := serve(t, &r)
	tab := open(t, View{Width: 1280, Height: 800}, address)
	if err := tab.WaitForLoad(); err != nil {
		t.Fatal(err)
	}
	if got := asked.Load(); got != 2 {
		t.Errorf("the page was asked for %d times, want 2", got)
	}
	if err := tab.Click(".refresh a"); err != nil {
		t.Fatal(err)
	}
	if err := tab.WaitForLoad(); err != nil {
		t.Fatal(err)
	}
	var query string
	var refreshes int
	if err := tab.Evaluate(`location.search`, &query); err != nil || query != "?refresh=off" {
		t.Errorf("after a click on stop, the query is %q (%v), want ?refresh=off", query, err)
	}
	if err := tab.Evaluate(`document.querySelectorAll("meta[http-equiv=refresh]").length`, &refreshes); err != nil || refreshes != 0 {
		t.Errorf("after a click on stop, there are %d refreshes (%v), want none", refreshes, err)
	}
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(pageTime); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come in time")
		}
	}
}

// TestScreenshots takes the pictures of the documentation, where it is asked to.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("no folder is given with -screenshots")
	}
	wrong := webtest.Server.Report()
	wrong.ConfigErr = "/etc/nri-cpuset/config.yaml:14: cpuManagerPolicyOptions: full-pcpus-only and distribute-cpus-across-cores do not go together"
	wrong.Containers[2].Unsettled = "CPU 77 has gone offline, and no other was free on NUMA node 0"
	wrong.Containers[2].CPUs.Remove(77)
	wrong.Exclusive.Remove(77)
	wrong.Machine = webtest.Server.Machine(77)
	wrong.Online = wrong.Machine.Online
	for _, shot := range []struct {
		name   string
		report web.Report
		view   View
	}{
		{"status-8", webtest.Laptop.Report(), View{Width: 1000, Height: 760}},
		{"status-128", webtest.Server.Report(), View{Width: 1280, Height: 1040}},
		{"status-512-dark", webtest.Giant.Report(), View{Width: 1440, Height: 1180, Dark: true}},
		{"status-phone-dark", webtest.Server.Report(), View{Width: 390, Height: 1100, Phone: true, Dark: true}},
		{"status-problems", wrong, View{Width: 1280, Height: 1080}},
	} {
		t.Run(shot.name, func(t *testing.T) {
			address, _ := serve(t, &shot.report)
			tab := open(t, shot.view, address)
			png, err := tab.Screenshot(shot.view.Width, shot.view.Height)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(*screenshots, shot.name+".png"), png, 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}
