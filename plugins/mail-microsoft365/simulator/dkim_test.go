// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"strings"
	"testing"
)

func (t *tenant) newSigning(name string) answer {
	t.t.Helper()
	a := t.exchange("New-DkimSigningConfig", m{"DomainName": name, "KeySize": 2048, "Enabled": false})
	if a.status != http.StatusOK {
		t.t.Fatalf("%d %s", a.status, a.raw)
	}
	return a
}

func TestDKIMTargets(t *testing.T) {
	for _, tt := range []struct {
		name, domain string
		before       m
		want         string // %P is the prefix of the built-in domain
	}{
		{"new style", "contoso.example", nil, "selector1-contoso-example._domainkey.%P.n-v1.dkim.mail.microsoft"},
		{"new style, dashes", domain, nil, "selector1-fabrikammail-example01i._domainkey.%P.n-v1.dkim.mail.microsoft"},
		{"another letter", "contoso.example", m{"dkim_letter": "q"}, "selector1-contoso-example._domainkey.%P.q-v1.dkim.mail.microsoft"},
		{"classic style", "contoso.example", m{"dkim_style": m{"contoso.example": "classic"}}, "selector1-contoso-example._domainkey.%P.onmicrosoft.com"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := start(t).connected()
			if tt.before != nil {
				tn.behave(tt.before)
			}
			tn.addDomain(tt.domain)
			row := tn.newSigning(tt.domain).at("value", 0).(m)
			prefix := strings.TrimSuffix(tn.initial(), ".onmicrosoft.com")
			want := strings.ReplaceAll(tt.want, "%P", prefix)
			if row["Selector1CNAME"] != want || row["Selector2CNAME"] != strings.Replace(want, "selector1", "selector2", 1) {
				t.Errorf("%v", row)
			}
			if row["Status"] != "CnameMissing" || row["Enabled"] != false || row["Selector1KeySize"] != 2048.0 ||
				row["Selector1KeySize@data.type"] != "System.Int32" {
				t.Errorf("%v", row)
			}
		})
	}
}

func TestEnableSigning(t *testing.T) {
	for _, tt := range []struct {
		name    string
		records func(first, second string) []string
		ok      bool
	}{
		{"nothing published", func(string, string) []string { return nil }, false},
		{"one selector", func(a, _ string) []string { return []string{"selector1 CNAME " + a} }, false},
		{"another target", func(_, b string) []string {
			return []string{"selector1 CNAME elsewhere.example", "selector2 CNAME " + b}
		}, false},
		{"the targets swapped", func(a, b string) []string { return []string{"selector1 CNAME " + b, "selector2 CNAME " + a} }, false},
		{"both", func(a, b string) []string { return []string{"selector1 CNAME " + a, "selector2 CNAME " + b} }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := start(t).connected()
			tn.addDomain(domain)
			row := tn.newSigning(domain).at("value", 0).(m)
			for _, record := range tt.records(row["Selector1CNAME"].(string), row["Selector2CNAME"].(string)) {
				tn.world.publish(strings.Replace(record, " CNAME", "._domainkey."+domain+". 60 IN CNAME", 1) + ".")
			}
			a := tn.exchange("Set-DkimSigningConfig", m{"Identity": domain, "Enabled": true})
			read := tn.exchange("Get-DkimSigningConfig", m{"Identity": domain})
			if tt.ok {
				if a.status != http.StatusOK || read.at("value", 0, "Status") != "Valid" || read.at("value", 0, "Enabled") != true {
					t.Errorf("%d %s, read %s", a.status, a.raw, read.raw)
				}
				return
			}
			golden(t, "exchange-no-cname", a)
			if read.at("value", 0, "Status") != "CnameMissing" || read.at("value", 0, "Enabled") != false {
				t.Errorf("%s", read.raw)
			}
		})
	}
}

// TestNewSigningTwice: the second is an error of the class "already exists",
// and an attempt to enable at once leaves the configuration behind.
func TestNewSigningTwice(t *testing.T) {
	tn := start(t).connected()
	tn.addDomain(domain)
	golden(t, "exchange-no-cname", tn.exchange("New-DkimSigningConfig", m{"DomainName": domain, "Enabled": true}))
	if a := tn.exchange("Get-DkimSigningConfig", m{"Identity": domain}); a.at("value", 0, "Enabled") != false || a.at("value", 0, "Selector1KeySize") != 1024.0 {
		t.Errorf("%s", a.raw)
	}
	golden(t, "exchange-signing-exists", tn.exchange("New-DkimSigningConfig", m{"DomainName": domain, "Enabled": false}))
	if a := tn.exchange("Get-DkimSigningConfig", m{}); len(a.rows()) != 2 || a.at("value", 0, "IsDefault") != true {
		t.Errorf("%s", a.raw)
	}
}

// TestListedWithoutKeys: the first attempt to enable makes the keys.
func TestListedWithoutKeys(t *testing.T) {
	tn := start(t).connected()
	tn.behave(m{"dkim_listed": true})
	tn.addDomain(domain)
	if a := tn.exchange("Get-DkimSigningConfig", m{"Identity": domain}); a.at("value", 0, "Status") != "NoDKIMKeys" || a.at("value", 0, "Selector1CNAME") != "" {
		t.Errorf("%s", a.raw)
	}
	golden(t, "exchange-no-cname", tn.exchange("Set-DkimSigningConfig", m{"Identity": domain, "Enabled": true}))
	tn.publishSelectors(domain)
	if a := tn.exchange("Set-DkimSigningConfig", m{"Identity": domain, "Enabled": true}); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

func TestDehydrated(t *testing.T) {
	tn := start(t).connected(m{"bootstrap": "dehydrated"})
	tn.behave(m{"hydrate_ms": 30_000})
	tn.addDomain(domain)
	dehydrated := func() any { return tn.exchange("Get-OrganizationConfig", m{}).at("value", 0, "IsDehydrated") }
	refused := func() {
		t.Helper()
		golden(t, "exchange-dehydrated", tn.exchange("New-DkimSigningConfig", m{"DomainName": domain, "Enabled": false}))
		golden(t, "exchange-dehydrated", tn.exchange("Set-DkimSigningConfig", m{"Identity": domain, "Enabled": true}))
	}
	refused()
	if a := tn.exchange("Enable-OrganizationCustomization", m{}); a.status != http.StatusOK || len(a.rows()) != 0 || dehydrated() != true {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	refused()
	golden(t, "exchange-already-hydrated", tn.exchange("Enable-OrganizationCustomization", m{}))
	tn.control("POST", "/clock", m{"advance": "31s"})
	if dehydrated() != false {
		t.Error("still dehydrated")
	}
	tn.newSigning(domain)
	golden(t, "exchange-already-hydrated", tn.exchange("Enable-OrganizationCustomization", m{}))
}
