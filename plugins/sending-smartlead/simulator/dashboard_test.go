// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// connectMailbox submits the form of the dashboard and returns the status of the answer.
func (c testClient) connectMailbox(address string) int {
	c.t.Helper()
	form := url.Values{"username": {address}, "decision": {"accept"}}
	req := httptest.NewRequest(http.MethodPost, connectPath, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer := httptest.NewRecorder()
	c.handler.ServeHTTP(answer, req)
	return answer.Code
}

// TestDashboardConnectsMailboxes connects mailboxes on the page of the dashboard, and checks that
// accounts survive a restart.
func TestDashboardConnectsMailboxes(t *testing.T) {
	dir := t.TempDir()
	sim := openSimulator(t, dir)
	if status := sim.connectMailbox("bob@a.example"); status != 200 {
		t.Errorf("the form answers %d, want 200", status)
	}
	sim.call("PUT", "/_control/accounts/bob@a.example", map[string]any{"is_smtp_success": false})
	sim = openSimulator(t, dir)
	_, _, doc := sim.api("GET", "/email-accounts", nil)
	if list := doc.([]any); len(list) != 1 || list[0].(map[string]any)["from_email"] != "bob@a.example" || list[0].(map[string]any)["is_smtp_success"] != false {
		t.Fatalf("the list after a restart is %v, want bob@a.example without SMTP", doc)
	}
	sim.call("PUT", "/_control/quirks", map[string]any{"lag_seconds": 300})
	if sim.connectMailbox("bob@a.example") != 200 || sim.connectMailbox("carl@a.example") != 200 {
		t.Error("a form of the dashboard does not answer 200")
	}
	if _, _, doc := sim.api("GET", "/email-accounts?isSmtpSuccess=true", nil); len(doc.([]any)) != 1 {
		t.Errorf("before the lag the connected accounts are %v, want only bob@a.example", doc)
	}
	sim.call("POST", "/_control/clock", map[string]string{"advance": "300s"})
	if _, _, doc := sim.api("GET", "/email-accounts", nil); len(doc.([]any)) != 2 {
		t.Errorf("after the lag the accounts are %v, want two", doc)
	}
	if status, _, _ := sim.call("DELETE", "/_control/accounts/bob@a.example", nil); status != 200 {
		t.Errorf("the removal answers %d, want 200", status)
	}
	if status, _, _ := sim.call("DELETE", "/_control/accounts/bob@a.example", nil); status != 404 {
		t.Errorf("the second removal answers %d, want 404", status)
	}
}

func TestPlannedFaultsHaveSmartleadsErrorFormats(t *testing.T) {
	sim := openSimulator(t, t.TempDir())
	planFault := func(status, wait int) {
		sim.call("POST", "/_control/faults", map[string]any{"kind": "status", "status": status, "retry_after": wait, "times": 1})
	}
	for status, member := range map[int]string{400: "message", 403: "message", 409: "message", 422: "error", 429: "error", 500: "error", 503: "error"} {
		planFault(status, 0)
		got, _, doc := sim.api("GET", "/email-accounts", nil)
		if answer, ok := doc.(map[string]any); !ok || got != status || answer[member] == nil {
			t.Errorf("the planned status %d is answered with %d %v, want the member %s", status, got, doc, member)
		}
	}
	planFault(429, 7)
	if _, headers, _ := sim.api("GET", "/email-accounts", nil); headers.Get("Retry-After") != "7" {
		t.Errorf("Retry-After is %q, want 7", headers.Get("Retry-After"))
	}
	sim.call("PUT", "/_control/quirks", map[string]any{"error_on_success": true})
	if status, _, doc := sim.api("GET", "/email-accounts", nil); status != 200 || doc.(map[string]any)["success"] != false {
		t.Errorf("an error with 200: %d %v, want success false", status, doc)
	}
}
