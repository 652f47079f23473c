// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"

	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

//go:embed pages.html
var pagesSource string

//go:embed style.css
var style string

var templates = template.Must(template.New("pages").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(style) },
}).Parse(pagesSource))

// policy is the Content-Security-Policy of all pages. It allows only the embedded style sheet,
// data: images, and forms that are sent to this service.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; img-src data:; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

func setSecurityHeaders(w http.ResponseWriter) {
	headers := w.Header()
	headers.Set("Content-Security-Policy", policy)
	headers.Set("Referrer-Policy", "no-referrer")
	headers.Set("Cache-Control", "no-store")
	headers.Set("X-Content-Type-Options", "nosniff")
	headers.Set("X-Frame-Options", "DENY")
}

// statusOf maps the kind of an error to the HTTP status of its page. Other kinds get 500, and the
// error is logged.
var statusOf = map[fault.Kind]int{
	fault.Invalid: http.StatusBadRequest, fault.PaymentRequired: http.StatusPaymentRequired, fault.Forbidden: http.StatusForbidden,
	fault.NotFound: http.StatusNotFound, fault.MethodNotAllowed: http.StatusMethodNotAllowed, fault.Conflict: http.StatusConflict,
	fault.BadGateway: http.StatusBadGateway, fault.Unavailable: http.StatusServiceUnavailable, fault.Timeout: http.StatusGatewayTimeout,
}

type errorPage struct {
	message
	RequestID string
	Origin    tenants.Origin
}

func (c *pages) renderError(w http.ResponseWriter, r *http.Request, err error, origin tenants.Origin) {
	f := fault.ErrorOf(err)
	status, known := statusOf[f.Code.Kind]
	if !known {
		status = http.StatusInternalServerError
		c.Log.ErrorContext(r.Context(), "page failed", "error", err)
	}
	c.render(w, r, status, "refused", errorPage{messageOf(f.Code, c.platformFacts(r)), ports.RequestID(r.Context()), origin})
}

func (c *pages) render(w http.ResponseWriter, r *http.Request, status int, page string, data any) {
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, page, data); err != nil {
		c.Log.ErrorContext(r.Context(), "page does not render", "page", page, "error", err)
		http.Error(w, brokenPage, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = body.WriteTo(w)
	}
}
