// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
)

func TestGraphRefusesInvalidTokens(t *testing.T) {
	graphHeader := func(testTenant *tenant) http.Header { return bearer(testTenant.token(graphScope)) }
	for _, tc := range []struct {
		name   string
		header func(*tenant) http.Header
		change func(*tenant) // what happens after the header was made
		golden string
	}{
		{"no token", func(*tenant) http.Header { return http.Header{} }, nil, "graph-no-token"},
		{"malformed token", func(*tenant) http.Header { return bearer("a.b.c") }, nil, "graph-no-token"},
		{"token for Exchange", func(testTenant *tenant) http.Header { return bearer(testTenant.token(exchangeScope)) }, nil, "graph-wrong-audience"},
		{"expired", graphHeader, func(testTenant *tenant) { testTenant.control("POST", "/clock", jsonObject{"advance": "61m"}) }, "graph-expired"},
		{"consent revoked, token still alive", graphHeader, func(testTenant *tenant) { testTenant.revoke("consent") }, "graph-identity-not-found"},
		{"permission withdrawn, token still alive", graphHeader, withdrawAppRole("Organization.Read.All"), "graph-denied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			header := tc.header(testTenant)
			if tc.change != nil {
				tc.change(testTenant)
			}
			answer := testTenant.callGraphWith(header, "GET", "/organization", nil)
			assertGolden(t, tc.golden, answer)
			if (answer.header.Get("WWW-Authenticate") != "") != (answer.status == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate of the status %d is %q, want a value only with 401", answer.status, answer.header.Get("WWW-Authenticate"))
			}
		})
	}
}

// TestGraphRefusesWithdrawnPermission checks that a token is still issued after a permission was
// withdrawn, and that Graph refuses the call with this token.
func TestGraphRefusesWithdrawnPermission(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	withdrawAppRole("Domain.ReadWrite.All")(testTenant)
	assertGolden(t, "graph-denied", testTenant.callGraph("GET", "/domains", nil))
}

func TestExpiredTokensAreRefused(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.setBehaviour(jsonObject{"token_seconds": 5})
	graphToken, exchangeToken := bearer(testTenant.token(graphScope)), bearer(testTenant.token(exchangeScope))
	testTenant.control("POST", "/clock", jsonObject{"advance": "6s"})
	assertGolden(t, "graph-expired", testTenant.callGraphWith(graphToken, "GET", "/organization", nil))
	if answer := testTenant.runCmdletWith(exchangeToken, "", "Get-OrganizationConfig", jsonObject{}); answer.status != http.StatusUnauthorized {
		t.Errorf("Exchange answers %d, want 401", answer.status)
	}
}

func TestGraphAnswerHasHeaders(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	header := bearer(testTenant.token(graphScope))
	header.Set("client-request-id", "5d1b6a1e-3333-49f1-8a54-abcdef012345")
	answer := testTenant.callGraphWith(header, "GET", "/domains/nope.example", nil)
	assertGolden(t, "graph-not-found", answer)
	for _, name := range []string{"request-id", "x-ms-ags-diagnostic", "Date", "x-ms-resource-unit"} {
		if answer.header.Get(name) == "" {
			t.Errorf("the answer has no header %s", name)
		}
	}
	if answer.header.Get("client-request-id") != header.Get("client-request-id") ||
		answer.valueAt("error", "innerError", "client-request-id") != header.Get("client-request-id") {
		t.Errorf("the header %v and the body %s do not both have the client-request-id of the request", answer.header, answer.raw)
	}
}

func TestGraphAnswersPlannedFaults(t *testing.T) {
	for status, name := range map[int]string{400: "graph-invalid-values", 401: "graph-expired", 403: "graph-denied",
		404: "graph-not-found", 409: "graph-conflict-409", 500: "graph-internal", 502: "graph-bad-gateway",
		422: "graph-unprocessable", 503: "graph-unavailable", 504: "graph-unknown"} {
		t.Run(name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			testTenant.planFault(jsonObject{"kind": "status", "status": status, "times": 1, "match": "GET /v1.0/organization"})
			assertGolden(t, name, testTenant.callGraph("GET", "/organization", nil))
		})
	}
}

func TestGraphThrottlingHasHeaders(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	for _, retryAfter := range []int{10, 0} {
		testTenant.planFault(jsonObject{"kind": "status", "status": 429, "retry_after": retryAfter, "times": 1, "match": "GET /graph"})
		answer := testTenant.callGraph("GET", "/organization", nil)
		assertGolden(t, "graph-throttled", answer)
		if got := answer.header.Get("Retry-After"); got != map[int]string{10: "10", 0: ""}[retryAfter] {
			t.Errorf("Retry-After is %q, want the planned %d s, or none for 0", got, retryAfter)
		}
		wantScope := "Tenant_Application/Read/" + testTenant.ready.Settings["client_id"] + "/" + testTenant.id
		if answer.header.Get("x-ms-throttle-scope") != wantScope || answer.header.Get("x-ms-throttle-information") == "" {
			t.Errorf("the headers are %v, want x-ms-throttle-scope %s and x-ms-throttle-information", answer.header, wantScope)
		}
	}
}

func TestGraphRefusesUnknownPath(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	if answer := testTenant.callGraph("GET", "/nothing", nil); answer.status != http.StatusBadRequest || answer.valueAt("error", "code") != "BadRequest" {
		t.Errorf("an unknown path answers %d %s, want 400 BadRequest", answer.status, answer.raw)
	}
}

func TestOrganizationListsVerifiedDomains(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant(jsonObject{"name": "Fabrikam Outreach"})
	testTenant.addMailDomain("fabrikam-mail.example")
	testTenant.callGraph("POST", "/domains", jsonObject{"id": "unverified.example"})
	answer := testTenant.callGraph("GET", "/organization", nil)
	domains := answer.valueAt("value", 0, "verifiedDomains").([]any)
	if len(answer.rows()) != 1 || answer.valueAt("value", 0, "id") != testTenant.id || answer.valueAt("value", 0, "displayName") != "Fabrikam Outreach" || len(domains) != 2 {
		t.Fatalf("the organization is %s, want its id and name and two verified domains", answer.raw)
	}
	initial, custom := domains[0].(jsonObject), domains[1].(jsonObject)
	if initial["name"] != testTenant.initialDomain() || initial["isInitial"] != true || initial["isDefault"] != true || custom["isDefault"] != false {
		t.Errorf("the organization is %s, want the initial domain first and as the default", answer.raw)
	}
	testTenant.callGraph("PATCH", "/domains/fabrikam-mail.example", jsonObject{"isDefault": true})
	answer = testTenant.callGraph("GET", "/organization?$select=verifiedDomains", nil)
	if answer.valueAt("value", 0, "verifiedDomains", 0, "isDefault") != false || answer.valueAt("value", 0, "verifiedDomains", 1, "isDefault") != true {
		t.Errorf("the organization is %s, want the custom domain as the default", answer.raw)
	}
	if answer.valueAt("value", 0, "displayName") != nil {
		t.Errorf("$select=verifiedDomains: %s, want no displayName", answer.raw)
	}
}

// TestRoleAssignmentTwiceIsConflict assigns the same role twice. It also checks that unsupported
// filters, invalid assignments and an assignment without the permission are refused.
func TestRoleAssignmentTwiceIsConflict(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	testTenant.consent()
	answer := testTenant.assignExchange()
	if answer.status != http.StatusCreated || answer.valueAt("roleDefinitionId") != exchangeAdministrator || answer.valueAt("directoryScopeId") != "/" {
		t.Fatalf("the new role assignment is %d %s, want 201 with the role and the scope /", answer.status, answer.raw)
	}
	assertGolden(t, "graph-conflict", testTenant.assignExchange())
	rows := testTenant.callGraph("GET", "/roleManagement/directory/roleAssignments?$filter=principalId eq '"+testTenant.principal()+"'", nil).rows()
	if len(rows) != 1 {
		t.Errorf("the role assignments are %v, want one", rows)
	}
	assertGolden(t, "graph-unsupported-query", testTenant.callGraph("GET", "/roleManagement/directory/roleAssignments?$filter=startswith(who,'x')", nil))
	assertGolden(t, "graph-unsupported-query", testTenant.callGraph("GET", "/roleManagement/directory/roleAssignments?$filter=principalId gt 3", nil))
	for name, change := range map[string]jsonObject{
		"unknown role":      {"roleDefinitionId": "11111111-2222-4333-8444-555555555555"},
		"unsupported scope": {"directoryScopeId": "/administrativeUnits/1"},
		"extra property":    {"appScopeId": "/"},
		"unknown principal": {"principalId": "11111111-2222-4333-8444-555555555555"},
	} {
		body := jsonObject{"roleDefinitionId": globalAdministrator, "principalId": testTenant.principal(), "directoryScopeId": "/"}
		maps.Copy(body, change)
		if answer := testTenant.callGraph("POST", "/roleManagement/directory/roleAssignments", body); answer.status != 400 && answer.status != 404 {
			t.Errorf("%s: %d %s, want 400 or 404", name, answer.status, answer.raw)
		}
	}
	testTenant.revoke("app_role")
	withdrawAppRole("RoleManagement.ReadWrite.Directory")(testTenant)
	assertGolden(t, "graph-denied", testTenant.assignExchange())
}

// TestServicePrincipalsNeedApplicationRead checks that reading service principals needs
// Application.Read.All, which is not among the default permissions of the application.
func TestServicePrincipalsNeedApplicationRead(t *testing.T) {
	sim := startSimulator(t)
	testTenant := sim.newTenant()
	testTenant.consent()
	// roleManagementReadWrite is the id of RoleManagement.ReadWrite.Directory.
	const roleManagementReadWrite = "9e3f62cf-ca93-4989-b6ce-bf83c28f9fe8"
	byApp := "/servicePrincipals(appId='" + sim.ready.Settings["client_id"] + "')"
	assertGolden(t, "graph-denied", testTenant.callGraph("GET", byApp, nil))
	sim.control("POST", "/app", jsonObject{"permissions": []string{"Application.Read.All", "RoleManagement.ReadWrite.Directory"}})
	testTenant.consent()
	answer := testTenant.callGraph("GET", byApp+"?$select=id,appId", nil)
	if answer.valueAt("id") != testTenant.principal() || answer.valueAt("appId") != sim.ready.Settings["client_id"] || answer.valueAt("displayName") != nil {
		t.Errorf("the service principal is %s, want only its id and appId", answer.raw)
	}
	assertGolden(t, "graph-not-found", testTenant.callGraph("GET", "/servicePrincipals(appId='11111111-2222-4333-8444-555555555555')", nil))
	for _, path := range []string{byApp + "/appRoleAssignments", "/servicePrincipals/" + testTenant.principal() + "/appRoleAssignments"} {
		answer := testTenant.callGraph("GET", path, nil)
		if len(answer.rows()) != 2 || answer.valueAt("value", 1, "appRoleId") != roleManagementReadWrite {
			t.Errorf("%s: %s, want two app roles, the second RoleManagement.ReadWrite.Directory", path, answer.raw)
		}
	}
	filter := "/servicePrincipals?$filter=appId eq '" + sim.ready.Settings["client_id"] + "'"
	if answer := testTenant.callGraph("GET", filter, nil); len(answer.rows()) != 1 {
		t.Errorf("the filter by appId finds %s, want one service principal", answer.raw)
	}
	if answer := testTenant.callGraph("GET", "/servicePrincipals/"+testTenant.principal(), nil); answer.valueAt("id") != testTenant.principal() {
		t.Errorf("the service principal is %s, want it by its id", answer.raw)
	}
}

func TestSecurityDefaultsFollowSetting(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	for _, enabled := range []bool{false, true} {
		testTenant.setBehaviour(jsonObject{"security_defaults": enabled})
		if answer := testTenant.callGraph("GET", "/policies/identitySecurityDefaultsEnforcementPolicy", nil); answer.valueAt("isEnabled") != enabled {
			t.Errorf("security defaults %v: %s, want the value that was set", enabled, answer.raw)
		}
	}
}

// licencesByProduct returns the number of licences in each subscription, keyed by skuPartNumber.
func (t *tenant) licencesByProduct() map[string]any {
	t.t.Helper()
	licences := map[string]any{}
	for _, row := range t.callGraph("GET", "/directory/subscriptions", nil).rows() {
		subscription := row.(jsonObject)
		licences[subscription["skuPartNumber"].(string)] = subscription["totalLicenses"]
	}
	return licences
}

func TestSubscriptionsFollowLicenseSetting(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	answer := testTenant.callGraph("GET", "/directory/subscriptions", nil)
	if answer.status != http.StatusOK || len(answer.rows()) != 2 {
		t.Fatalf("the subscriptions are %d %s, want two", answer.status, answer.raw)
	}
	freeProduct, boughtProduct := answer.rows()[0].(jsonObject), answer.rows()[1].(jsonObject)
	if freeProduct["skuPartNumber"] != "POWER_BI_STANDARD" || freeProduct["totalLicenses"] != 1000000.0 || freeProduct["isTrial"] != false {
		t.Errorf("the free product is %v, want 1000000 licences of POWER_BI_STANDARD", freeProduct)
	}
	plans, _ := boughtProduct["serviceStatus"].([]any)
	if boughtProduct["totalLicenses"] != 1.0 || boughtProduct["isTrial"] != false || boughtProduct["status"] != "Enabled" ||
		len(plans) == 0 || plans[0].(jsonObject)["servicePlanName"] != "EXCHANGE_S_STANDARD" {
		t.Errorf("the bought product is %v, want one licence with EXCHANGE_S_STANDARD", boughtProduct)
	}
	users := testTenant.callGraph("GET", "/users?$select=assignedLicenses&$filter=startswith(userPrincipalName,'admin@')", nil)
	if users.valueAt("value", 0, "assignedLicenses", 0, "skuId") != boughtProduct["skuId"] {
		t.Errorf("the licence of the administrator is %s, want one of the bought product", users.raw)
	}
	testTenant.setBehaviour(jsonObject{"licenses": jsonObject{"paid": 25, "trial": 5}})
	if got := testTenant.licencesByProduct(); len(got) != 3 || got["O365_BUSINESS_ESSENTIALS"] != 25.0 || got["ENTERPRISEPACK"] != 5.0 {
		t.Errorf("the licences are %v, want 25 paid and 5 trial licences", got)
	}
	testTenant.setBehaviour(jsonObject{"licenses": jsonObject{"paid": 0}}) // the number of trial licences stays unchanged
	if got := testTenant.licencesByProduct(); len(got) != 2 || got["ENTERPRISEPACK"] != 5.0 {
		t.Errorf("the licences are %v, want no paid and 5 trial licences", got)
	}
	if answer := testTenant.do("POST", testTenant.ready.URL+"/_control/tenants/"+testTenant.id+"/behaviour", nil, `{"licenses": {"paid": -1}}`); answer.status != http.StatusBadRequest {
		t.Errorf("a negative number of licences: %d %s, want 400", answer.status, answer.raw)
	}
}

func TestSubscriptionsAreInPages(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.setBehaviour(jsonObject{"page_size": 1, "licenses": jsonObject{"paid": 25, "trial": 5}})
	var licenceCounts []any
	for next := "/directory/subscriptions"; next != ""; {
		answer := testTenant.callGraph("GET", next, nil)
		if len(answer.rows()) != 1 || len(licenceCounts) > 3 {
			t.Fatalf("a page of subscriptions is %s, want one row on each of three pages", answer.raw)
		}
		licenceCounts = append(licenceCounts, answer.valueAt("value", 0, "totalLicenses"))
		link, _ := answer.valueAt("@odata.nextLink").(string)
		next = strings.TrimPrefix(link, testTenant.ready.Settings["graph_url"]+"/v1.0")
	}
	if len(licenceCounts) != 3 || licenceCounts[1] != 25.0 || licenceCounts[2] != 5.0 {
		t.Errorf("the numbers of licences are %v, want three, with 25 and 5", licenceCounts)
	}
	testTenant.setBehaviour(jsonObject{"page_size": 1000})
	if answer := testTenant.callGraph("GET", "/directory/subscriptions?$select=status", nil); answer.valueAt("value", 0, "status") != "Enabled" || answer.valueAt("value", 0, "id") != nil {
		t.Errorf("$select=status: %s, want the status and no id", answer.raw)
	}
	assertGolden(t, "graph-unsupported-query", testTenant.callGraph("GET", "/directory/subscriptions?$top=1", nil))
}

// TestSubscriptionsNeedOrganizationRead checks the answer during a planned fault (simulate.Fault),
// and the refusal without the permission Organization.Read.All.
func TestSubscriptionsNeedOrganizationRead(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.planFault(jsonObject{"operation": "directory.list-subscriptions", "kind": "status", "status": 503, "times": 1})
	assertGolden(t, "graph-unavailable", testTenant.callGraph("GET", "/directory/subscriptions", nil))
	withdrawAppRole("Organization.Read.All")(testTenant)
	assertGolden(t, "graph-denied", testTenant.callGraph("GET", "/directory/subscriptions", nil))
}
