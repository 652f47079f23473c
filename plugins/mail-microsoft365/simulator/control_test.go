// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

func TestControlCreatesAndListsTenants(t *testing.T) {
	sim := startSimulator(t)
	created := sim.control("POST", "/tenants", jsonObject{"name": "Fabrikam Outreach"})
	id, admin := created.valueAt("tenant_id").(string), created.valueAt("admin").(string)
	if len(created.body) != 2 || !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(id) ||
		!regexp.MustCompile(`^admin@fabrikamoutreach\d+\.onmicrosoft\.com$`).MatchString(admin) {
		t.Errorf("the new tenant is %s, want only a tenant_id and an admin", created.raw)
	}
	sim.control("POST", "/tenants", jsonObject{})
	var list []jsonObject
	if err := json.Unmarshal(sim.control("GET", "/tenants", nil).raw, &list); err != nil || len(list) != 2 {
		t.Fatalf("the list of tenants is %v, %v, want two tenants", list, err)
	}
	if diff := cmp.Diff(jsonObject{"tenant_id": id, "admin": admin, "name": "Fabrikam Outreach", "consent": "none"}, list[0]); diff != "" {
		t.Errorf("the first tenant (-want +got):\n%s", diff)
	}
}

// TestControlShowsTenantState compares the whole answer with the format that the sandbox expects.
func TestControlShowsTenantState(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	showTenant := func() jsonObject { return testTenant.control("GET", "/tenants/"+testTenant.id, nil).body }
	initialState := jsonObject{"domains": []any{}, "mailboxes": []any{}, "rules": []any{}, "consent": "none"}
	if diff := cmp.Diff(initialState, showTenant()); diff != "" {
		t.Errorf("the state of a new tenant (-want +got):\n%s", diff)
	}
	testTenant.consent()
	testTenant.assignExchange()
	testTenant.addMailDomain(domain)
	testTenant.newMailbox("a@"+domain, "a.d")
	completeState := jsonObject{"consent": "granted", "rules": []any{},
		"domains":   []any{jsonObject{"name": domain, "verified": true, "default": false, "dkim_enabled": false}},
		"mailboxes": []any{jsonObject{"address": "a@" + domain, "enabled": false, "password_set": false}}}
	if diff := cmp.Diff(completeState, showTenant()); diff != "" {
		t.Errorf("the state of the tenant (-want +got):\n%s", diff)
	}
	testTenant.revoke("consent")
	if showTenant()["consent"] != "revoked" {
		t.Errorf("after the revocation the tenant is %v, want the consent revoked", showTenant())
	}
}

func TestControlRefusesInvalidRequests(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	tenantPath := "/tenants/" + testTenant.id
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"unknown tenant", "GET", "/tenants/11111111-2222-4333-8444-555555555555", "", 404},
		{"domain instead of tenant id", "GET", "/tenants/" + testTenant.initialDomain(), "", 404},
		{"unknown tenant's behaviour", "POST", "/tenants/x/behaviour", "{}", 404},
		{"unknown call", "GET", "/weather", "", 404},
		{"invalid JSON", "POST", tenantPath + "/behaviour", `{`, 400},
		{"unknown revocation", "POST", tenantPath + "/revoke", `{"what":"everything"}`, 400},
		{"unknown app role", "POST", tenantPath + "/revoke", `{"what":"app_role","role":"Coffee.Make.All"}`, 400},
		{"unknown bootstrap", "POST", "/tenants", `{"bootstrap":"maybe"}`, 400},
		{"unknown SMTP AUTH", "POST", "/tenants", `{"smtp_auth":"maybe"}`, 400},
		{"unknown member", "POST", "/tenants", `{"colour":"blue"}`, 400},
		{"invalid certificate", "POST", "/app", `{"certificate":"x"}`, 400},
		{"unknown permission", "POST", "/app", `{"permissions":["Coffee.Make.All"]}`, 400},
		{"unknown mailbox", "POST", "/messages", `{"mailbox":"a@b.example","count":1}`, 404},
		{"removed mailbox does not exist", "DELETE", tenantPath + "/mailboxes/a@b.example", "", 404},
		{"mailbox of an unknown tenant", "DELETE", "/tenants/x/mailboxes/a@b.example", "", 404},
		{"restricted sender", "POST", tenantPath + "/restrict", `{"mailbox":"a@b.example","restricted":true}`, 501},
		{"recipient limit", "POST", tenantPath + "/recipient-limit", `{"limit":10,"used":0}`, 501},
		{"changed tenant", "PATCH", tenantPath, `{"security_defaults":true}`, 501},
		{"changed mailbox", "PATCH", tenantPath + "/mailboxes/a@b.example", `{"account_enabled":false}`, 501},
		{"changed domain", "PATCH", tenantPath + "/domains/b.example", `{"accepted":false}`, 501},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := testTenant.do(tc.method, testTenant.ready.URL+"/_control"+tc.path, nil, tc.body)
			if text, _ := answer.valueAt("error").(string); answer.status != tc.status || text == "" {
				t.Errorf("the answer is %d %s, want %d and an error text", answer.status, answer.raw, tc.status)
			}
		})
	}
}

// TestInvalidBehaviourIsRefused checks that the error of an invalid setting names the setting.
func TestInvalidBehaviourIsRefused(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	for name, value := range map[string]string{
		"consent_seconds": "1", "consent_ms": "-1", "cas_ms": "-5", "alias_taken": `"yes"`, "early_records": `"maybe"`, "token_seconds": "0",
		"next_link": `"x"`, "elsewhere_at": `"x"`, "domain_conflict": "500", "trace_page": "1", "trace_throttled": "503",
		"mx_style": `{"a.example":"new"}`, "dkim_style": `{"a.example":"mx.microsoft"}`, "dkim_letter": `"nn"`,
	} {
		answer := testTenant.do("POST", testTenant.ready.URL+"/_control/tenants/"+testTenant.id+"/behaviour", nil, `{"`+name+`":`+value+`}`)
		if text, _ := answer.valueAt("error").(string); answer.status != http.StatusBadRequest || !strings.Contains(text, name) {
			t.Errorf("%s: the answer is %d %s, want 400 and a text that names the setting", name, answer.status, answer.raw)
		}
	}
}

// TestAdministratorRemovesAMailbox checks the control call that simulates an administrator who
// deletes a mailbox: the mailbox and its account no longer exist.
func TestAdministratorRemovesAMailbox(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	address := "anna@" + domain
	if answer := testTenant.do("DELETE", testTenant.ready.URL+"/_control/tenants/"+testTenant.id+"/mailboxes/"+strings.ToUpper(address), nil, ""); answer.status != 200 || strings.TrimSpace(string(answer.raw)) != "{}" {
		t.Fatalf("the removal answers %d %s, want 200 {}", answer.status, answer.raw)
	}
	exchangeToken, graphToken := bearer(testTenant.token(exchangeScope)), bearer(testTenant.token(graphScope))
	if answer := testTenant.runCmdletWith(exchangeToken, "", "Get-Mailbox", jsonObject{"Identity": address}); answer.status == 200 {
		t.Errorf("Get-Mailbox of the removed mailbox answers %s, want an error", answer.raw)
	}
	if answer := testTenant.callGraphWith(graphToken, "GET", "/users/"+address, nil); answer.status != 404 {
		t.Errorf("the account of the removed mailbox: %d %s, want 404", answer.status, answer.raw)
	}
}

func TestChangedDelayAppliesToLaterChanges(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	testTenant.setBehaviour(jsonObject{"consent_ms": 3_600_000})
	testTenant.consent()
	testTenant.setBehaviour(jsonObject{"consent_ms": 0})
	assertGolden(t, "aadsts-700016", testTenant.clientCredentials(testTenant.id, graphScope))
}

// TestJournalNamesOperations checks the operation and the write flag of each call in the journal.
func TestJournalNamesOperations(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.control("DELETE", "/calls", nil)
	graphToken, exchangeToken := bearer(testTenant.token(graphScope)), bearer(testTenant.token(exchangeScope))
	testTenant.callGraphWith(graphToken, "POST", "/domains", jsonObject{"id": "x.example"})
	testTenant.callGraphWith(graphToken, "GET", "/domains/x.example/verificationDnsRecords", nil)
	testTenant.callGraphWith(graphToken, "POST", "/domains/x.example/verify", nil)
	testTenant.callGraphWith(graphToken, "PATCH", "/users/"+testTenant.admin, jsonObject{"displayName": "Ada"})
	testTenant.callGraphWith(graphToken, "GET", "/roleManagement/directory/roleAssignments", nil)
	testTenant.runCmdletWith(exchangeToken, "", "Get-Mailbox", jsonObject{"Identity": "nobody"})
	testTenant.runCmdletWith(exchangeToken, "", "Set-Mailbox", jsonObject{"Identity": "anna@" + domain, "DisplayName": "New"})
	var calls []simulate.Entry
	if err := json.Unmarshal(testTenant.control("GET", "/calls", nil).raw, &calls); err != nil {
		t.Fatal(err)
	}
	token := simulate.Entry{Method: "POST", Path: "/login/" + testTenant.id + "/oauth2/v2.0/token", Operation: "token", Status: 200}
	invoke := "/exchange/adminapi/beta/" + testTenant.id + "/InvokeCommand"
	want := []simulate.Entry{token, token,
		{Method: "POST", Path: "/graph/v1.0/domains", Operation: "domain.create", Status: 201, Write: true},
		{Method: "GET", Path: "/graph/v1.0/domains/x.example/verificationDnsRecords", Operation: "domain.list-verificationDnsRecords", Status: 200},
		{Method: "POST", Path: "/graph/v1.0/domains/x.example/verify", Operation: "domain.verify", Status: 400, Write: true},
		{Method: "PATCH", Path: "/graph/v1.0/users/" + testTenant.admin, Operation: "user.update", Status: 204, Write: true},
		{Method: "GET", Path: "/graph/v1.0/roleManagement/directory/roleAssignments", Operation: "get-roleAssignments", Status: 200},
		{Method: "POST", Path: invoke, Operation: "Get-Mailbox", Status: 400},
		{Method: "POST", Path: invoke, Operation: "Set-Mailbox", Status: 200, Write: true},
	}
	if diff := cmp.Diff(want, calls, cmpopts.IgnoreFields(simulate.Entry{}, "At", "Violation")); diff != "" {
		t.Errorf("the journal (-want +got):\n%s", diff)
	}
}

func TestJournalAndGraphOmitPasswords(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.callGraph("PATCH", "/users/"+testTenant.admin, enableWithPassword)
	raw := string(testTenant.control("GET", "/calls", nil).raw)
	if strings.Contains(raw, "Correct-Horse-7") {
		t.Error("the journal contains the password, want it omitted")
	}
	if answer := testTenant.callGraph("GET", "/users/"+testTenant.admin, nil); answer.status != http.StatusOK || strings.Contains(string(answer.raw), "Correct-Horse-7") {
		t.Errorf("the user is %d %s, want 200 without the password", answer.status, answer.raw)
	}
}

func TestReadyDescribesSimulator(t *testing.T) {
	sim := startSimulator(t)
	if sim.ready.Provider != "microsoft365" || sim.ready.Settings["client_id"] == "" || sim.ready.Secrets["client_secret"] == "" {
		t.Errorf("Ready is %+v, want the provider microsoft365, a client_id and a client_secret", sim.ready)
	}
	for name, path := range map[string]string{"login_url": "/login", "graph_url": "/graph", "exchange_url": "/exchange"} {
		if sim.ready.Settings[name] != sim.ready.URL+path {
			t.Errorf("%s is %s, want %s", name, sim.ready.Settings[name], sim.ready.URL+path)
		}
	}
	if diff := cmp.Diff([]string{"tenants", "messages"}, sim.ready.Control); diff != "" {
		t.Errorf("the control calls (-want +got):\n%s", diff)
	}
	if answer := sim.do("GET", sim.ready.URL+"/elsewhere", nil, ""); answer.status != http.StatusNotFound {
		t.Errorf("a path of no simulated host answers %d, want 404", answer.status)
	}
}

// TestIgnoredRetryAfterIsRecorded checks, for each throttle scope, which of two tenants must wait
// after one of them received a Retry-After.
func TestIgnoredRetryAfterIsRecorded(t *testing.T) {
	for _, tc := range []struct {
		scope, wantHeader string   // wantHeader is a prefix of the header x-ms-throttle-scope
		want              []string // the violations by the read of the other tenant, and of the tenant that got the Retry-After
	}{
		{"", "Tenant_Application/Read/", []string{"", simulate.IgnoredRetryAfter}},
		{"Tenant", "Tenant/Read/", []string{"", simulate.IgnoredRetryAfter}},
		{"Application", "Application/Read/", []string{simulate.IgnoredRetryAfter, simulate.IgnoredRetryAfter}},
	} {
		t.Run("throttle scope "+tc.scope, func(t *testing.T) {
			sim := startSimulator(t)
			throttled, unthrottled := sim.newConnectedTenant(), sim.newConnectedTenant()
			throttled.setBehaviour(jsonObject{"throttle_scope": tc.scope})
			readOrganization := func(testTenant *tenant) response {
				header := bearer(testTenant.token(graphScope))
				header.Set("User-Agent", "app/1.0")
				header.Set("client-request-id", "6f9619ff-8b86-d011-b42d-00cf4fc964ff")
				return testTenant.callGraphWith(header, "GET", "/organization", nil)
			}
			sim.planFault(jsonObject{"match": "GET /graph/v1.0/organization", "kind": "status", "status": 429, "retry_after": 3600, "times": 1})
			if scope := readOrganization(throttled).header.Get("x-ms-throttle-scope"); !strings.HasPrefix(scope, tc.wantHeader) {
				t.Errorf("the throttle scope is %q, want the prefix %q", scope, tc.wantHeader)
			}
			sim.control("POST", "/clock", jsonObject{"advance": "1m"})
			sim.control("DELETE", "/calls", nil)
			readOrganization(unthrottled)
			readOrganization(throttled)
			var calls []simulate.Entry
			if err := json.Unmarshal(sim.control("GET", "/calls", nil).raw, &calls); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, call := range calls {
				if call.Operation == "organization.list" {
					got = append(got, call.Violation)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Fatalf("the violations of the two reads are %v, want %v", got, tc.want)
			}
		})
	}
}
