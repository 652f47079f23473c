// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"strings"
	"testing"
)

// newDKIMConfig creates a disabled DKIM configuration with keys of 2048 bits.
func (t *tenant) newDKIMConfig(name string) response {
	t.t.Helper()
	a := t.exchange("New-DkimSigningConfig", jsonObject{"DomainName": name, "KeySize": 2048, "Enabled": false})
	if a.status != http.StatusOK {
		t.t.Fatalf("%d %s", a.status, a.raw)
	}
	return a
}

func TestDKIMTargetsFollowStyle(t *testing.T) {
	for _, tt := range []struct {
		name, domain string
		before       jsonObject
		want         string // %P stands for the prefix of the initial domain
	}{
		{"new style", "contoso.example", nil, "selector1-contoso-example._domainkey.%P.n-v1.dkim.mail.microsoft"},
		{"new style, dashes", domain, nil, "selector1-fabrikammail-example01i._domainkey.%P.n-v1.dkim.mail.microsoft"},
		{"another letter", "contoso.example", jsonObject{"dkim_letter": "q"}, "selector1-contoso-example._domainkey.%P.q-v1.dkim.mail.microsoft"},
		{"classic style", "contoso.example", jsonObject{"dkim_style": jsonObject{"contoso.example": "classic"}}, "selector1-contoso-example._domainkey.%P.onmicrosoft.com"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := startSimulator(t).newConnectedTenant()
			if tt.before != nil {
				tn.setBehaviour(tt.before)
			}
			tn.addMailDomain(tt.domain)
			row := tn.newDKIMConfig(tt.domain).at("value", 0).(jsonObject)
			prefix := strings.TrimSuffix(tn.initialDomain(), ".onmicrosoft.com")
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

func TestEnablingDKIMRequiresBothCNAMEs(t *testing.T) {
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
			tn := startSimulator(t).newConnectedTenant()
			tn.addMailDomain(domain)
			row := tn.newDKIMConfig(domain).at("value", 0).(jsonObject)
			for _, record := range tt.records(row["Selector1CNAME"].(string), row["Selector2CNAME"].(string)) {
				tn.fakeDNS.publish(strings.Replace(record, " CNAME", "._domainkey."+domain+". 60 IN CNAME", 1) + ".")
			}
			a := tn.exchange("Set-DkimSigningConfig", jsonObject{"Identity": domain, "Enabled": true})
			shown := tn.exchange("Get-DkimSigningConfig", jsonObject{"Identity": domain})
			if tt.ok {
				if a.status != http.StatusOK || shown.at("value", 0, "Status") != "Valid" || shown.at("value", 0, "Enabled") != true {
					t.Errorf("%d %s, read %s", a.status, a.raw, shown.raw)
				}
				return
			}
			assertGolden(t, "exchange-no-cname", a)
			if shown.at("value", 0, "Status") != "CnameMissing" || shown.at("value", 0, "Enabled") != false {
				t.Errorf("%s", shown.raw)
			}
		})
	}
}

// TestNewDKIMConfigTwiceFails creates a configuration twice. The first call fails to enable it, but
// leaves it behind disabled.
func TestNewDKIMConfigTwiceFails(t *testing.T) {
	tn := startSimulator(t).newConnectedTenant()
	tn.addMailDomain(domain)
	assertGolden(t, "exchange-no-cname", tn.exchange("New-DkimSigningConfig", jsonObject{"DomainName": domain, "Enabled": true}))
	if a := tn.exchange("Get-DkimSigningConfig", jsonObject{"Identity": domain}); a.at("value", 0, "Enabled") != false || a.at("value", 0, "Selector1KeySize") != 1024.0 {
		t.Errorf("%s", a.raw)
	}
	assertGolden(t, "exchange-signing-exists", tn.exchange("New-DkimSigningConfig", jsonObject{"DomainName": domain, "Enabled": false}))
	if a := tn.exchange("Get-DkimSigningConfig", jsonObject{}); len(a.rows()) != 2 || a.at("value", 0, "IsDefault") != true {
		t.Errorf("%s", a.raw)
	}
}

func TestEnablingDKIMCreatesMissingKeys(t *testing.T) {
	tn := startSimulator(t).newConnectedTenant()
	tn.setBehaviour(jsonObject{"dkim_listed": true})
	tn.addMailDomain(domain)
	if a := tn.exchange("Get-DkimSigningConfig", jsonObject{"Identity": domain}); a.at("value", 0, "Status") != "NoDKIMKeys" || a.at("value", 0, "Selector1CNAME") != "" {
		t.Errorf("%s", a.raw)
	}
	assertGolden(t, "exchange-no-cname", tn.exchange("Set-DkimSigningConfig", jsonObject{"Identity": domain, "Enabled": true}))
	tn.publishSelectorCNAMEs(domain)
	if a := tn.exchange("Set-DkimSigningConfig", jsonObject{"Identity": domain, "Enabled": true}); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

func TestDehydratedTenantRefusesDKIM(t *testing.T) {
	tn := startSimulator(t).newConnectedTenant(jsonObject{"bootstrap": "dehydrated"})
	tn.setBehaviour(jsonObject{"hydrate_ms": 30_000})
	tn.addMailDomain(domain)
	dehydrated := func() any { return tn.exchange("Get-OrganizationConfig", jsonObject{}).at("value", 0, "IsDehydrated") }
	assertRefused := func() {
		t.Helper()
		assertGolden(t, "exchange-dehydrated", tn.exchange("New-DkimSigningConfig", jsonObject{"DomainName": domain, "Enabled": false}))
		assertGolden(t, "exchange-dehydrated", tn.exchange("Set-DkimSigningConfig", jsonObject{"Identity": domain, "Enabled": true}))
	}
	assertRefused()
	if a := tn.exchange("Enable-OrganizationCustomization", jsonObject{}); a.status != http.StatusOK || len(a.rows()) != 0 || dehydrated() != true {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	assertRefused()
	assertGolden(t, "exchange-already-hydrated", tn.exchange("Enable-OrganizationCustomization", jsonObject{}))
	tn.control("POST", "/clock", jsonObject{"advance": "31s"})
	if dehydrated() != false {
		t.Error("still dehydrated")
	}
	tn.newDKIMConfig(domain)
	assertGolden(t, "exchange-already-hydrated", tn.exchange("Enable-OrganizationCustomization", jsonObject{}))
}
