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
	answer := t.runCmdlet("New-DkimSigningConfig", jsonObject{"DomainName": name, "KeySize": 2048, "Enabled": false})
	if answer.status != http.StatusOK {
		t.t.Fatalf("New-DkimSigningConfig answers %d %s, want 200", answer.status, answer.raw)
	}
	return answer
}

func TestDKIMTargetsFollowStyle(t *testing.T) {
	for _, tc := range []struct {
		name, domain string
		behaviour    jsonObject // settings to change before the domain is added
		want         string     // %P stands for the prefix of the initial domain
	}{
		{"new style", "contoso.example", nil, "selector1-contoso-example._domainkey.%P.n-v1.dkim.mail.microsoft"},
		{"new style, dashes", domain, nil, "selector1-fabrikammail-example01i._domainkey.%P.n-v1.dkim.mail.microsoft"},
		{"another letter", "contoso.example", jsonObject{"dkim_letter": "q"}, "selector1-contoso-example._domainkey.%P.q-v1.dkim.mail.microsoft"},
		{"classic style", "contoso.example", jsonObject{"dkim_style": jsonObject{"contoso.example": "classic"}}, "selector1-contoso-example._domainkey.%P.onmicrosoft.com"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			if tc.behaviour != nil {
				testTenant.setBehaviour(tc.behaviour)
			}
			testTenant.addMailDomain(tc.domain)
			row := testTenant.newDKIMConfig(tc.domain).valueAt("value", 0).(jsonObject)
			prefix := strings.TrimSuffix(testTenant.initialDomain(), ".onmicrosoft.com")
			want := strings.ReplaceAll(tc.want, "%P", prefix)
			if row["Selector1CNAME"] != want || row["Selector2CNAME"] != strings.Replace(want, "selector1", "selector2", 1) {
				t.Errorf("the configuration is %v, want the target %s, and the same with selector2", row, want)
			}
			if row["Status"] != "CnameMissing" || row["Enabled"] != false || row["Selector1KeySize"] != 2048.0 ||
				row["Selector1KeySize@data.type"] != "System.Int32" {
				t.Errorf("the configuration is %v, want it disabled, CnameMissing, with keys of 2048 bits", row)
			}
		})
	}
}

func TestEnablingDKIMRequiresBothCNAMEs(t *testing.T) {
	for _, tc := range []struct {
		name string
		// records returns the records to publish, from the targets of selector1 and selector2.
		records  func(target1, target2 string) []string
		succeeds bool
	}{
		{"nothing published", func(string, string) []string { return nil }, false},
		{"only one selector published", func(target1, _ string) []string { return []string{"selector1 CNAME " + target1} }, false},
		{"a wrong target", func(_, target2 string) []string {
			return []string{"selector1 CNAME elsewhere.example", "selector2 CNAME " + target2}
		}, false},
		{"the targets swapped", func(target1, target2 string) []string {
			return []string{"selector1 CNAME " + target2, "selector2 CNAME " + target1}
		}, false},
		{"both selectors published", func(target1, target2 string) []string {
			return []string{"selector1 CNAME " + target1, "selector2 CNAME " + target2}
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			testTenant.addMailDomain(domain)
			row := testTenant.newDKIMConfig(domain).valueAt("value", 0).(jsonObject)
			for _, record := range tc.records(row["Selector1CNAME"].(string), row["Selector2CNAME"].(string)) {
				testTenant.fakeDNS.publish(strings.Replace(record, " CNAME", "._domainkey."+domain+". 60 IN CNAME", 1) + ".")
			}
			answer := testTenant.runCmdlet("Set-DkimSigningConfig", jsonObject{"Identity": domain, "Enabled": true})
			config := testTenant.runCmdlet("Get-DkimSigningConfig", jsonObject{"Identity": domain})
			if tc.succeeds {
				if answer.status != http.StatusOK || config.valueAt("value", 0, "Status") != "Valid" || config.valueAt("value", 0, "Enabled") != true {
					t.Errorf("the answer is %d %s, and the configuration %s, want 200 and a valid, enabled configuration", answer.status, answer.raw, config.raw)
				}
				return
			}
			assertGolden(t, "exchange-no-cname", answer)
			if config.valueAt("value", 0, "Status") != "CnameMissing" || config.valueAt("value", 0, "Enabled") != false {
				t.Errorf("the configuration is %s, want it disabled and CnameMissing", config.raw)
			}
		})
	}
}

// TestNewDKIMConfigTwiceFails creates a configuration twice. The first call fails, because it
// cannot enable the configuration, and leaves a disabled configuration.
func TestNewDKIMConfigTwiceFails(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.addMailDomain(domain)
	assertGolden(t, "exchange-no-cname", testTenant.runCmdlet("New-DkimSigningConfig", jsonObject{"DomainName": domain, "Enabled": true}))
	if answer := testTenant.runCmdlet("Get-DkimSigningConfig", jsonObject{"Identity": domain}); answer.valueAt("value", 0, "Enabled") != false || answer.valueAt("value", 0, "Selector1KeySize") != 1024.0 {
		t.Errorf("the configuration is %s, want it disabled, with the default key size of 1024 bits", answer.raw)
	}
	assertGolden(t, "exchange-signing-exists", testTenant.runCmdlet("New-DkimSigningConfig", jsonObject{"DomainName": domain, "Enabled": false}))
	if answer := testTenant.runCmdlet("Get-DkimSigningConfig", jsonObject{}); len(answer.rows()) != 2 || answer.valueAt("value", 0, "IsDefault") != true {
		t.Errorf("the configurations are %s, want two, the first the default one", answer.raw)
	}
}

func TestEnablingDKIMCreatesMissingKeys(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.setBehaviour(jsonObject{"dkim_listed": true})
	testTenant.addMailDomain(domain)
	if answer := testTenant.runCmdlet("Get-DkimSigningConfig", jsonObject{"Identity": domain}); answer.valueAt("value", 0, "Status") != "NoDKIMKeys" || answer.valueAt("value", 0, "Selector1CNAME") != "" {
		t.Errorf("the configuration is %s, want NoDKIMKeys and no targets", answer.raw)
	}
	assertGolden(t, "exchange-no-cname", testTenant.runCmdlet("Set-DkimSigningConfig", jsonObject{"Identity": domain, "Enabled": true}))
	testTenant.publishSelectorCNAMEs(domain)
	if answer := testTenant.runCmdlet("Set-DkimSigningConfig", jsonObject{"Identity": domain, "Enabled": true}); answer.status != http.StatusOK {
		t.Errorf("Set-DkimSigningConfig with the CNAME records: %d %s, want 200", answer.status, answer.raw)
	}
}

func TestDehydratedTenantRefusesDKIM(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant(jsonObject{"bootstrap": "dehydrated"})
	testTenant.setBehaviour(jsonObject{"hydrate_ms": 3_600_000})
	testTenant.addMailDomain(domain)
	isDehydrated := func() any {
		return testTenant.runCmdlet("Get-OrganizationConfig", jsonObject{}).valueAt("value", 0, "IsDehydrated")
	}
	assertRefused := func() {
		t.Helper()
		assertGolden(t, "exchange-dehydrated", testTenant.runCmdlet("New-DkimSigningConfig", jsonObject{"DomainName": domain, "Enabled": false}))
		assertGolden(t, "exchange-dehydrated", testTenant.runCmdlet("Set-DkimSigningConfig", jsonObject{"Identity": domain, "Enabled": true}))
	}
	assertRefused()
	if answer := testTenant.runCmdlet("Enable-OrganizationCustomization", jsonObject{}); answer.status != http.StatusOK || len(answer.rows()) != 0 || isDehydrated() != true {
		t.Fatalf("Enable-OrganizationCustomization answers %d %s, want 200 without rows, and the tenant still dehydrated", answer.status, answer.raw)
	}
	assertRefused()
	assertGolden(t, "exchange-already-hydrated", testTenant.runCmdlet("Enable-OrganizationCustomization", jsonObject{}))
	testTenant.control("POST", "/clock", jsonObject{"advance": "61m"})
	if isDehydrated() != false {
		t.Error("the organization is dehydrated after the delay, want it hydrated")
	}
	testTenant.newDKIMConfig(domain)
	assertGolden(t, "exchange-already-hydrated", testTenant.runCmdlet("Enable-OrganizationCustomization", jsonObject{}))
}
