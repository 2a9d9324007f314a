package web_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nri-cpuset/plugin/web"
	"nri-cpuset/plugin/web/webtest"
	"nri-cpuset/topology/cpuset"
)

// get returns what the handler answers to a request for a path, for a report.
func get(t testing.TB, r *web.Report, target string) (header http.Header, text string) {
	t.Helper()
	handler := web.SafeHeaders(web.Handler(func() web.Report { return *r }))
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, target, nil))
	if recorder.Code != http.StatusOK {
		t.Fatalf("the page answers %d: %s", recorder.Code, recorder.Body)
	}
	return recorder.Header(), recorder.Body.String()
}

// page returns the page of a report.
func page(t testing.TB, r *web.Report) *element {
	t.Helper()
	_, text := get(t, r, "/")
	return parse(t, text)
}

// cpusOf returns the CPUs that the elements stand for. It fails where one of them is drawn twice.
func cpusOf(t *testing.T, elements []*element) cpuset.Set {
	t.Helper()
	var cpus cpuset.Set
	for _, e := range elements {
		id, err := strconv.Atoi(e.attrs["data-cpu"])
		if err != nil {
			continue // a sample in the legend
		}
		if cpus.Contains(id) {
			t.Errorf("CPU %d is drawn twice", id)
		}
		cpus.Add(id)
	}
	return cpus
}

func TestEveryCPUIsDrawnAsWhatItIs(t *testing.T) {
	for _, shape := range []webtest.Shape{webtest.Laptop, webtest.Server, webtest.Giant} {
		t.Run(fmt.Sprint(shape.CPUs()), func(t *testing.T) {
			r := shape.Report()
			r.Machine.Offline = cpuset.New(shape.CPUs(), shape.CPUs()+1)
			p := page(t, &r)
			for _, test := range []struct {
				class string
				want  cpuset.Set
			}{
				{"cpu", r.Online.Union(r.Machine.Offline)},
				{"own", r.Exclusive},
				{"shared", r.Shared},
				{"reserved", r.Reserved},
				{"isolated", r.Isolated},
				{"offline", r.Machine.Offline},
			} {
				if got := cpusOf(t, p.find("g", "class", test.class)); !got.Equal(test.want) {
					t.Errorf("drawn as %s: CPUs %s, want %s", test.class, got, test.want)
				}
			}
			if got := cpusOf(t, withPattern(p, "hatch")); !got.Equal(r.Reserved) {
				t.Errorf("hatched: CPUs %s, want the reserved %s", got, r.Reserved)
			}
			if got := cpusOf(t, withPattern(p, "dots")); !got.Equal(r.Isolated) {
				t.Errorf("dotted: CPUs %s, want the isolated %s", got, r.Isolated)
			}
		})
	}
}

func withPattern(p *element, pattern string) []*element {
	return slices.DeleteFunc(p.find("g", "class", "cpu"), func(g *element) bool { return len(g.find("rect", "class", pattern)) == 0 })
}

// Each exclusive container's CPUs bear its mark and lead to its row, which has the same CPUs.
func TestPictureAndTableAgree(t *testing.T) {
	r := webtest.Giant.Report()
	p := page(t, &r)
	want := map[string]cpuset.Set{}
	for i := range r.Containers {
		if c := &r.Containers[i]; c.Exclusive {
			want[c.Namespace+"/"+c.Pod+" "+c.Name] = c.CPUs
		}
	}
	got := map[string]cpuset.Set{}
	for _, tr := range p.find("tr", "", "") {
		anchor := tr.attrs["id"]
		if anchor == "" {
			continue
		}
		drawn := cpusOf(t, inside(p.find("a", "href", "#"+anchor), "g"))
		name, listed := tr.find("td", "data-label", "Container")[0].content(), tr.find("td", "data-label", "CPUs")[0].content()
		if drawn.String() != listed {
			t.Errorf("%s has CPUs %s in the table and %s in the picture", name, listed, drawn)
		}
		got[name] = drawn
		mark := tr.find("span", "class", "chip")[0].content()
		for _, text := range inside(p.find("a", "href", "#"+anchor), "text") {
			if text.attrs["class"] == "mark" && text.content() != mark {
				t.Errorf("%s has mark %s in the table and %s in the picture", name, mark, text.content())
			}
		}
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(cpuset.Set.Equal)); diff != "" {
		t.Errorf("containers and their CPUs (-want +got):\n%s", diff)
	}
}

func inside(elements []*element, name string) []*element {
	var found []*element
	for _, e := range elements {
		found = append(found, e.find(name, "", "")...)
	}
	return found
}

func TestTableOfContainers(t *testing.T) {
	now := webtest.Now
	r := webtest.Laptop.Report()
	r.Containers = []web.Container{
		{
			Namespace: "db", Pod: "pg-0", Name: "pg", Phase: "running", Exclusive: true, Policy: web.PolicyExclusive, CPUs: cpuset.MustParse("1,5"),
			Mems: cpuset.New(0), Why: "one core, packed", Since: now.Add(-90 * time.Minute),
		},
		{
			Namespace: "db", Pod: "pg-1", Name: "pg", Phase: "exited", Policy: web.PolicyShared, Unsettled: "no CPU was free", Why: "not placed",
			Since: now.Add(-5 * time.Second),
		},
		{Namespace: "kube-system", Pod: "dns", Name: "dns", Phase: "created", Policy: web.PolicyIgnored, Since: now},
	}
	p := page(t, &r)
	want := [][]string{
		{"db/pg-0 pg", "1,5", "0", "exclusive", "running", "1 h 30 min", "one core, packed"},
		{"db/pg-1 pg", "shared", "any", "shared", "exited", "5 s", "Unsettled: no CPU was free not placed"},
		{"kube-system/dns dns", "shared", "any", "ignored", "created", "0 s", ""},
	}
	if diff := cmp.Diff(want, table(p, "containers")); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// table returns the labelled cells of the table in a section.
func table(p *element, section string) [][]string {
	var rows [][]string
	for _, tr := range p.find("section", "id", section)[0].find("tr", "", "") {
		var row []string
		for _, td := range tr.find("td", "", "") {
			if td.attrs["data-label"] != "" {
				row = append(row, td.content())
			}
		}
		if row != nil {
			rows = append(rows, row)
		}
	}
	return rows
}

func TestTableIsBounded(t *testing.T) {
	r := webtest.Laptop.Report()
	r.Containers = make([]web.Container, 3000)
	p := page(t, &r)
	if got := len(table(p, "containers")); got != 1000 {
		t.Errorf("%d containers are shown, want 1000", got)
	}
	if got, want := p.find("section", "id", "containers")[0].content(), "2000 more are not shown here"; !strings.Contains(got, want) {
		t.Errorf("nothing says that %s", want)
	}
}

func TestRefusalsAreShown(t *testing.T) {
	r := webtest.Laptop.Report()
	r.Refusals = []web.Refusal{{Time: webtest.Now.Add(-4 * time.Minute), Namespace: "a", Pod: "b", Container: "c", Message: "SMTAlignmentError: 3 CPUs"}}
	want := [][]string{{"4 min ago", "a/b c", "SMTAlignmentError: 3 CPUs"}}
	if diff := cmp.Diff(want, table(page(t, &r), "refusals")); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	r.Refusals = nil
	if got, want := page(t, &r).find("section", "id", "refusals")[0].content(), "Refused lately Nobody, since the plugin began."; got != want {
		t.Errorf("without refusals: %q, want %q", got, want)
	}
}

func TestConfigurationIsShownAsItIs(t *testing.T) {
	r := webtest.Laptop.Report()
	got := page(t, &r).find("pre", "", "")[0].text.String()
	if diff := cmp.Diff(r.Config, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestProblems(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(r *web.Report)
		status string
		want   []string
	}{
		{"all is well", func(*web.Report) {}, "ready", nil},
		{
			"not connected", func(r *web.Report) { r.Runtime = nil; r.Ready = false },
			"not connected",
			[]string{"Not connected to a container runtime"},
		},
		{
			"connected, not synchronized", func(r *web.Report) { r.Ready = false },
			"not synchronized",
			[]string{"Not synchronized with the container runtime"},
		},
		{
			"configuration wrong", func(r *web.Report) { r.ConfigErr = "line 3: unknown field" },
			"ready, with errors",
			[]string{"The configuration file is not in force: line 3: unknown field"},
		},
		{
			"state file not writable", func(r *web.Report) { r.StateErr = "no space left on device" },
			"ready, with errors",
			[]string{"The state file cannot be written: no space left on device"},
		},
		{
			"the kubelet pins", func(r *web.Report) { r.Conflict = "cpuManagerPolicy: static" },
			"ready, with errors",
			[]string{"The kubelet pins containers itself: cpuManagerPolicy: static"},
		},
		{
			"one unsettled", func(r *web.Report) { r.Containers[0].Unsettled = "no room" },
			"ready",
			[]string{"1 container is not where the policy wants it"},
		},
		{
			"two at once", func(r *web.Report) { r.ConfigErr, r.StateErr = "a", "b" },
			"ready, with errors",
			[]string{"The configuration file is not in force: a", "The state file cannot be written: b"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := webtest.Server.Report()
			test.change(&r)
			p := page(t, &r)
			if got := p.find("span", "class", "status")[0].content(); got != test.status {
				t.Errorf("status %q, want %q", got, test.status)
			}
			notices := p.find("section", "class", "notice")
			if len(notices) != len(test.want) {
				t.Fatalf("%d notices, want %d", len(notices), len(test.want))
			}
			for i, want := range test.want {
				title, text, _ := strings.Cut(want, ": ")
				if got := notices[i].find("h2", "", "")[0].content(); got != title {
					t.Errorf("notice %q, want %q", got, title)
				}
				if got := notices[i].find("p", "", "")[0].content(); !strings.Contains(got, text) {
					t.Errorf("notice %q says %q, want %q in it", title, got, text)
				}
			}
		})
	}
}

func TestLegendCountsCPUs(t *testing.T) {
	r := webtest.Server.Report()
	strict := webtest.Server.Report()
	strict.Shared = strict.Shared.Difference(strict.Reserved)
	strict.Machine.Offline = cpuset.New(200)
	for _, test := range []struct {
		name   string
		report *web.Report
		want   []string
	}{
		{"reserved in the shared pool", &r, []string{
			"62 exclusive", "64 shared", "2 reserved for the system, shared too 0,64", "2 isolated by the kernel's isolcpus= 63,127",
		}},
		{"strictly reserved, one offline", &strict, []string{
			"62 exclusive", "62 shared", "2 reserved for the system alone 0,64", "2 isolated by the kernel's isolcpus= 63,127", "1 offline 200",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			items := page(t, test.report).find("ul", "class", "legend")[0].find("li", "", "")
			if len(items) != len(test.want) {
				t.Fatalf("%d kinds of CPUs, want %d", len(items), len(test.want))
			}
			for i, want := range test.want {
				if got := items[i].find("div", "", "")[0].content(); !strings.HasPrefix(got, want) {
					t.Errorf("legend %q, want %q at its beginning", got, want)
				}
			}
		})
	}
}

func TestPageWithoutAMachine(t *testing.T) {
	r := web.Report{Node: "new"}
	p := page(t, &r)
	if got := p.find("h1", "", "")[0].content(); got != "new not connected" {
		t.Errorf("heading %q, want %q", got, "new not connected")
	}
	if got := p.find("g", "class", "cpu"); len(got) > 0 {
		t.Errorf("%d CPUs are drawn, want none", len(got))
	}
}

// Names come from whoever may create a pod, and errors repeat what is in files.
func TestTextsFromOutsideAreTextOnly(t *testing.T) {
	const attack = `"><script>alert(1)</script><img src=x onerror=alert(1)>' onmouseover='x` + "\u202e\x1b[2J\xff\x00"
	clean := webtest.Server.Report()
	r := webtest.Server.Report()
	r.Node, r.Version, r.Config, r.ConfigErr, r.StateErr, r.Conflict = attack, attack, attack, attack, attack, attack
	r.Runtime = &web.Runtime{Name: attack, Version: attack, NRI: attack}
	for i := range r.Containers {
		c := &r.Containers[i]
		c.Namespace, c.Pod, c.Name, c.Phase, c.Why, c.Unsettled, c.Policy = attack, attack, attack, attack, attack, attack, attack
	}
	r.Refusals = []web.Refusal{{Namespace: attack, Pod: attack, Container: attack, Message: attack}, {}}
	clean.ConfigErr, clean.StateErr, clean.Conflict, clean.Containers[0].Unsettled = "x", "x", "x", "x"

	_, text := get(t, &r, "/")
	p := parse(t, text)
	got, want := census(p), census(page(t, &clean))
	delete(got, "strong")
	delete(want, "strong")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("elements and attributes, against those of a page without an attack (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"\u202e", "\x1b", "\xff", "\x00"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q in it", bad)
		}
	}
	const shown = `"><script>alert(1)</script><img src=x onerror=alert(1)>' onmouseover='x` + "\ufffd\ufffd[2J\ufffd\ufffd"
	if got := p.find("pre", "", "")[0].text.String(); got != shown {
		t.Errorf("configuration %q, want %q", got, shown)
	}
}

// census counts elements and their attributes.
func census(e *element) map[string]int {
	counts := map[string]int{}
	for _, c := range e.find("", "", "") {
		counts[c.name]++
		for name := range c.attrs {
			counts[c.name+" "+name]++
		}
	}
	return counts
}

func TestTextsFromOutsideAreBounded(t *testing.T) {
	long := strings.Repeat("ü", 1<<20)
	r := webtest.Laptop.Report()
	_, short := get(t, &r, "/")
	r.Node, r.Config, r.ConfigErr = long, long, long
	r.Containers[0].Pod, r.Containers[0].Why = long, long
	r.Refusals[0].Message, r.Refusals[0].Pod = long, long
	if _, text := get(t, &r, "/"); len(text) > len(short)+150_000 {
		t.Errorf("the page has %d bytes, want at most 150,000 more than %d", len(text), len(short))
	}
}

func FuzzNames(f *testing.F) {
	f.Add("db", "pg-0", "pg", "packed")
	f.Add("<b>", "\"'`{{.}}", "&amp;\x00", "</style><script>")
	r := webtest.Laptop.Report()
	want := census(page(f, &r))
	f.Fuzz(func(t *testing.T, namespace, pod, container, message string) {
		r := webtest.Laptop.Report()
		c := &r.Containers[0]
		c.Namespace, c.Pod, c.Name, c.Why = namespace, pod, container, message
		r.Refusals[0].Namespace, r.Refusals[0].Pod, r.Refusals[0].Container, r.Refusals[0].Message = namespace, pod, container, message
		if got := census(page(t, &r)); !maps.Equal(got, want) {
			t.Errorf("names make other elements (-want +got):\n%s", cmp.Diff(want, got))
		}
	})
}
