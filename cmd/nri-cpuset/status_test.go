package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"nri-cpuset/plugin/web"
	"nri-cpuset/plugin/web/webtest"
	"nri-cpuset/topology/cpuset"
)

// serveText serves a text at /api/v1/state and nothing else, and returns its address.
func serveText(t *testing.T, status int, text string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/state", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://192.0.2.1/")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func stateOf(t *testing.T, r *web.Report) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestStatus(t *testing.T) {
	r := webtest.Server.Report()
	good := stateOf(t, &r)
	for _, test := range []struct {
		name       string
		address    string
		args       []string
		wantStatus int
		wantOut    []string // in standard output, in this order
		wantErr    []string // in standard error
	}{
		{
			name: "text", address: serveText(t, http.StatusOK, good),
			wantOut: []string{
				"node worker-128 · nri-cpuset v1.0.0 (3f2c91e) · up 2 d 1 h\n", "CPUs: static, full-pcpus-only", "containerd v2.4.2, NRI v0.12.3\n",
				"128 CPUs", "package 1", "node 3", "B  db/postgres-0 postgres-1", "4-5,68-69",
				"   CONTAINER ", "B  db/postgres-0 postgres-1  ", "  4-5,68-69  ", "  exclusive  running  9 min 20 s\n     whole cores on NUMA node 0",
				"   kube-system/coredns-5d78c coredns ", " shared ", "REFUSED LATELY\n4 min ago: ml/trainer-wide-0 worker\n     TopologyAffinityError: ",
			},
		},
		{name: "json", address: serveText(t, http.StatusOK, good), args: []string{"--output", "json"}, wantOut: []string{good}},
		{name: "help", args: []string{"--help"}, wantOut: []string{"Usage: nri-cpuset status [flags]\n", "Examples:\n  nri-cpuset status\n", "--address ADDR"}},
		{
			name: "nobody there", address: "127.0.0.1:1", wantStatus: exitError,
			wantErr: []string{"nri-cpuset status: the plugin does not answer at 127.0.0.1:1; is it running, with that --listen?", "refused"},
		},
		{
			name: "somebody else", address: serveText(t, http.StatusNotFound, ""), wantStatus: exitError, wantErr: []string{"it answers 404 Not Found"},
		},
		{
			name: "sent elsewhere", address: serveText(t, http.StatusFound, ""), wantStatus: exitError, wantErr: []string{"it answers 302 Found"},
		},
		{
			name: "no state", address: serveText(t, http.StatusOK, "<html>"), wantStatus: exitError, wantErr: []string{"this is no state of nri-cpuset's"},
		},
		{
			name: "a machine that is none", address: serveText(t, http.StatusOK, `{"machine":{"cpus":"0"}}`), wantStatus: exitError,
			wantErr: []string{"reading a machine: CPU 0 is in no core"},
		},
		{
			name: "no address", address: "http://localhost", wantStatus: exitError,
			wantErr: []string{`--address is "http://localhost": give HOST:PORT`},
		},
		{name: "no format", args: []string{"--output", "yaml"}, wantStatus: exitError, wantErr: []string{`--output is "yaml": give text or json`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := test.args
			if test.address != "" {
				args = append(args, "--address", test.address)
			}
			if got := statusCommand(args, &stdout, &stderr); got != test.wantStatus {
				t.Errorf("exit status %d, want %d", got, test.wantStatus)
			}
			rest := stdout.String()
			for _, want := range test.wantOut {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("standard output has no %q after what was found before it:\n%s", want, stdout.String())
				}
				rest = after
			}
			for _, want := range test.wantErr {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("standard error is %q, want %q in it", stderr.String(), want)
				}
			}
			if lines := strings.Count(stderr.String(), "\n"); len(test.wantErr) > 0 && lines != 1 {
				t.Errorf("standard error has %d lines, want 1:\n%s", lines, stderr.String())
			}
		})
	}
}

func TestStatusOfAPluginInTrouble(t *testing.T) {
	r := webtest.Laptop.Report()
	r.Runtime, r.ConfigErr, r.StateErr, r.Conflict = nil, "line 3:\nno such option", "disk full", "cpuManagerPolicy: static"
	r.Containers[0].Unsettled = "CPU 5 is offline"
	var out bytes.Buffer
	if err := writeStatus(&out, &r, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n! Not connected to a container runtime\n", "\n! The configuration file is not in force\n  line 3:\n  no such option\n",
		"\n! The state file cannot be written\n  disk full\n", "\n! The kubelet pins containers itself\n  cpuManagerPolicy: static\n",
		"\n! 1 container is not where the policy wants it\n", "\n     UNSETTLED: CPU 5 is offline ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// A status is readable in 100 columns whatever is in it, and does nothing to the terminal.
func TestStatusFitsATerminal(t *testing.T) {
	long := webtest.Giant.Report()
	long.Node, long.ConfigErr = strings.Repeat("n", 300), strings.Repeat("e", 300)
	for i := range long.Containers {
		c := &long.Containers[i]
		c.Pod, c.Name, c.Why = strings.Repeat("p", 253), strings.Repeat("c", 63), strings.Repeat("because ", 40)+"\x1b[2J\u202e"
		c.Phase, c.Since = strings.Repeat("x", 50), webtest.Now.Add(-2000*24*time.Hour)
	}
	long.Refusals[0].Pod, long.Refusals[0].Message = strings.Repeat("r", 253), strings.Repeat("0,2,4,", 100)+"\x1b]0;title\a"
	spread := webtest.Giant.Report()
	for id := range 256 {
		spread.Containers[0].CPUs.Add(2 * id)
	}
	empty := web.Report{}
	laptop, server, giant := webtest.Laptop.Report(), webtest.Server.Report(), webtest.Giant.Report()
	for name, r := range map[string]*web.Report{
		"8 CPUs": &laptop, "128 CPUs": &server, "512 CPUs": &giant, "long names": &long, "many CPUs apart": &spread, "nothing": &empty,
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := writeStatus(&out, r, false); err != nil {
				t.Fatal(err)
			}
			for number, line := range strings.Split(out.String(), "\n") {
				if width := utf8.RuneCountInString(line); width > 100 {
					t.Errorf("line %d has %d columns: %s", number+1, width, line)
				}
				if strings.ContainsAny(line, "\x1b\a\u202e") {
					t.Errorf("line %d has control characters: %q", number+1, line)
				}
			}
		})
	}
}

func TestFold(t *testing.T) {
	for _, test := range []struct {
		name, text string
		width      int
		want       []string
	}{
		{"nothing", "", 5, []string{""}},
		{"it fits", "12345", 5, []string{"12345"}},
		{"after a space", "one two three", 8, []string{"one two", "three"}},
		{"a space at the border", "12345 678", 5, []string{"12345", "678"}},
		{"after a comma", "0-3,8,10-11", 7, []string{"0-3,8,", "10-11"}},
		{"after a slash", "kube-system/coredns", 14, []string{"kube-system/", "coredns"}},
		{"nowhere", "abcdefghij", 4, []string{"abcd", "efgh", "ij"}},
		{"not where only a little would be left", "a bcdefghijk", 6, []string{"a bcde", "fghijk"}},
		{"by characters, not bytes", "üüüüüü", 4, []string{"üüüü", "üü"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := fold(test.text, test.width); fmt.Sprint(got) != fmt.Sprint(test.want) || len(got) != len(test.want) {
				t.Errorf("fold(%q, %d) = %q, want %q", test.text, test.width, got, test.want)
			}
		})
	}
}

// The picture shows owners by the marks that the table has, and the page too.
func TestStatusMarksAreThoseOfThePage(t *testing.T) {
	r := webtest.Server.Report()
	marks := marksOf(&r)
	for _, o := range web.Owners(r.Containers) {
		if got := string(marks.Mark(o.CPUs.First()).Rune); got != o.Mark {
			t.Errorf("CPUs %s are marked %q in the picture and %q in the table", o.CPUs, got, o.Mark)
		}
	}
	if got := marks.Mark(r.Isolated.Difference(cpuset.Set{}).First()).Label; got != "isolated" {
		t.Errorf("an isolated CPU is marked as %q", got)
	}
}
