// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

func TestSessionExpiresUnlessItEnded(t *testing.T) {
	expiresAt := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for stored, want := range map[tenant.SessionStatus]tenant.SessionStatus{
		tenant.SessionPending: tenant.SessionExpired, tenant.SessionConsented: tenant.SessionExpired,
		tenant.SessionConnected: tenant.SessionConnected, tenant.SessionDeclined: tenant.SessionDeclined,
	} {
		session := tenant.ConnectSession{Status: stored, ExpiresAt: expiresAt}
		if got := session.StatusAt(expiresAt.Add(-time.Nanosecond)); got != stored {
			t.Errorf("%s before the expiry: got %s, want the stored status", stored, got)
		}
		if got := session.StatusAt(expiresAt); got != want {
			t.Errorf("%s at the expiry: got %s, want %s", stored, got, want)
		}
	}
}

func TestReturnURLCarriesTheResult(t *testing.T) {
	expiresAt := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	session := tenant.ConnectSession{ID: "id-1", Status: tenant.SessionConnected, ExpiresAt: expiresAt, ReturnURL: "https://app.example/done?a=1&result=forged", State: "x&y=z"}
	want := "https://app.example/done?a=1&result=connected&session_id=id-1&state=x%26y%3Dz"
	if got := session.ReturnTo(expiresAt); got != want {
		t.Errorf("with a state: got %s, want %s", got, want)
	}
	session.Status, session.State, session.ReturnURL = tenant.SessionPending, "", "https://app.example"
	want = "https://app.example?result=expired&session_id=id-1"
	if got := session.ReturnTo(expiresAt); got != want {
		t.Errorf("without a state, at the expiry: got %s, want %s", got, want)
	}
	session.ReturnURL = ""
	if got := session.ReturnTo(expiresAt); got != "" {
		t.Errorf("without a ReturnURL: got %q, want no URL", got)
	}
}
