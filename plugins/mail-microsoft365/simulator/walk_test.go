// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"testing"
)

// TestWalk goes from a tenant that nobody connected to a mailbox that can
// send, by the order of work of the reference.
func TestWalk(t *testing.T) {
	s := start(t)
	tn := s.connected(m{"name": "Fabrikam Outreach", "bootstrap": "dehydrated"})
	const domain, box = "fabrikam-mail.example", "anna.k@fabrikam-mail.example"

	if a := tn.redeem(tn.code(tn.admin), nil); a.status != http.StatusOK || claimsOf(t, a.at("id_token").(string))["tid"] != tn.id {
		t.Fatalf("sign-in: %d %s", a.status, a.raw)
	}
	tn.addDomain(domain)
	if a := tn.exchange("Enable-OrganizationCustomization", m{}); a.status != http.StatusOK {
		t.Fatalf("hydrate: %d %s", a.status, a.raw)
	}
	if a := tn.exchange("New-DkimSigningConfig", m{"DomainName": domain, "KeySize": 2048, "Enabled": false}); a.status != http.StatusOK {
		t.Fatalf("new signing: %d %s", a.status, a.raw)
	}
	tn.publishSelectors(domain)
	if a := tn.exchange("Set-DkimSigningConfig", m{"Identity": domain, "Enabled": true}); a.status != http.StatusOK {
		t.Fatalf("enable signing: %d %s", a.status, a.raw)
	}
	row := tn.newMailbox(box, "anna.k.fabrikam-mail")
	if a := tn.graph("PATCH", "/users/"+row["ExternalDirectoryObjectId"].(string), openAccount); a.status != http.StatusNoContent {
		t.Fatalf("password: %d %s", a.status, a.raw)
	}
	for cmdlet, params := range map[string]m{
		"Set-CASMailbox":      {"Identity": box, "SmtpClientAuthenticationDisabled": false},
		"Set-TransportConfig": {"SmtpClientAuthenticationDisabled": false},
	} {
		if a := tn.exchange(cmdlet, params); a.status != http.StatusOK || len(a.rows()) != 0 {
			t.Fatalf("%s: %d %s", cmdlet, a.status, a.raw)
		}
	}
	seen := s.control("GET", "/tenants/"+tn.id, nil)
	if seen.at("domains", 0, "dkim_enabled") != true || seen.at("mailboxes", 0, "password_set") != true ||
		seen.at("mailboxes", 0, "enabled") != true || seen.at("consent") != "granted" {
		t.Fatalf("the platform holds %s", seen.raw)
	}
}

var openAccount = m{"accountEnabled": true, "passwordPolicies": "DisablePasswordExpiration",
	"passwordProfile": m{"password": "Correct-Horse-7", "forceChangePasswordNextSignIn": false,
		"forceChangePasswordNextSignInWithMfa": false}}

// addDomain adds, proves and enables a domain for mail.
func (t *tenant) addDomain(name string) {
	t.t.Helper()
	if a := t.graph("POST", "/domains", m{"id": name}); a.status != http.StatusCreated {
		t.t.Fatalf("add %s: %d %s", name, a.status, a.raw)
	}
	t.publishProof(name)
	if a := t.graph("POST", "/domains/"+name+"/verify", nil); a.status != http.StatusOK || a.at("isVerified") != true {
		t.t.Fatalf("verify %s: %d %s", name, a.status, a.raw)
	}
	if a := t.graph("PATCH", "/domains/"+name, m{"supportedServices": []string{"Email"}}); a.status != http.StatusNoContent {
		t.t.Fatalf("enable mail of %s: %d %s", name, a.status, a.raw)
	}
}

func (t *tenant) publishProof(name string) {
	t.t.Helper()
	text := t.graph("GET", "/domains/"+name+"/verificationDnsRecords", nil).at("value", 0, "text").(string)
	t.world.publish(name + `. 60 IN TXT "` + text + `"`)
}

func (t *tenant) publishSelectors(name string) {
	t.t.Helper()
	row := t.exchange("Get-DkimSigningConfig", m{"Identity": name})
	t.world.publish("selector1._domainkey."+name+". 60 IN CNAME "+row.at("value", 0, "Selector1CNAME").(string)+".",
		"selector2._domainkey."+name+". 60 IN CNAME "+row.at("value", 0, "Selector2CNAME").(string)+".")
}

// newMailbox makes a shared mailbox and returns its row.
func (t *tenant) newMailbox(address, alias string) m {
	t.t.Helper()
	a := t.exchange("New-Mailbox", m{"Shared": true, "Name": address, "DisplayName": "Anna Keller", "Alias": alias,
		"PrimarySmtpAddress": address})
	if a.status != http.StatusOK {
		t.t.Fatalf("new mailbox: %d %s", a.status, a.raw)
	}
	return a.at("value", 0).(m)
}
