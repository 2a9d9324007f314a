package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the template and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"

	"nri-cpuset/topology/cpuset"
)

//go:embed page.css
var style string

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(style) }, //nolint:gosec // our own file
	"list":  breakable,
	"stamp": stamp,
}).Parse(pageText))

// breakable lets a list of numbers be broken after commas, with nothing that would be copied along.
func breakable(s cpuset.Set) template.HTML {
	return template.HTML(strings.ReplaceAll(s.String(), ",", ",<wbr>")) //nolint:gosec // digits, commas and hyphens
}

// refreshSeconds is how often a page that is looked at loads itself anew.
const refreshSeconds = 10

// contentSecurityPolicy allows the page its own style, known by its hash, and nothing else: no script, no image, no frame, no form.
var contentSecurityPolicy = func() string {
	sum := sha256.Sum256([]byte(style))
	return fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		base64.StdEncoding.EncodeToString(sum[:]))
}()

// Handler answers with the status page of what report returns. It refreshes itself, unless the query says refresh=off.
func Handler(report func() Report) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		refresh := refreshSeconds
		if request.URL.Query().Get("refresh") == "off" {
			refresh = 0
		}
		r := report()
		var text bytes.Buffer
		if err := write(&text, &r, refresh); err != nil {
			http.Error(w, "the status page cannot be written; /api/v1/state has what it shows", http.StatusInternalServerError)
			return
		}
		header := w.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Length", strconv.Itoa(text.Len()))
		header.Set("Content-Security-Policy", contentSecurityPolicy)
		_, _ = text.WriteTo(w) // the reader has gone
	})
}

// SafeHeaders adds to all answers of a handler what keeps browsers from guessing at them, keeping them and framing them.
func SafeHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, request)
	})
}

// write writes the page of a report.
func write(w io.Writer, r *Report, refresh int) error {
	if err := pageTemplate.Execute(w, newPage(r, refresh)); err != nil {
		return fmt.Errorf("writing the status page: %w", err)
	}
	return nil
}
