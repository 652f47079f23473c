// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// domain is the custom domain that most tests use.
const domain = "fabrikam-mail.example"

func TestAddDomainRefusesInvalidDomains(t *testing.T) {
	for _, tc := range []struct {
		name      string
		behaviour jsonObject // settings to change before the call
		body      any
		golden    string
	}{
		{"syntactically bad", nil, jsonObject{"id": "not a domain"}, "graph-invalid-values"},
		{"a single label", nil, jsonObject{"id": "localhost"}, "graph-invalid-values"},
		{"suffix of initial domains", nil, jsonObject{"id": "other.onmicrosoft.com"}, "graph-invalid-values"},
		{"a property besides id", nil, jsonObject{"id": "new.example", "isDefault": true}, "graph-bad-request"},
		{"already in the tenant", nil, jsonObject{"id": domain}, "graph-conflict"},
		{"already in the tenant, in another case", nil, jsonObject{"id": strings.ToUpper(domain)}, "graph-conflict"},
		{"already in the tenant, status 409", jsonObject{"domain_conflict": 409}, jsonObject{"id": domain}, "graph-conflict-409"},
		{"owned elsewhere, refused when added", jsonObject{"elsewhere": []string{"taken.example"}, "elsewhere_at": "add"},
			jsonObject{"id": "taken.example"}, "graph-conflict"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			testTenant.callGraph("POST", "/domains", jsonObject{"id": domain})
			if tc.behaviour != nil {
				testTenant.setBehaviour(tc.behaviour)
			}
			assertGolden(t, tc.golden, testTenant.callGraph("POST", "/domains", tc.body))
		})
	}
}

func TestDomainObjectShowsVerification(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	added := testTenant.callGraph("POST", "/domains", jsonObject{"id": domain})
	if added.status != http.StatusCreated || added.valueAt("isVerified") != false || added.valueAt("availabilityStatus") != nil ||
		len(added.valueAt("supportedServices").([]any)) != 0 || added.valueAt("id") != domain {
		t.Errorf("added: %d %s, want 201 and an unverified domain without services", added.status, added.raw)
	}
	testTenant.publishVerificationRecord(domain)
	verified := testTenant.callGraph("POST", "/domains/"+domain+"/verify", nil)
	if verified.valueAt("isVerified") != true || verified.valueAt("isRoot") != true || verified.valueAt("availabilityStatus") != "AvailableImmediately" {
		t.Errorf("verified: %s, want a verified root domain that is AvailableImmediately", verified.raw)
	}
	readAnswer := testTenant.callGraph("GET", "/domains/"+domain, nil)
	if readAnswer.valueAt("isVerified") != true || readAnswer.valueAt("availabilityStatus") != nil {
		t.Errorf("read: %s, want a verified domain without availabilityStatus", readAnswer.raw)
	}
	if answer := testTenant.callGraph("GET", "/domains", nil); len(answer.rows()) != 2 || answer.valueAt("value", 0, "isInitial") != true {
		t.Errorf("list: %s, want two domains, the initial domain first", answer.raw)
	}
	assertGolden(t, "graph-unsupported-query", testTenant.callGraph("GET", "/domains?$filter=isVerified eq true", nil))
}

func TestSubdomainOfVerifiedDomainIsVerified(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.addMailDomain(domain)
	if answer := testTenant.callGraph("POST", "/domains", jsonObject{"id": "sub." + domain}); answer.valueAt("isVerified") != true || answer.valueAt("isRoot") != false {
		t.Errorf("the subdomain is %s, want it verified and not a root", answer.raw)
	}
}

func TestNewDomainIsVisibleAfterLag(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.setBehaviour(jsonObject{"domain_ms": 3_600_000})
	testTenant.callGraph("POST", "/domains", jsonObject{"id": domain})
	for _, path := range []string{"", "/verificationDnsRecords", "/serviceConfigurationRecords", "/domainNameReferences"} {
		assertGolden(t, "graph-not-found", testTenant.callGraph("GET", "/domains/"+domain+path, nil))
	}
	testTenant.control("POST", "/clock", jsonObject{"advance": "61m"})
	if answer := testTenant.callGraph("GET", "/domains/"+domain, nil); answer.status != http.StatusOK {
		t.Errorf("after the lag the answer is %d %s, want 200", answer.status, answer.raw)
	}
}

func TestVerificationTokenIsStablePerTenant(t *testing.T) {
	sim := startSimulator(t)
	tokens := map[string]bool{}
	for _, testTenant := range []*tenant{sim.newConnectedTenant(), sim.newConnectedTenant()} {
		testTenant.callGraph("POST", "/domains", jsonObject{"id": domain})
		answer := testTenant.callGraph("GET", "/domains/"+domain+"/verificationDnsRecords", nil)
		text := answer.valueAt("value", 0, "text").(string)
		tokens[text] = true
		token := strings.TrimPrefix(text, "MS=")
		if !regexp.MustCompile(`^MS=ms\d{8}$`).MatchString(text) || answer.valueAt("value", 0, "label") != domain ||
			answer.valueAt("value", 1, "mailExchange") != token+".msv1.invalid" || answer.valueAt("value", 1, "preference") != 32767.0 {
			t.Errorf("the verification records are %s, want a TXT record with a token of ms and 8 digits, and an MX record with the same token", answer.raw)
		}
		repeated := testTenant.callGraph("GET", "/domains/"+domain+"/verificationDnsRecords", nil)
		if repeated.valueAt("value", 0, "text") != text {
			t.Errorf("a second read returns %s, want the same token %s", repeated.raw, text)
		}
	}
	if len(tokens) != 2 {
		t.Error("two tenants have the same token, want different tokens")
	}
}

func TestServiceRecordsFollowMXStyle(t *testing.T) {
	for _, tc := range []struct {
		name, domain string
		behaviour    jsonObject // settings to change before the domain is added
		mx           string     // a pattern of the MX host
	}{
		{"new style", "contoso.example", nil, `^contoso-example\.[a-z]-v1\.mx\.microsoft$`},
		{"new style, dashes", domain, nil, `^fabrikammail-example01b\.[a-z]-v1\.mx\.microsoft$`},
		{"classic style", "contoso.example", jsonObject{"mx_style": jsonObject{"contoso.example": "classic"}}, `^contoso-example\.mail\.protection\.outlook\.com$`},
		{"classic style, dashes", domain, jsonObject{"mx_style": jsonObject{domain: "classic"}}, `^fabrikammail-example01b\.mail\.protection\.outlook\.com$`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			if tc.behaviour != nil {
				testTenant.setBehaviour(tc.behaviour)
			}
			testTenant.addMailDomain(tc.domain)
			answer := testTenant.callGraph("GET", "/domains/"+tc.domain+"/serviceConfigurationRecords", nil)
			mx, _ := answer.valueAt("value", 0, "mailExchange").(string)
			if len(answer.rows()) != 3 || !regexp.MustCompile(tc.mx).MatchString(mx) || answer.valueAt("value", 0, "preference") != 0.0 {
				t.Errorf("the records are %s, want three, the first an MX that matches %s", answer.raw, tc.mx)
			}
			if answer.valueAt("value", 1, "text") != "v=spf1 include:spf.protection.outlook.com -all" ||
				answer.valueAt("value", 2, "label") != "autodiscover."+tc.domain || answer.valueAt("value", 2, "canonicalName") != "autodiscover.outlook.com" {
				t.Errorf("the records are %s, want an SPF record second and the autodiscover CNAME record third", answer.raw)
			}
			if strings.Contains(string(answer.raw), "_domainkey") {
				t.Errorf("the records are %s, want no DKIM record", answer.raw)
			}
		})
	}
}

// TestServiceRecordsBeforeEmailIsEnabled checks that the setting early_records selects the answer.
func TestServiceRecordsBeforeEmailIsEnabled(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.callGraph("POST", "/domains", jsonObject{"id": domain})
	readRecords := func(earlyRecords string) response {
		testTenant.setBehaviour(jsonObject{"early_records": earlyRecords})
		return testTenant.callGraph("GET", "/domains/"+domain+"/serviceConfigurationRecords", nil)
	}
	if answer := readRecords("empty"); answer.status != http.StatusOK || len(answer.rows()) != 0 {
		t.Errorf("with the setting empty, the records are %d %s, want an empty list", answer.status, answer.raw)
	}
	if answer := readRecords("unavailable"); answer.valueAt("value", 0, "@odata.type") != "#microsoft.graph.domainDnsUnavailableRecord" || answer.valueAt("value", 0, "description") == nil {
		t.Errorf("with the setting unavailable, the records are %s, want one of the type unavailable with a description", answer.raw)
	}
	assertGolden(t, "graph-bad-request", readRecords("refused"))
	testTenant.publishVerificationRecord(domain)
	testTenant.callGraph("POST", "/domains/"+domain+"/verify", nil)
	if answer := readRecords("empty"); len(answer.rows()) != 0 {
		t.Errorf("the records of a verified domain without Email are %s, want an empty list", answer.raw)
	}
}

func TestUpdateDomainRefusesInvalidChanges(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.callGraph("POST", "/domains", jsonObject{"id": "unverified.example"})
	assertGolden(t, "graph-bad-request", testTenant.callGraph("PATCH", "/domains/unverified.example", jsonObject{"supportedServices": []string{"Email"}}))
	testTenant.addMailDomain(domain)
	for name, body := range map[string]jsonObject{
		"unknown service":      {"supportedServices": []string{"Pigeon"}},
		"services not a list":  {"supportedServices": "Email"},
		"default set to false": {"isDefault": false},
		"unsupported property": {"isVerified": true},
	} {
		if answer := testTenant.callGraph("PATCH", "/domains/"+domain, body); answer.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s, want 400", name, answer.status, answer.raw)
		}
	}
	assertGolden(t, "graph-not-found", testTenant.callGraph("PATCH", "/domains/other.example", jsonObject{"isDefault": true}))
}

func TestDomainIsAcceptedAfterLag(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.setBehaviour(jsonObject{"accepted_domain_ms": 3_600_000})
	testTenant.addMailDomain(domain)
	isListed := func() bool {
		return strings.Contains(string(testTenant.runCmdlet("Get-AcceptedDomain", jsonObject{}).raw), `"`+domain+`"`)
	}
	newMailbox := jsonObject{"Shared": true, "Name": "a@" + domain, "Alias": "a.d", "PrimarySmtpAddress": "a@" + domain}
	if isListed() {
		t.Error("the domain is listed at once, want only after the lag")
	}
	assertGolden(t, "exchange-not-accepted", testTenant.runCmdlet("New-Mailbox", newMailbox))
	assertGolden(t, "exchange-not-found", testTenant.runCmdlet("New-DkimSigningConfig", jsonObject{"DomainName": domain, "Enabled": false}))
	testTenant.control("POST", "/clock", jsonObject{"advance": "61m"})
	if !isListed() {
		t.Error("the domain is not listed after the lag, want it listed")
	}
	if answer := testTenant.runCmdlet("New-Mailbox", newMailbox); answer.status != http.StatusOK {
		t.Errorf("after the lag the answer is %d %s, want 200", answer.status, answer.raw)
	}
}

// TestVerifyDoesNotEnableMail checks that Exchange does not list a verified domain before Email is
// enabled.
func TestVerifyDoesNotEnableMail(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.callGraph("POST", "/domains", jsonObject{"id": domain})
	testTenant.publishVerificationRecord(domain)
	testTenant.callGraph("POST", "/domains/"+domain+"/verify", nil)
	if answer := testTenant.runCmdlet("Get-AcceptedDomain", jsonObject{}); len(answer.rows()) != 1 || answer.valueAt("value", 0, "InitialDomain") != true {
		t.Errorf("Exchange lists %s, want only the initial domain", answer.raw)
	}
}

func TestDeleteDomainRefusesDomainInUse(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.addMailDomain(domain)
	testTenant.newMailbox("a@"+domain, "a.d")
	if answer := testTenant.callGraph("GET", "/domains/"+domain+"/domainNameReferences", nil); len(answer.rows()) != 1 {
		t.Errorf("the references are %s, want one object that uses the domain", answer.raw)
	}
	assertGolden(t, "graph-referenced", testTenant.callGraph("DELETE", "/domains/"+domain, nil))
	assertGolden(t, "graph-bad-request", testTenant.callGraph("DELETE", "/domains/"+testTenant.initialDomain(), nil))
	assertGolden(t, "graph-not-found", testTenant.callGraph("DELETE", "/domains/other.example", nil))
	testTenant.runCmdlet("Remove-Mailbox", jsonObject{"Identity": "a@" + domain, "Confirm": false})
	if answer := testTenant.callGraph("DELETE", "/domains/"+domain, nil); answer.status != http.StatusNoContent {
		t.Errorf("DELETE after the removal of the mailbox: the answer is %d %s, want 204", answer.status, answer.raw)
	}
	assertGolden(t, "graph-not-found", testTenant.callGraph("GET", "/domains/"+domain, nil))
}

func TestForceDeleteMovesUsersToInitialDomain(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.addMailDomain(domain)
	id := testTenant.newMailbox("a@"+domain, "a.d")["ExternalDirectoryObjectId"].(string)
	if answer := testTenant.callGraph("POST", "/domains/"+domain+"/forceDelete", jsonObject{"disableUserAccounts": true}); answer.status != http.StatusAccepted {
		t.Fatalf("the answer is %d %s, want 202", answer.status, answer.raw)
	}
	if answer := testTenant.callGraph("GET", "/users/"+id, nil); answer.valueAt("userPrincipalName") != "a@"+testTenant.initialDomain() {
		t.Errorf("the user is %s, want a sign-in name in the initial domain", answer.raw)
	}
	assertGolden(t, "graph-not-found", testTenant.callGraph("GET", "/domains/"+domain, nil))
}

func TestDNSOutageFailsVerification(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.callGraph("POST", "/domains", jsonObject{"id": domain})
	testTenant.publishVerificationRecord(domain)
	testTenant.fakeDNS.setUnavailable(true)
	assertGolden(t, "graph-verification-failed", testTenant.callGraph("POST", "/domains/"+domain+"/verify", nil))
	testTenant.fakeDNS.setUnavailable(false)
	if answer := testTenant.callGraph("POST", "/domains/"+domain+"/verify", nil); answer.status != http.StatusOK {
		t.Errorf("after the outage the answer is %d %s, want 200", answer.status, answer.raw)
	}
}

func TestVerifyQueriesDNS(t *testing.T) {
	for _, tc := range []struct {
		name      string
		behaviour jsonObject // settings to change before the domain is added
		records   []string   // %TOKEN% stands for the verification token
		golden    string     // "" for success
	}{
		{"record missing", nil, nil, "graph-verification-failed"},
		{"record wrong", nil, []string{`TXT "MS=ms00000000"`}, "graph-verification-failed"},
		{"unrelated TXT record", nil, []string{`TXT "v=spf1 -all"`}, "graph-verification-failed"},
		{"TXT record", nil, []string{`TXT "MS=%TOKEN%"`}, ""},
		{"TXT among many, over TCP", nil, []string{`TXT "1"`, `TXT "2"`, `TXT "3"`, `TXT "4"`, `TXT "MS=%TOKEN%"`}, ""},
		{"TXT in two strings", nil, []string{`TXT "MS=" "%TOKEN%"`}, ""},
		{"the MX alternative", nil, []string{`MX 32767 %TOKEN%.msv1.invalid.`}, ""},
		{"owned elsewhere", jsonObject{"elsewhere": []string{domain}}, []string{`TXT "MS=%TOKEN%"`}, "graph-verified-elsewhere"},
		{"owned elsewhere, record missing", jsonObject{"elsewhere": []string{domain}}, nil, "graph-verified-elsewhere"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			if tc.behaviour != nil {
				testTenant.setBehaviour(tc.behaviour)
			}
			testTenant.callGraph("POST", "/domains", jsonObject{"id": domain})
			text := testTenant.callGraph("GET", "/domains/"+domain+"/verificationDnsRecords", nil).valueAt("value", 0, "text").(string)
			for _, record := range tc.records {
				testTenant.fakeDNS.publish(domain + ". 60 IN " + strings.ReplaceAll(record, "%TOKEN%", strings.TrimPrefix(text, "MS=")))
			}
			answer := testTenant.callGraph("POST", "/domains/"+domain+"/verify", jsonObject{"forceTakeover": false})
			if tc.golden != "" {
				assertGolden(t, tc.golden, answer)
			} else if answer.status != http.StatusOK {
				t.Errorf("the answer is %d %s, want 200", answer.status, answer.raw)
			}
		})
	}
}

func TestVerifyRefusesVerifiedDomain(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.addMailDomain(domain)
	assertGolden(t, "graph-already-verified", testTenant.callGraph("POST", "/domains/"+domain+"/verify", nil))
	assertGolden(t, "graph-not-found", testTenant.callGraph("POST", "/domains/other.example/verify", nil))
}

// TestVerifyRefusesDomainOfAnotherTenant checks that a second tenant can add a domain that another
// tenant has verified, but cannot verify the domain, with or without its own record.
func TestVerifyRefusesDomainOfAnotherTenant(t *testing.T) {
	sim := startSimulator(t)
	ownerTenant, secondTenant := sim.newConnectedTenant(), sim.newConnectedTenant()
	ownerTenant.addMailDomain(domain)
	if answer := secondTenant.callGraph("POST", "/domains", jsonObject{"id": domain}); answer.status != http.StatusCreated {
		t.Fatalf("the answer is %d %s, want 201", answer.status, answer.raw)
	}
	assertGolden(t, "graph-verified-elsewhere", secondTenant.callGraph("POST", "/domains/"+domain+"/verify", nil))
	secondTenant.publishVerificationRecord(domain)
	assertGolden(t, "graph-verified-elsewhere", secondTenant.callGraph("POST", "/domains/"+domain+"/verify", nil))
}

func TestMissingRecordIsCached(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.setBehaviour(jsonObject{"dns_negative_ms": 3_600_000})
	testTenant.callGraph("POST", "/domains", jsonObject{"id": domain})
	assertGolden(t, "graph-verification-failed", testTenant.callGraph("POST", "/domains/"+domain+"/verify", nil))
	testTenant.publishVerificationRecord(domain)
	assertGolden(t, "graph-verification-failed", testTenant.callGraph("POST", "/domains/"+domain+"/verify", nil))
	testTenant.control("POST", "/clock", jsonObject{"advance": "61m"})
	if answer := testTenant.callGraph("POST", "/domains/"+domain+"/verify", nil); answer.status != http.StatusOK {
		t.Errorf("after the cache has expired the answer is %d %s, want 200", answer.status, answer.raw)
	}
}
