// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
)

// TestErrorPagesHelp checks that the page of each code explains the code, says whether to retry,
// and lists the operations that return it.
func TestErrorPagesHelp(t *testing.T) {
	api := New(Options{Log: slog.New(slog.DiscardHandler)})
	page := func(code string) string {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/errors/"+code, nil))
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d", code, w.Code)
		}
		return w.Body.String()
	}
	for _, c := range fault.All() {
		shown := page(c.Name)
		if len(c.About) < 40 || !strings.HasSuffix(c.About, ".") {
			t.Errorf("%s says too little: %q", c.Name, c.About)
		}
		for _, part := range []string{"May I send the request again?</h2>\n<p>", "Who answers it</h2>\n<", "In an answer"} {
			if !strings.Contains(shown, part) {
				t.Errorf("%s has no %q", c.Name, part)
			}
		}
	}
	for code, want := range map[string][]string{
		"internal_error":       {"<p>Every operation.</p>", "Yes, with the same Idempotency-Key"},
		"provider_unavailable": {"<code>POST /v1/tenants/{tenant_id}/mailboxes</code>", "<code>Retry-After</code>"},
		"domain_unavailable":   {"<code>POST /v1/tenants/{tenant_id}/domains</code>"},
		"weak_password":        {"<ul>\n<li><code>POST /v1/tenants/{tenant_id}/mailboxes</code></li>\n</ul>", "new Idempotency-Key"},
		"consent_declined":     {"<p>No operation: "},
	} {
		for _, text := range want {
			if !strings.Contains(page(code), text) {
				t.Errorf("%s does not say %q:\n%s", code, text, page(code))
			}
		}
	}
}
