// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
)

// TestErrorPagesExplainWithoutJargon checks that each error page says what happened and what to do
// next. The pages must not contain terms of the API, and must contain the request id.
func TestErrorPagesExplainWithoutJargon(t *testing.T) {
	c := &pages{}
	for _, code := range fault.All() {
		m := messageOf(code)
		if m.Title == "" || m.About == "" || m.Next == "" {
			t.Errorf("%s: %+v", code.Name, m)
		}
		w := httptest.NewRecorder()
		c.render(w, httptest.NewRequest("GET", "/", nil), 400, "refused", errorPage{m, "req-1"})
		for _, jargon := range []string{"`", "/v1", "Idempotency", "API", "callback"} {
			if page := w.Body.String(); strings.Contains(page, jargon) || !strings.Contains(page, "req-1") {
				t.Errorf("%s: the page contains %q, or does not contain the request id:\n%s", code.Name, jargon, page)
			}
		}
	}
}
