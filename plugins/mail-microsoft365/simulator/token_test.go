// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
)

// fault plans a fault of the simulator.
func (s *sim) fault(f m) { s.t.Helper(); s.control("POST", "/faults", f) }

func TestTokenErrors(t *testing.T) {
	credentials := func(tn *tenant) answer { return tn.clientCredentials(tn.id, graphScope) }
	scoped := func(scope string) func(*tenant) answer {
		return func(tn *tenant) answer { return tn.clientCredentials(tn.id, scope) }
	}
	of := func(id string) func(*tenant) answer {
		return func(tn *tenant) answer { return tn.clientCredentials(id, graphScope) }
	}
	with := func(b m) func(*tenant) { return func(tn *tenant) { tn.consent(); tn.behave(b) } }
	consented := func(tn *tenant) { tn.consent() }
	planned := func(f m) func(*tenant) {
		return func(tn *tenant) { f["kind"], f["times"] = "status", 1; tn.fault(f) }
	}
	for _, tt := range []struct {
		name   string
		before func(*tenant)
		ask    func(*tenant) answer
		golden string
	}{
		{"scope malformed", consented, scoped("https://graph.microsoft.com/User.Read"), "aadsts-70011"},
		{"scope of an unknown resource", consented, scoped("https://vault.azure.net/.default"), "aadsts-70011"},
		{"two resources", consented, scoped(graphScope + " " + exchangeScope), "aadsts-70011"},
		{"user has not consented", nil, codeWithoutConsent, "aadsts-65001"},
		{"tenant not found", nil, of("11111111-2222-4333-8444-555555555555"), "aadsts-90002"},
		{"tenant named by an unknown domain", nil, of("nobody.example"), "aadsts-90002"},
		{"tenant identifier not valid", nil, of("no_tenant"), "aadsts-900023"},
		{"tenant deleted", with(m{"deleted": true}), credentials, "aadsts-5000224"},
		{"never consented", nil, credentials, "aadsts-700016"},
		{"consent revoked", func(tn *tenant) { tn.consent(); tn.revoke("consent") }, credentials, "aadsts-700016"},
		{"wrong secret", consented, secret("wrong"), "aadsts-7000215"},
		{"secret expired", consented, expiredSecret, "aadsts-7000222"},
		{"application disabled", with(m{"app_disabled": true}), credentials, "aadsts-7000112"},
		{"no Exchange Online in the tenant", with(m{"no_exchange": true}), scoped(exchangeScope), "aadsts-500011"},
		{"Conditional Access blocked", with(m{"conditional_access": true}), credentials, "aadsts-53003"},
		{"transient, with Retry-After", planned(m{"status": 503, "retry_after": 2}), credentials, "aadsts-90033"},
		{"transient", planned(m{"status": 503}), credentials, "aadsts-90013"},
		{"a client that loops", planned(m{"status": 400}), credentials, "aadsts-50196"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := start(t).newTenant()
			if tt.before != nil {
				tt.before(tn)
			}
			golden(t, tt.golden, tt.ask(tn))
		})
	}
}

func (t *tenant) revoke(what string) {
	t.t.Helper()
	t.control("POST", "/tenants/"+t.id+"/revoke", m{"what": what})
}

// codeWithoutConsent redeems a code after the consent behind it is gone.
func codeWithoutConsent(tn *tenant) answer {
	tn.consent()
	code := tn.code(tn.admin)
	tn.revoke("consent")
	return tn.redeem(code, nil)
}

func secret(value string) func(*tenant) answer {
	return func(tn *tenant) answer {
		return tn.askToken(tn.id, url.Values{"grant_type": {"client_credentials"}, "scope": {graphScope}, "client_secret": {value}})
	}
}

func expiredSecret(tn *tenant) answer {
	tn.control("POST", "/app", m{"expire_secret": true})
	return secret(tn.ready.Secrets["client_secret"])(tn)
}

func TestTokenThrottled(t *testing.T) {
	tn := start(t).newTenant()
	tn.fault(m{"kind": "status", "status": 429, "retry_after": 17, "times": 1, "operation": "token"})
	a := tn.clientCredentials(tn.id, graphScope)
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "17" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestConsentReplication(t *testing.T) {
	tn := start(t).newTenant()
	tn.behave(m{"consent_ms": 60_000})
	tn.consent()
	golden(t, "aadsts-700016", tn.clientCredentials(tn.id, graphScope))
	tn.control("POST", "/clock", m{"advance": "61s"})
	tn.token(graphScope)
}

func TestAppOnlyToken(t *testing.T) {
	tn := start(t).newTenant()
	tn.consent()
	a := tn.clientCredentials(tn.id, graphScope)
	if a.at("token_type") != "Bearer" || a.at("expires_in") != 3599.0 || a.at("ext_expires_in") != 3599.0 || a.at("refresh_token") != nil {
		t.Errorf("%s", a.raw)
	}
	claims := claimsOf(t, a.at("access_token").(string))
	expected := m{"aud": "https://graph.microsoft.com", "iss": "https://sts.windows.net/" + tn.id + "/",
		"appid": tn.ready.Settings["client_id"], "idtyp": "app", "tid": tn.id}
	for name, want := range expected {
		if claims[name] != want {
			t.Errorf("%s: %v, want %v", name, claims[name], want)
		}
	}
	roles, _ := claims["roles"].([]any)
	if !slices.Contains(roles, any("Domain.ReadWrite.All")) || slices.Contains(roles, any("Exchange.ManageAsApp")) {
		t.Errorf("roles of Graph: %v", roles)
	}
	if roles, _ := claimsOf(t, tn.token(exchangeScope))["roles"].([]any); len(roles) != 1 || roles[0] != "Exchange.ManageAsApp" {
		t.Errorf("roles of Exchange: %v", roles)
	}
}

// TestTokenWithoutRoles: a token is issued although no app role was granted,
// and has no roles claim then.
func TestTokenWithoutRoles(t *testing.T) {
	tn := start(t).newTenant()
	tn.consent()
	tn.revoke("app_role")
	if roles, has := claimsOf(t, tn.token(exchangeScope))["roles"]; has {
		t.Errorf("roles: %v", roles)
	}
}

// TestRolesAtIssue: a directory role is in tokens that are issued after it has
// spread, never in older ones.
func TestRolesAtIssue(t *testing.T) {
	tn := start(t).newTenant()
	tn.consent()
	tn.behave(m{"role_ms": 10_000})
	tn.assignExchange()
	holds := func() bool {
		wids, _ := claimsOf(t, tn.token(exchangeScope))["wids"].([]any)
		return slices.Contains(wids, any(exchangeAdministrator))
	}
	if holds() {
		t.Error("the role is in a token before it has spread")
	}
	early := tn.token(exchangeScope)
	tn.control("POST", "/clock", m{"advance": "11s"})
	if !holds() {
		t.Error("the role is not in a new token")
	}
	if a := tn.exchangeWith(bearer(early), "", "Get-OrganizationConfig", m{}); a.status != http.StatusForbidden {
		t.Errorf("the old token: %d", a.status)
	}
}

func TestSecretByBasic(t *testing.T) {
	tn := start(t).newTenant()
	tn.consent()
	address := tn.ready.Settings["login_url"] + "/" + tn.id + "/oauth2/v2.0/token"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(url.QueryEscape(tn.ready.Settings["client_id"]), url.QueryEscape(tn.ready.Secrets["client_secret"]))
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {graphScope}}
	a := tn.do("POST", address, http.Header{"Content-Type": {"application/x-www-form-urlencoded"},
		"Authorization": {req.Header.Get("Authorization")}}, form.Encode())
	if a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

func TestTokenEndpointRefusesOtherGrants(t *testing.T) {
	tn := start(t).newTenant()
	tn.consent()
	for grant, want := range map[string]string{"password": "unsupported_grant_type", "": "unsupported_grant_type",
		"refresh_token": "unsupported_grant_type"} {
		if a := tn.askToken(tn.id, url.Values{"grant_type": {grant}}); a.status != http.StatusBadRequest || a.at("error") != want {
			t.Errorf("%q: %d %s", grant, a.status, a.raw)
		}
	}
	if a := tn.clientCredentials("organizations", graphScope); a.status != http.StatusBadRequest {
		t.Errorf("organizations: %d %s", a.status, a.raw)
	}
}
