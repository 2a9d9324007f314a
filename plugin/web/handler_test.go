package web_test

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"nri-cpuset/plugin/web"
	"nri-cpuset/plugin/web/webtest"
)

func TestHeaders(t *testing.T) {
	r := webtest.Laptop.Report()
	header, _ := get(t, &r, "/")
	for name, want := range map[string]string{
		"Content-Type":                 "text/html; charset=utf-8",
		"Cache-Control":                "no-store",
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	policy := header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("Content-Security-Policy is %q, want %q in it", policy, want)
		}
	}
}

// The page keeps within the policy that is sent with it: its one style is the one that the policy names, and it has no other, no script, and
// nothing that would be loaded.
func TestPageKeepsWithinItsPolicy(t *testing.T) {
	r := webtest.Giant.Report()
	header, text := get(t, &r, "/")
	styles := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(text, -1)
	if len(styles) != 1 {
		t.Fatalf("%d styles, want 1", len(styles))
	}
	sum := sha256.Sum256([]byte(styles[0][1]))
	want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	if got := header.Get("Content-Security-Policy"); !strings.Contains(got, want) {
		t.Errorf("Content-Security-Policy is %q, want %q in it", got, want)
	}
	if strings.Contains(styles[0][1], "@import") || regexp.MustCompile(`url\([^#]`).MatchString(styles[0][1]) {
		t.Error("the style loads something")
	}
	for _, e := range parse(t, text).find("", "", "") {
		switch e.name {
		case "script", "link", "img", "iframe", "object", "embed", "form", "base":
			t.Errorf("there is a <%s>", e.name)
		}
		for name, value := range e.attrs {
			switch {
			case name == "style", name == "src", strings.HasPrefix(name, "on"):
				t.Errorf("<%s> has the attribute %s", e.name, name)
			case name == "href" && strings.Contains(value, ":"):
				t.Errorf("<%s> leads elsewhere: %s", e.name, value)
			}
		}
	}
}

func TestRefresh(t *testing.T) {
	r := webtest.Laptop.Report()
	for _, test := range []struct {
		name, target, want string
	}{
		{"by itself", "/", "10"},
		{"stopped", "/?refresh=off", ""},
		{"anything else is ignored", "/?refresh=0.001;url=https://example.com", "10"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			_, text := get(t, &r, test.target)
			for _, meta := range parse(t, text).find("meta", "http-equiv", "refresh") {
				got += meta.attrs["content"]
			}
			if got != test.want {
				t.Errorf("the page refreshes itself after %q s, want %q", got, test.want)
			}
		})
	}
}

// SafeHeaders leaves a handler its own policy, and gives one to all that have none.
func TestSafeHeadersOfOthers(t *testing.T) {
	recorder := httptest.NewRecorder()
	handler := web.SafeHeaders(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<script>") }))
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if got, want := recorder.Header().Get("Content-Security-Policy"), "default-src 'none'; frame-ancestors 'none'"; got != want {
		t.Errorf("Content-Security-Policy is %q, want %q", got, want)
	}
}

func BenchmarkPage(b *testing.B) {
	for _, test := range []struct {
		name   string
		shape  webtest.Shape
		shared int
	}{
		{"cpus=8/containers=4", webtest.Laptop, 0},
		{"cpus=128/containers=100", webtest.Server, 100},
		{"cpus=512/containers=500", webtest.Giant, 500},
	} {
		b.Run(test.name, func(b *testing.B) {
			r := test.shape.Report()
			for len(r.Containers) < test.shared {
				r.Containers = append(r.Containers, r.Containers[len(r.Containers)-1])
			}
			handler := web.Handler(func() web.Report { return r })
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, request)
				size = recorder.Body.Len()
			}
			b.ReportMetric(float64(size), "bytes/page")
		})
	}
}
