// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"testing"
	"time"
)

// TestClockMovedBack: what was reached stays reached when the clock goes to a
// time before it, and what is done from then on takes its time as ever.
func TestClockMovedBack(t *testing.T) {
	tn := start(t).connected(m{"bootstrap": "dehydrated"})
	tn.addDomain(domain)
	id := tn.newMailbox("anna@"+domain, "anna.d")["ExternalDirectoryObjectId"].(string)
	tn.exchange("Enable-OrganizationCustomization", m{})
	tn.behave(m{"dns_negative_ms": 30_000})
	tn.graph("POST", "/domains", m{"id": "later.example"})
	golden(t, "graph-verification-failed", tn.graph("POST", "/domains/later.example/verify", nil))
	tn.publishProof("later.example")

	tn.control("POST", "/clock", m{"now": time.Now().Add(-48 * time.Hour)})
	for _, path := range []string{"/domains/" + domain, "/users/" + id, "/users/" + tn.admin} {
		if a := tn.graph("GET", path, nil); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.status, a.raw)
		}
	}
	if a := tn.graph("POST", "/domains/later.example/verify", nil); a.status != http.StatusOK {
		t.Errorf("a missing record is remembered for ever: %d %s", a.status, a.raw)
	}
	if a := tn.exchange("Get-AcceptedDomain", m{"Identity": domain}); a.status != http.StatusOK {
		t.Errorf("accepted domain: %d %s", a.status, a.raw)
	}
	if a := tn.exchange("Get-OrganizationConfig", m{}); a.at("value", 0, "IsDehydrated") != false {
		t.Errorf("dehydrated again: %s", a.raw)
	}
	if a := tn.exchange("Set-CASMailbox", m{"Identity": "anna@" + domain, "SmtpClientAuthenticationDisabled": false}); a.status != http.StatusOK {
		t.Errorf("mailbox: %d %s", a.status, a.raw)
	}
	tn.code(tn.admin) // the administrator is still one

	tn.behave(m{"domain_ms": 60_000})
	tn.graph("POST", "/domains", m{"id": "new.example"})
	golden(t, "graph-not-found", tn.graph("GET", "/domains/new.example", nil))
	tn.control("POST", "/clock", m{"now": time.Now().Add(-48*time.Hour + 61*time.Second)})
	if a := tn.graph("GET", "/domains/new.example", nil); a.status != http.StatusOK {
		t.Errorf("a lag after the move does not end: %d %s", a.status, a.raw)
	}
}
