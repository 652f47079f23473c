// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// connects is somebody who connects a mailbox by the form.
func (s server) connects(address string) int {
	s.t.Helper()
	form := url.Values{"username": {address}, "decision": {"accept"}}
	req := httptest.NewRequest(http.MethodPost, connect, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer := httptest.NewRecorder()
	s.handler.ServeHTTP(answer, req)
	return answer.Code
}

// TestDashboard: somebody connects a mailbox by the form, and it outlives the
// process.
func TestDashboard(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if status := s.connects("bob@a.example"); status != 200 {
		t.Errorf("the form is not understood: %d", status)
	}
	s.ask("PUT", "/_control/accounts/bob@a.example", map[string]any{"is_smtp_success": false})
	s = open(t, dir)
	_, _, doc := s.api("GET", "/email-accounts", nil)
	if all := doc.([]any); len(all) != 1 || all[0].(map[string]any)["from_email"] != "bob@a.example" || all[0].(map[string]any)["is_smtp_success"] != false {
		t.Fatalf("after a restart: %v", doc)
	}
	s.ask("PUT", "/_control/quirks", map[string]any{"lag_seconds": 20})
	if s.connects("bob@a.example") != 200 || s.connects("carl@a.example") != 200 {
		t.Error("the form is not understood")
	}
	if _, _, doc := s.api("GET", "/email-accounts?isSmtpSuccess=true", nil); len(doc.([]any)) != 1 {
		t.Errorf("signed in anew, and one too fresh to be seen: %v", doc)
	}
	s.ask("POST", "/_control/clock", map[string]string{"advance": "20s"})
	if _, _, doc := s.api("GET", "/email-accounts", nil); len(doc.([]any)) != 2 {
		t.Errorf("later: %v", doc)
	}
	if status, _, _ := s.ask("DELETE", "/_control/accounts/bob@a.example", nil); status != 200 {
		t.Errorf("taken out: %d", status)
	}
	if status, _, _ := s.ask("DELETE", "/_control/accounts/bob@a.example", nil); status != 404 {
		t.Errorf("taken out again: %d", status)
	}
}

// TestPlannedFailures come in Smartlead's shapes.
func TestPlannedFailures(t *testing.T) {
	s := open(t, t.TempDir())
	plan := func(status, wait int) {
		s.ask("POST", "/_control/faults", map[string]any{"kind": "status", "status": status, "retry_after": wait, "times": 1})
	}
	for status, member := range map[int]string{400: "message", 403: "message", 409: "message", 422: "error", 429: "error", 500: "error", 503: "error"} {
		plan(status, 0)
		got, _, doc := s.api("GET", "/email-accounts", nil)
		if said, ok := doc.(map[string]any); !ok || got != status || said[member] == nil {
			t.Errorf("%d: %d %v", status, got, doc)
		}
	}
	plan(429, 7)
	if _, h, _ := s.api("GET", "/email-accounts", nil); h.Get("Retry-After") != "7" {
		t.Errorf("retry after %q", h.Get("Retry-After"))
	}
	s.ask("PUT", "/_control/quirks", map[string]any{"error_on_success": true})
	if status, _, doc := s.api("GET", "/email-accounts", nil); status != 200 || doc.(map[string]any)["success"] != false {
		t.Errorf("an error by 200: %d %v", status, doc)
	}
}
