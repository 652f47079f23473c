// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

func TestSessionExpiresUnlessItEnded(t *testing.T) {
	at := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for stored, want := range map[tenant.SessionStatus]tenant.SessionStatus{
		tenant.SessionPending: tenant.SessionExpired, tenant.SessionConsented: tenant.SessionExpired,
		tenant.SessionConnected: tenant.SessionConnected, tenant.SessionDeclined: tenant.SessionDeclined,
	} {
		s := tenant.ConnectSession{Status: stored, ExpiresAt: at}
		if got := s.StatusAt(at.Add(-time.Nanosecond)); got != stored {
			t.Errorf("%s before the expiry: got %s, want the stored status", stored, got)
		}
		if got := s.StatusAt(at); got != want {
			t.Errorf("%s at the expiry: %s, want %s", stored, got, want)
		}
	}
}

func TestReturnURLCarriesTheResult(t *testing.T) {
	at := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	s := tenant.ConnectSession{ID: "id-1", Status: tenant.SessionConnected, ExpiresAt: at, ReturnURL: "https://app.example/done?a=1&result=forged", State: "x&y=z"}
	if got := s.ReturnTo(at); got != "https://app.example/done?a=1&result=connected&session_id=id-1&state=x%26y%3Dz" {
		t.Errorf("with a state: got %s", got)
	}
	s.Status, s.State, s.ReturnURL = tenant.SessionPending, "", "https://app.example"
	if got := s.ReturnTo(at); got != "https://app.example?result=expired&session_id=id-1" {
		t.Errorf("without a state, after the expiry: got %s", got)
	}
	s.ReturnURL = ""
	if got := s.ReturnTo(at); got != "" {
		t.Errorf("without a ReturnURL: got %q, want no URL", got)
	}
}
