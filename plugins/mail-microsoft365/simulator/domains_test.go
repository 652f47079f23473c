// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

const domain = "fabrikam-mail.example"

func TestAddDomain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before m // behaviour
		body   any
		golden string
	}{
		{"syntactically bad", nil, m{"id": "not a domain"}, "graph-invalid-values"},
		{"a single label", nil, m{"id": "localhost"}, "graph-invalid-values"},
		{"a built-in suffix", nil, m{"id": "other.onmicrosoft.com"}, "graph-invalid-values"},
		{"nothing else is allowed", nil, m{"id": "new.example", "isDefault": true}, "graph-bad-request"},
		{"already here", nil, m{"id": domain}, "graph-conflict"},
		{"already here, in another case", nil, m{"id": strings.ToUpper(domain)}, "graph-conflict"},
		{"already here, told with 409", m{"domain_conflict": 409}, m{"id": domain}, "graph-conflict-409"},
		{"owned elsewhere, refused at once", m{"elsewhere": []string{"taken.example"}, "elsewhere_at": "add"},
			m{"id": "taken.example"}, "graph-conflict"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := start(t).connected()
			tn.graph("POST", "/domains", m{"id": domain})
			if tt.before != nil {
				tn.behave(tt.before)
			}
			golden(t, tt.golden, tn.graph("POST", "/domains", tt.body))
		})
	}
}

func TestDomainObject(t *testing.T) {
	tn := start(t).connected()
	added := tn.graph("POST", "/domains", m{"id": domain})
	if added.status != http.StatusCreated || added.at("isVerified") != false || added.at("availabilityStatus") != nil ||
		len(added.at("supportedServices").([]any)) != 0 || added.at("id") != domain {
		t.Errorf("added: %d %s", added.status, added.raw)
	}
	tn.publishProof(domain)
	verified := tn.graph("POST", "/domains/"+domain+"/verify", nil)
	if verified.at("isVerified") != true || verified.at("isRoot") != true || verified.at("availabilityStatus") != "AvailableImmediately" {
		t.Errorf("verified: %s", verified.raw)
	}
	read := tn.graph("GET", "/domains/"+domain, nil)
	if read.at("isVerified") != true || read.at("availabilityStatus") != nil {
		t.Errorf("read: %s", read.raw)
	}
	if a := tn.graph("GET", "/domains", nil); len(a.rows()) != 2 || a.at("value", 0, "isInitial") != true {
		t.Errorf("list: %s", a.raw)
	}
	golden(t, "graph-unsupported-query", tn.graph("GET", "/domains?$filter=isVerified eq true", nil))
}

// TestSubdomain: below a verified root nothing is left to prove.
func TestSubdomain(t *testing.T) {
	tn := start(t).connected()
	tn.addDomain(domain)
	if a := tn.graph("POST", "/domains", m{"id": "sub." + domain}); a.at("isVerified") != true || a.at("isRoot") != false {
		t.Errorf("%s", a.raw)
	}
}

func TestDomainReplicaLag(t *testing.T) {
	tn := start(t).connected()
	tn.behave(m{"domain_ms": 2000})
	tn.graph("POST", "/domains", m{"id": domain})
	for _, path := range []string{"", "/verificationDnsRecords", "/serviceConfigurationRecords", "/domainNameReferences"} {
		golden(t, "graph-not-found", tn.graph("GET", "/domains/"+domain+path, nil))
	}
	tn.control("POST", "/clock", m{"advance": "3s"})
	if a := tn.graph("GET", "/domains/"+domain, nil); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

func TestVerificationRecords(t *testing.T) {
	s := start(t)
	one, two := s.connected(), s.connected()
	texts := map[string]bool{}
	for _, tn := range []*tenant{one, two} {
		tn.graph("POST", "/domains", m{"id": domain})
		a := tn.graph("GET", "/domains/"+domain+"/verificationDnsRecords", nil)
		text := a.at("value", 0, "text").(string)
		texts[text] = true
		token := strings.TrimPrefix(text, "MS=")
		if !regexp.MustCompile(`^MS=ms\d{8}$`).MatchString(text) || a.at("value", 0, "label") != domain ||
			a.at("value", 1, "mailExchange") != token+".msv1.invalid" || a.at("value", 1, "preference") != 32767.0 {
			t.Errorf("%s", a.raw)
		}
		again := tn.graph("GET", "/domains/"+domain+"/verificationDnsRecords", nil)
		if again.at("value", 0, "text") != text {
			t.Error("the token is not stable")
		}
	}
	if len(texts) != 2 {
		t.Error("two tenants have the same token")
	}
}

func TestServiceRecords(t *testing.T) {
	for _, tt := range []struct {
		name, domain string
		before       m
		mx           string
	}{
		{"new style", "contoso.example", nil, `^contoso-example\.[a-z]-v1\.mx\.microsoft$`},
		{"new style, dashes", domain, nil, `^fabrikammail-example01b\.[a-z]-v1\.mx\.microsoft$`},
		{"classic style", "contoso.example", m{"mx_style": m{"contoso.example": "classic"}}, `^contoso-example\.mail\.protection\.outlook\.com$`},
		{"classic style, dashes", domain, m{"mx_style": m{domain: "classic"}}, `^fabrikammail-example01b\.mail\.protection\.outlook\.com$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := start(t).connected()
			if tt.before != nil {
				tn.behave(tt.before)
			}
			tn.addDomain(tt.domain)
			a := tn.graph("GET", "/domains/"+tt.domain+"/serviceConfigurationRecords", nil)
			mx, _ := a.at("value", 0, "mailExchange").(string)
			if len(a.rows()) != 3 || !regexp.MustCompile(tt.mx).MatchString(mx) || a.at("value", 0, "preference") != 0.0 {
				t.Errorf("MX %q: %s", mx, a.raw)
			}
			if a.at("value", 1, "text") != "v=spf1 include:spf.protection.outlook.com -all" ||
				a.at("value", 2, "label") != "autodiscover."+tt.domain || a.at("value", 2, "canonicalName") != "autodiscover.outlook.com" {
				t.Errorf("%s", a.raw)
			}
			if strings.Contains(string(a.raw), "_domainkey") {
				t.Error("DKIM records are in the list")
			}
		})
	}
}

func TestEarlyServiceRecords(t *testing.T) {
	tn := start(t).connected()
	tn.graph("POST", "/domains", m{"id": domain})
	read := func(how string) answer {
		tn.behave(m{"early_records": how})
		return tn.graph("GET", "/domains/"+domain+"/serviceConfigurationRecords", nil)
	}
	if a := read("empty"); a.status != http.StatusOK || len(a.rows()) != 0 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if a := read("unavailable"); a.at("value", 0, "@odata.type") != "#microsoft.graph.domainDnsUnavailableRecord" || a.at("value", 0, "description") == nil {
		t.Errorf("%s", a.raw)
	}
	golden(t, "graph-bad-request", read("refused"))
	tn.publishProof(domain)
	tn.graph("POST", "/domains/"+domain+"/verify", nil)
	if a := read("empty"); len(a.rows()) != 0 {
		t.Errorf("verified, e-mail not enabled: %s", a.raw)
	}
}

func TestUpdateDomain(t *testing.T) {
	tn := start(t).connected()
	tn.graph("POST", "/domains", m{"id": "unverified.example"})
	golden(t, "graph-bad-request", tn.graph("PATCH", "/domains/unverified.example", m{"supportedServices": []string{"Email"}}))
	tn.addDomain(domain)
	for name, body := range map[string]m{
		"unknown service": {"supportedServices": []string{"Pigeon"}},
		"no list":         {"supportedServices": "Email"},
		"take default":    {"isDefault": false},
		"other property":  {"isVerified": true},
	} {
		if a := tn.graph("PATCH", "/domains/"+domain, body); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	golden(t, "graph-not-found", tn.graph("PATCH", "/domains/other.example", m{"isDefault": true}))
}

func TestAcceptedDomainLag(t *testing.T) {
	tn := start(t).connected()
	tn.behave(m{"accepted_domain_ms": 10_000})
	tn.addDomain(domain)
	listed := func() bool {
		return strings.Contains(string(tn.exchange("Get-AcceptedDomain", m{}).raw), `"`+domain+`"`)
	}
	newMailbox := m{"Shared": true, "Name": "a@" + domain, "Alias": "a.d", "PrimarySmtpAddress": "a@" + domain}
	if listed() {
		t.Error("listed at once")
	}
	golden(t, "exchange-not-accepted", tn.exchange("New-Mailbox", newMailbox))
	golden(t, "exchange-not-found", tn.exchange("New-DkimSigningConfig", m{"DomainName": domain, "Enabled": false}))
	tn.control("POST", "/clock", m{"advance": "11s"})
	if !listed() {
		t.Error("not listed after the lag")
	}
	if a := tn.exchange("New-Mailbox", newMailbox); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

// TestVerifyDoesNotEnableMail: Exchange knows nothing of a domain until the
// e-mail service is switched on.
func TestVerifyDoesNotEnableMail(t *testing.T) {
	tn := start(t).connected()
	tn.graph("POST", "/domains", m{"id": domain})
	tn.publishProof(domain)
	tn.graph("POST", "/domains/"+domain+"/verify", nil)
	if a := tn.exchange("Get-AcceptedDomain", m{}); len(a.rows()) != 1 || a.at("value", 0, "InitialDomain") != true {
		t.Errorf("%s", a.raw)
	}
}

func TestDeleteDomain(t *testing.T) {
	tn := start(t).connected()
	tn.addDomain(domain)
	tn.newMailbox("a@"+domain, "a.d")
	if a := tn.graph("GET", "/domains/"+domain+"/domainNameReferences", nil); len(a.rows()) != 1 {
		t.Errorf("%s", a.raw)
	}
	golden(t, "graph-referenced", tn.graph("DELETE", "/domains/"+domain, nil))
	golden(t, "graph-bad-request", tn.graph("DELETE", "/domains/"+tn.initial(), nil))
	golden(t, "graph-not-found", tn.graph("DELETE", "/domains/other.example", nil))
	tn.exchange("Remove-Mailbox", m{"Identity": "a@" + domain, "Confirm": false})
	if a := tn.graph("DELETE", "/domains/"+domain, nil); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.raw)
	}
	golden(t, "graph-not-found", tn.graph("GET", "/domains/"+domain, nil))
}

func TestForceDelete(t *testing.T) {
	tn := start(t).connected()
	tn.addDomain(domain)
	id := tn.newMailbox("a@"+domain, "a.d")["ExternalDirectoryObjectId"].(string)
	if a := tn.graph("POST", "/domains/"+domain+"/forceDelete", m{"disableUserAccounts": true}); a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	if a := tn.graph("GET", "/users/"+id, nil); a.at("userPrincipalName") != "a@"+tn.initial() {
		t.Errorf("%s", a.raw)
	}
	golden(t, "graph-not-found", tn.graph("GET", "/domains/"+domain, nil))
}

// TestDNSOutage: without a DNS the platform finds no record, and says so.
func TestDNSOutage(t *testing.T) {
	tn := start(t).connected()
	tn.graph("POST", "/domains", m{"id": domain})
	tn.publishProof(domain)
	tn.world.silence(true)
	golden(t, "graph-verification-failed", tn.graph("POST", "/domains/"+domain+"/verify", nil))
	tn.world.silence(false)
	if a := tn.graph("POST", "/domains/"+domain+"/verify", nil); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.raw)
	}
}
