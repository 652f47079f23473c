// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"embed"
	"html/template"
	"net/http"
)

//go:embed pages/sign.html
var pageFiles embed.FS

var signPage = template.Must(template.ParseFS(pageFiles, "pages/sign.html"))

// page is one plain HTML page: a form without script, or only a problem.
type page struct {
	Status      int
	Title       string
	Problem     string
	Application string
	Permissions []string
	Action      string // "" for a page without a form
	Hidden      []field
	AskUser     bool
	Username    string
	Buttons     []button
}

type field struct{ Name, Value string }

type button struct {
	Name, Value, Text string
	Quiet             bool
}

func (s *simulator) show(w http.ResponseWriter, p page) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	// No form-action: browsers apply it to the redirect after the post too.
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(p.Status)
	if err := signPage.Execute(w, p); err != nil {
		s.note("page: %v", err)
	}
}

// refusePage shows a refusal that cannot be given back to the application.
func (s *simulator) refusePage(w http.ResponseWriter, e *aadsts) {
	s.show(w, page{Status: e.status, Title: "Sorry, but we’re having trouble signing you in",
		Problem: e.description(newGUID(), newGUID(), s.kit.Now())})
}
