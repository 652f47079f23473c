// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// tenant is one simulated tenant with the tokens for it.
type tenant struct {
	*sim
	id, admin string
}

// newTenant makes a tenant without delays, so that a test has only those that
// it is about.
func (s *sim) newTenant(more ...m) *tenant {
	s.t.Helper()
	body := m{}
	if len(more) > 0 {
		body = more[0]
	}
	a := s.control("POST", "/tenants", body)
	t := &tenant{sim: s, id: a.at("tenant_id").(string), admin: a.at("admin").(string)}
	t.behave(m{"consent_ms": 0, "role_ms": 0, "accepted_domain_ms": 0, "mailbox_ms": 0, "domain_ms": 0, "hydrate_ms": 0})
	return t
}

// connected is a tenant that has consented and given the Exchange role.
func (s *sim) connected(more ...m) *tenant {
	s.t.Helper()
	t := s.newTenant(more...)
	t.consent()
	if a := t.assignExchange(); a.status != http.StatusCreated {
		s.t.Fatalf("role assignment: %d %s", a.status, a.raw)
	}
	return t
}

func (t *tenant) behave(b m) { t.t.Helper(); t.control("POST", "/tenants/"+t.id+"/behaviour", b) }

func (t *tenant) initial() string { _, domain, _ := strings.Cut(t.admin, "@"); return domain }

// page posts a form page of the login host and returns where it redirects to.
func (s *sim) page(address string, form url.Values) (answer, url.Values) {
	s.t.Helper()
	method, header, body := "GET", http.Header{}, ""
	if form != nil {
		method, body = "POST", form.Encode()
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	a := s.do(method, address, header, body)
	to, err := url.Parse(a.header.Get("Location"))
	if err != nil {
		s.t.Fatal(err)
	}
	return a, to.Query()
}

// consentURL is the v2 admin-consent address of a tenant.
func (t *tenant) consentURL() string {
	q := url.Values{"client_id": {t.ready.Settings["client_id"]}, "scope": {graphScope},
		"redirect_uri": {callback}, "state": {"st"}}
	return t.ready.Settings["login_url"] + "/organizations/v2.0/adminconsent?" + q.Encode()
}

func (t *tenant) consent() {
	t.t.Helper()
	a, back := t.page(t.consentURL(), url.Values{"username": {t.admin}, "decision": {"accept"}})
	if a.status != http.StatusFound || back.Get("tenant") != t.id {
		t.t.Fatalf("consent: %d %s", a.status, a.raw)
	}
}

// signInURL is the authorization address of a tenant.
func (t *tenant) signInURL(more url.Values) string {
	q := url.Values{"client_id": {t.ready.Settings["client_id"]}, "response_type": {"code"},
		"redirect_uri": {signin}, "scope": {"openid profile"}, "state": {"st"}, "nonce": {"n1"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"}}
	for name, values := range more {
		q[name] = values
	}
	return t.ready.Settings["login_url"] + "/" + t.id + "/oauth2/v2.0/authorize?" + q.Encode()
}

// verifier belongs to the challenge of signInURL (RFC 7636, appendix B).
const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

// code signs somebody in and returns the authorization code.
func (t *tenant) code(username string) string {
	t.t.Helper()
	a, back := t.page(t.signInURL(nil), url.Values{"username": {username}})
	if a.status != http.StatusFound || back.Get("code") == "" || back.Get("state") != "st" {
		t.t.Fatalf("sign-in of %s: %d %s", username, a.status, a.header.Get("Location"))
	}
	return back.Get("code")
}

func (t *tenant) redeem(code string, more url.Values) answer {
	t.t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {signin},
		"code_verifier": {verifier}}
	for name, values := range more {
		form[name] = values
	}
	return t.askToken(t.id, form)
}

// askToken posts to the token endpoint, with the client's secret unless the
// form brings another proof.
func (s *sim) askToken(tenant string, form url.Values) answer {
	s.t.Helper()
	if !form.Has("client_id") {
		form.Set("client_id", s.ready.Settings["client_id"])
	}
	if !form.Has("client_secret") && !form.Has("client_assertion") {
		form.Set("client_secret", s.ready.Secrets["client_secret"])
	}
	return s.do("POST", s.ready.Settings["login_url"]+"/"+tenant+"/oauth2/v2.0/token",
		http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, form.Encode())
}

func (s *sim) clientCredentials(tenant, scope string) answer {
	s.t.Helper()
	return s.askToken(tenant, url.Values{"grant_type": {"client_credentials"}, "scope": {scope}})
}

func (t *tenant) token(scope string) string {
	t.t.Helper()
	a := t.clientCredentials(t.id, scope)
	if a.status != http.StatusOK {
		t.t.Fatalf("token: %d %s", a.status, a.raw)
	}
	return a.at("access_token").(string)
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// graph calls Microsoft Graph with a fresh token.
func (t *tenant) graph(method, path string, body any) answer {
	t.t.Helper()
	return t.graphWith(bearer(t.token(graphScope)), method, path, body)
}

func (t *tenant) graphWith(header http.Header, method, path string, body any) answer {
	t.t.Helper()
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			t.t.Fatal(err)
		}
	}
	a := t.do(method, t.ready.Settings["graph_url"]+"/v1.0"+strings.ReplaceAll(path, " ", "%20"), header, string(raw))
	checkAgainstOpenAPI(t.t, method, path, a)
	return a
}

func (t *tenant) assignExchange() answer {
	t.t.Helper()
	return t.graph("POST", "/roleManagement/directory/roleAssignments", m{
		"@odata.type":      "#microsoft.graph.unifiedRoleAssignment",
		"roleDefinitionId": exchangeAdministrator, "principalId": t.principal(), "directoryScopeId": "/"})
}

const (
	globalAdministrator   = "62e90394-69f5-4237-9190-012177145e10"
	exchangeAdministrator = "29232cdf-9323-42fd-ade2-1d097af3e4de"
)

// principal is our service principal in the tenant, out of the token.
func (t *tenant) principal() string {
	t.t.Helper()
	return claimsOf(t.t, t.token(graphScope))["oid"].(string)
}

// exchange runs a cmdlet with a fresh token.
func (t *tenant) exchange(cmdlet string, params any) answer {
	t.t.Helper()
	return t.exchangeWith(bearer(t.token(exchangeScope)), "", cmdlet, params)
}

func (t *tenant) exchangeWith(header http.Header, query, cmdlet string, params any) answer {
	t.t.Helper()
	raw, err := json.Marshal(m{"CmdletInput": m{"CmdletName": cmdlet, "Parameters": params}})
	if err != nil {
		t.t.Fatal(err)
	}
	return t.do("POST", t.ready.Settings["exchange_url"]+"/adminapi/beta/"+t.id+"/InvokeCommand"+query, header,
		string(bytes.TrimSpace(raw)))
}

// claimsOf reads a token without checking it.
func claimsOf(t *testing.T, token string) m {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is no token", token)
	}
	raw, err := base64url(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	claims := m{}
	if err := json.Unmarshal(raw, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}
