// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"testing"
)

func TestGraphAuthentication(t *testing.T) {
	token := func(tn *tenant) http.Header { return bearer(tn.token(graphScope)) }
	for _, tt := range []struct {
		name   string
		header func(*tenant) http.Header
		after  func(*tenant)
		golden string
	}{
		{"no token", func(*tenant) http.Header { return http.Header{} }, nil, "graph-no-token"},
		{"a token of nobody", func(*tenant) http.Header { return bearer("a.b.c") }, nil, "graph-no-token"},
		{"a token for Exchange", func(tn *tenant) http.Header { return bearer(tn.token(exchangeScope)) }, nil, "graph-wrong-audience"},
		{"expired", token, func(tn *tenant) { tn.control("POST", "/clock", m{"advance": "61m"}) }, "graph-expired"},
		{"consent revoked, token still alive", token, func(tn *tenant) { tn.revoke("consent") }, "graph-identity-not-found"},
		{"permission withdrawn, token still alive", token, withdraw("Organization.Read.All"), "graph-denied"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := start(t).connected()
			header := tt.header(tn)
			if tt.after != nil {
				tt.after(tn)
			}
			a := tn.graphWith(header, "GET", "/organization", nil)
			golden(t, tt.golden, a)
			if (a.header.Get("WWW-Authenticate") != "") != (a.status == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate: %q", a.header.Get("WWW-Authenticate"))
			}
		})
	}
}

func withdraw(role string) func(*tenant) {
	return func(tn *tenant) {
		tn.control("POST", "/tenants/"+tn.id+"/revoke", m{"what": "app_role", "role": role})
	}
}

// TestPermissionWithdrawn: the token is still issued, the API refuses.
func TestPermissionWithdrawn(t *testing.T) {
	tn := start(t).connected()
	withdraw("Domain.ReadWrite.All")(tn)
	golden(t, "graph-denied", tn.graph("GET", "/domains", nil))
}

func TestTokenLifetime(t *testing.T) {
	tn := start(t).connected()
	tn.behave(m{"token_seconds": 5})
	graphToken, exchangeToken := bearer(tn.token(graphScope)), bearer(tn.token(exchangeScope))
	tn.control("POST", "/clock", m{"advance": "6s"})
	golden(t, "graph-expired", tn.graphWith(graphToken, "GET", "/organization", nil))
	if a := tn.exchangeWith(exchangeToken, "", "Get-OrganizationConfig", m{}); a.status != http.StatusUnauthorized {
		t.Errorf("Exchange: %d", a.status)
	}
}

func TestGraphHeaders(t *testing.T) {
	tn := start(t).connected()
	header := bearer(tn.token(graphScope))
	header.Set("client-request-id", "5d1b6a1e-3333-49f1-8a54-abcdef012345")
	a := tn.graphWith(header, "GET", "/domains/nope.example", nil)
	golden(t, "graph-not-found", a)
	for _, name := range []string{"request-id", "x-ms-ags-diagnostic", "Date", "x-ms-resource-unit"} {
		if a.header.Get(name) == "" {
			t.Errorf("no header %s", name)
		}
	}
	if a.header.Get("client-request-id") != header.Get("client-request-id") ||
		a.at("error", "innerError", "client-request-id") != header.Get("client-request-id") {
		t.Errorf("client-request-id is not echoed: %v %s", a.header, a.raw)
	}
}

func TestGraphPlannedFailures(t *testing.T) {
	for status, name := range map[int]string{400: "graph-invalid-values", 401: "graph-expired", 403: "graph-denied",
		404: "graph-not-found", 409: "graph-conflict-409", 500: "graph-internal", 502: "graph-bad-gateway",
		422: "graph-unprocessable", 503: "graph-unavailable", 504: "graph-unknown"} {
		t.Run(name, func(t *testing.T) {
			tn := start(t).connected()
			tn.fault(m{"kind": "status", "status": status, "times": 1, "match": "GET /v1.0/organization"})
			golden(t, name, tn.graph("GET", "/organization", nil))
		})
	}
}

func TestGraphThrottled(t *testing.T) {
	tn := start(t).connected()
	for _, retryAfter := range []int{10, 0} {
		tn.fault(m{"kind": "status", "status": 429, "retry_after": retryAfter, "times": 1, "match": "GET /graph"})
		a := tn.graph("GET", "/organization", nil)
		golden(t, "graph-throttled", a)
		if got := a.header.Get("Retry-After"); got != map[int]string{10: "10", 0: ""}[retryAfter] {
			t.Errorf("Retry-After: %q", got)
		}
		scope := "Tenant_Application/Read/" + tn.ready.Settings["client_id"] + "/" + tn.id
		if a.header.Get("x-ms-throttle-scope") != scope || a.header.Get("x-ms-throttle-information") == "" {
			t.Errorf("%v", a.header)
		}
	}
}

func TestUnknownSegment(t *testing.T) {
	tn := start(t).connected()
	if a := tn.graph("GET", "/nothing", nil); a.status != http.StatusBadRequest || a.at("error", "code") != "BadRequest" {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

func TestOrganization(t *testing.T) {
	tn := start(t).connected(m{"name": "Fabrikam Outreach"})
	tn.addDomain("fabrikam-mail.example")
	tn.graph("POST", "/domains", m{"id": "unverified.example"})
	a := tn.graph("GET", "/organization", nil)
	domains := a.at("value", 0, "verifiedDomains").([]any)
	if len(a.rows()) != 1 || a.at("value", 0, "id") != tn.id || a.at("value", 0, "displayName") != "Fabrikam Outreach" || len(domains) != 2 {
		t.Fatalf("%s", a.raw)
	}
	initial, custom := domains[0].(m), domains[1].(m)
	if initial["name"] != tn.initial() || initial["isInitial"] != true || initial["isDefault"] != true || custom["isDefault"] != false {
		t.Errorf("%s", a.raw)
	}
	tn.graph("PATCH", "/domains/fabrikam-mail.example", m{"isDefault": true})
	a = tn.graph("GET", "/organization?$select=verifiedDomains", nil)
	if a.at("value", 0, "verifiedDomains", 0, "isDefault") != false || a.at("value", 0, "verifiedDomains", 1, "isDefault") != true {
		t.Errorf("%s", a.raw)
	}
	if a.at("value", 0, "displayName") != nil {
		t.Errorf("$select keeps everything: %s", a.raw)
	}
}

func TestRoleAssignments(t *testing.T) {
	tn := start(t).newTenant()
	tn.consent()
	a := tn.assignExchange()
	if a.status != http.StatusCreated || a.at("roleDefinitionId") != exchangeAdministrator || a.at("directoryScopeId") != "/" {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	golden(t, "graph-conflict", tn.assignExchange())
	rows := tn.graph("GET", "/roleManagement/directory/roleAssignments?$filter=principalId eq '"+tn.principal()+"'", nil).rows()
	if len(rows) != 1 {
		t.Errorf("%v", rows)
	}
	golden(t, "graph-unsupported-query", tn.graph("GET", "/roleManagement/directory/roleAssignments?$filter=startswith(who,'x')", nil))
	golden(t, "graph-unsupported-query", tn.graph("GET", "/roleManagement/directory/roleAssignments?$filter=principalId gt 3", nil))
	for name, change := range map[string]m{
		"unknown role":      {"roleDefinitionId": "11111111-2222-4333-8444-555555555555"},
		"another scope":     {"directoryScopeId": "/administrativeUnits/1"},
		"another property":  {"appScopeId": "/"},
		"unknown principal": {"principalId": "11111111-2222-4333-8444-555555555555"},
	} {
		body := m{"roleDefinitionId": globalAdministrator, "principalId": tn.principal(), "directoryScopeId": "/"}
		for k, v := range change {
			body[k] = v
		}
		if a := tn.graph("POST", "/roleManagement/directory/roleAssignments", body); a.status != 400 && a.status != 404 {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	tn.revoke("app_role")
	withdraw("RoleManagement.ReadWrite.Directory")(tn)
	golden(t, "graph-denied", tn.assignExchange())
}

// TestServicePrincipals needs a permission that the product does not ask for,
// and is refused without it.
func TestServicePrincipals(t *testing.T) {
	s := start(t)
	tn := s.newTenant()
	tn.consent()
	byApp := "/servicePrincipals(appId='" + s.ready.Settings["client_id"] + "')"
	golden(t, "graph-denied", tn.graph("GET", byApp, nil))
	s.control("POST", "/app", m{"permissions": []string{"Application.Read.All", "RoleManagement.ReadWrite.Directory"}})
	tn.consent()
	a := tn.graph("GET", byApp+"?$select=id,appId", nil)
	if a.at("id") != tn.principal() || a.at("appId") != s.ready.Settings["client_id"] || a.at("displayName") != nil {
		t.Errorf("%s", a.raw)
	}
	golden(t, "graph-not-found", tn.graph("GET", "/servicePrincipals(appId='11111111-2222-4333-8444-555555555555')", nil))
	for _, path := range []string{byApp + "/appRoleAssignments", "/servicePrincipals/" + tn.principal() + "/appRoleAssignments"} {
		a := tn.graph("GET", path, nil)
		if len(a.rows()) != 2 || a.at("value", 1, "appRoleId") != "9e3f62cf-ca93-4989-b6ce-bf83c28f9fe8" {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	filter := "/servicePrincipals?$filter=appId eq '" + s.ready.Settings["client_id"] + "'"
	if a := tn.graph("GET", filter, nil); len(a.rows()) != 1 {
		t.Errorf("%s", a.raw)
	}
	if a := tn.graph("GET", "/servicePrincipals/"+tn.principal(), nil); a.at("id") != tn.principal() {
		t.Errorf("%s", a.raw)
	}
}

func TestSecurityDefaults(t *testing.T) {
	tn := start(t).connected()
	for _, on := range []bool{false, true} {
		tn.behave(m{"security_defaults": on})
		if a := tn.graph("GET", "/policies/identitySecurityDefaultsEnforcementPolicy", nil); a.at("isEnabled") != on {
			t.Errorf("%v: %s", on, a.raw)
		}
	}
}
