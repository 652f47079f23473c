// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	_ "embed"
	"html/template"
	"net/http"
)

// SignInPage is the page to which an authorization URL of a sending platform
// leads: a plain form with the field `username`, who signs in, and the button
// `decision`, accept or deny. Without an Action it only says how it went.
type SignInPage struct {
	Platform string // for people
	Status   int    // 200 when it is 0
	Problem  string // what went wrong, "" for nothing
	Action   string // where the form posts to
	Username string // who was asked for
}

//go:embed signin.html
var signInText string

var signInPage = template.Must(template.New("signin").Parse(signInText))

// Show writes the page.
func (p SignInPage) Show(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	if p.Status != 0 {
		w.WriteHeader(p.Status)
	}
	_ = signInPage.Execute(w, p) // a reader who has gone
}
