// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// tenant is a simulated tenant, and a client that can get tokens for the tenant.
type tenant struct {
	*simClient
	id, admin string
}

// newTenant creates a tenant without delays, so that each test sets only the delays that it checks.
// The fields in extra are added to the control call.
func (s *simClient) newTenant(extra ...jsonObject) *tenant {
	s.t.Helper()
	body := jsonObject{}
	for _, fields := range extra {
		maps.Copy(body, fields)
	}
	answer := s.control("POST", "/tenants", body)
	t := &tenant{simClient: s, id: answer.valueAt("tenant_id").(string), admin: answer.valueAt("admin").(string)}
	t.setBehaviour(jsonObject{"consent_ms": 0, "role_ms": 0, "accepted_domain_ms": 0, "mailbox_ms": 0, "domain_ms": 0, "hydrate_ms": 0})
	return t
}

// newConnectedTenant creates a tenant that has consented and has assigned the Exchange role.
func (s *simClient) newConnectedTenant(extra ...jsonObject) *tenant {
	s.t.Helper()
	t := s.newTenant(extra...)
	t.consent()
	if answer := t.assignExchange(); answer.status != http.StatusCreated {
		s.t.Fatalf("role assignment: %d %s, want 201", answer.status, answer.raw)
	}
	return t
}

func (t *tenant) setBehaviour(behaviour jsonObject) {
	t.t.Helper()
	t.control("POST", "/tenants/"+t.id+"/behaviour", behaviour)
}

func (t *tenant) initialDomain() string { _, domain, _ := strings.Cut(t.admin, "@"); return domain }

// openPage gets a page of the login host, or posts form to the page if form is not nil. The second
// result is the query of the redirect.
func (s *simClient) openPage(address string, form url.Values) (response, url.Values) {
	s.t.Helper()
	method, header, body := "GET", http.Header{}, ""
	if form != nil {
		method, body = "POST", form.Encode()
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer := s.do(method, address, header, body)
	location, err := url.Parse(answer.header.Get("Location"))
	if err != nil {
		s.t.Fatal(err)
	}
	return answer, location.Query()
}

// consentURL returns the address of the newer consent page.
func (t *tenant) consentURL() string {
	query := url.Values{"client_id": {t.ready.Settings["client_id"]}, "scope": {graphScope},
		"redirect_uri": {consentRedirectURI}, "state": {"st"}}
	return t.ready.Settings["login_url"] + "/organizations/v2.0/adminconsent?" + query.Encode()
}

// consent grants consent as the administrator.
func (t *tenant) consent() {
	t.t.Helper()
	answer, redirect := t.openPage(t.consentURL(), url.Values{"username": {t.admin}, "decision": {"accept"}})
	if answer.status != http.StatusFound || redirect.Get("tenant") != t.id {
		t.t.Fatalf("consent: %d %s, want a redirect with the tenant", answer.status, answer.raw)
	}
}

// signInURL returns the address of the authorization endpoint. The parameters in changes replace
// the usual parameters.
func (t *tenant) signInURL(changes url.Values) string {
	query := url.Values{"client_id": {t.ready.Settings["client_id"]}, "response_type": {"code"},
		"redirect_uri": {signInRedirectURI}, "scope": {"openid profile"}, "state": {"st"}, "nonce": {"n1"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"}}
	maps.Copy(query, changes)
	return t.ready.Settings["login_url"] + "/" + t.id + "/oauth2/v2.0/authorize?" + query.Encode()
}

// pkceVerifier is the PKCE verifier for the challenge in signInURL (RFC 7636, appendix B).
const pkceVerifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

func (t *tenant) signInCode(username string) string {
	t.t.Helper()
	answer, redirect := t.openPage(t.signInURL(nil), url.Values{"username": {username}})
	if answer.status != http.StatusFound || redirect.Get("code") == "" || redirect.Get("state") != "st" {
		t.t.Fatalf("sign-in of %s: %d %s, want a redirect with a code and the state st", username, answer.status, answer.header.Get("Location"))
	}
	return redirect.Get("code")
}

// redeem exchanges the code of a sign-in for tokens. The parameters in changes replace the usual
// parameters.
func (t *tenant) redeem(code string, changes url.Values) response {
	t.t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {signInRedirectURI},
		"code_verifier": {pkceVerifier}}
	maps.Copy(form, changes)
	return t.askToken(t.id, form)
}

// askToken posts a form to the token endpoint. It adds the client id if the form has none, and the
// client secret if the form has neither a secret nor an assertion.
func (s *simClient) askToken(tenant string, form url.Values) response {
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

func (s *simClient) clientCredentials(tenant, scope string) response {
	s.t.Helper()
	return s.askToken(tenant, url.Values{"grant_type": {"client_credentials"}, "scope": {scope}})
}

func (t *tenant) token(scope string) string {
	t.t.Helper()
	answer := t.clientCredentials(t.id, scope)
	if answer.status != http.StatusOK {
		t.t.Fatalf("the request for a token answers %d %s, want 200", answer.status, answer.raw)
	}
	return answer.valueAt("access_token").(string)
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func (t *tenant) callGraph(method, path string, body any) response {
	t.t.Helper()
	return t.callGraphWith(bearer(t.token(graphScope)), method, path, body)
}

// callGraphWith calls Microsoft Graph and checks the answer against the OpenAPI description.
func (t *tenant) callGraphWith(header http.Header, method, path string, body any) response {
	t.t.Helper()
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			t.t.Fatal(err)
		}
	}
	answer := t.do(method, t.ready.Settings["graph_url"]+"/v1.0"+strings.ReplaceAll(path, " ", "%20"), header, string(raw))
	checkAgainstOpenAPI(t.t, method, path, answer)
	return answer
}

func (t *tenant) assignExchange() response {
	t.t.Helper()
	return t.callGraph("POST", "/roleManagement/directory/roleAssignments", jsonObject{
		"@odata.type":      "#microsoft.graph.unifiedRoleAssignment",
		"roleDefinitionId": exchangeAdministrator, "principalId": t.principal(), "directoryScopeId": "/"})
}

// The template ids of directory roles.
const (
	globalAdministrator   = "62e90394-69f5-4237-9190-012177145e10"
	exchangeAdministrator = "29232cdf-9323-42fd-ade2-1d097af3e4de"
)

// principal returns the object id of the application's service principal in the tenant.
func (t *tenant) principal() string {
	t.t.Helper()
	return claimsOf(t.t, t.token(graphScope))["oid"].(string)
}

func (t *tenant) runCmdlet(cmdlet string, params any) response {
	t.t.Helper()
	return t.runCmdletWith(bearer(t.token(exchangeScope)), "", cmdlet, params)
}

// runCmdletWith runs a cmdlet. query is appended to the address.
func (t *tenant) runCmdletWith(header http.Header, query, cmdlet string, params any) response {
	t.t.Helper()
	raw, err := json.Marshal(jsonObject{"CmdletInput": jsonObject{"CmdletName": cmdlet, "Parameters": params}})
	if err != nil {
		t.t.Fatal(err)
	}
	return t.do("POST", t.ready.Settings["exchange_url"]+"/adminapi/beta/"+t.id+"/InvokeCommand"+query, header,
		string(bytes.TrimSpace(raw)))
}

// claimsOf returns the claims of a token without verifying it.
func claimsOf(t *testing.T, token string) jsonObject {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is not a JWT", token)
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	claims := jsonObject{}
	if err := json.Unmarshal(raw, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func (s *simClient) planFault(fault jsonObject) { s.t.Helper(); s.control("POST", "/faults", fault) }

// revoke withdraws consent, the Exchange role or the app role Exchange.ManageAsApp.
func (t *tenant) revoke(grantName string) {
	t.t.Helper()
	t.control("POST", "/tenants/"+t.id+"/revoke", jsonObject{"what": grantName})
}

// withdrawAppRole returns a function that withdraws an app role.
func withdrawAppRole(role string) func(*tenant) {
	return func(testTenant *tenant) {
		testTenant.control("POST", "/tenants/"+testTenant.id+"/revoke", jsonObject{"what": "app_role", "role": role})
	}
}

func scriptedCmdlets(cmdlets jsonObject) jsonObject { return jsonObject{"cmdlets": cmdlets} }

// newTenantWithMailbox returns a connected tenant with an accepted domain and the mailbox of Anna.
func newTenantWithMailbox(t *testing.T) *tenant {
	t.Helper()
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.addMailDomain(domain)
	testTenant.newMailbox("anna@"+domain, "anna.d")
	return testTenant
}

// TestTenantCanBeSetUpToSendMail makes the calls with which tenantry prepares a new tenant and a
// mailbox for sending.
func TestTenantCanBeSetUpToSendMail(t *testing.T) {
	sim := startSimulator(t)
	testTenant := sim.newConnectedTenant(jsonObject{"name": "Fabrikam Outreach", "bootstrap": "dehydrated"})
	const mailbox = "anna.k@" + domain

	if answer := testTenant.redeem(testTenant.signInCode(testTenant.admin), nil); answer.status != http.StatusOK || claimsOf(t, answer.valueAt("id_token").(string))["tid"] != testTenant.id {
		t.Fatalf("sign-in: %d %s, want an ID token of the tenant", answer.status, answer.raw)
	}
	testTenant.addMailDomain(domain)
	if answer := testTenant.runCmdlet("Enable-OrganizationCustomization", jsonObject{}); answer.status != http.StatusOK {
		t.Fatalf("Enable-OrganizationCustomization: %d %s, want 200", answer.status, answer.raw)
	}
	if answer := testTenant.runCmdlet("New-DkimSigningConfig", jsonObject{"DomainName": domain, "KeySize": 2048, "Enabled": false}); answer.status != http.StatusOK {
		t.Fatalf("New-DkimSigningConfig: %d %s, want 200", answer.status, answer.raw)
	}
	testTenant.publishSelectorCNAMEs(domain)
	if answer := testTenant.runCmdlet("Set-DkimSigningConfig", jsonObject{"Identity": domain, "Enabled": true}); answer.status != http.StatusOK {
		t.Fatalf("Set-DkimSigningConfig: %d %s, want 200", answer.status, answer.raw)
	}
	row := testTenant.newMailbox(mailbox, "anna.k.fabrikam-mail")
	if answer := testTenant.callGraph("PATCH", "/users/"+row["ExternalDirectoryObjectId"].(string), enableWithPassword); answer.status != http.StatusNoContent {
		t.Fatalf("the PATCH of the user: %d %s, want 204", answer.status, answer.raw)
	}
	for cmdlet, params := range map[string]jsonObject{
		"Set-CASMailbox":      {"Identity": mailbox, "SmtpClientAuthenticationDisabled": false},
		"Set-TransportConfig": {"SmtpClientAuthenticationDisabled": false},
	} {
		if answer := testTenant.runCmdlet(cmdlet, params); answer.status != http.StatusOK || len(answer.rows()) != 0 {
			t.Fatalf("%s: %d %s, want 200 without rows", cmdlet, answer.status, answer.raw)
		}
	}
	state := sim.control("GET", "/tenants/"+testTenant.id, nil)
	if state.valueAt("domains", 0, "dkim_enabled") != true || state.valueAt("mailboxes", 0, "password_set") != true ||
		state.valueAt("mailboxes", 0, "enabled") != true || state.valueAt("consent") != "granted" {
		t.Fatalf("the state of the tenant is %s, want DKIM enabled, a mailbox that is enabled and has a password, and the consent granted", state.raw)
	}
}

var enableWithPassword = jsonObject{"accountEnabled": true, "passwordPolicies": "DisablePasswordExpiration",
	"passwordProfile": jsonObject{"password": "Correct-Horse-7", "forceChangePasswordNextSignIn": false,
		"forceChangePasswordNextSignInWithMfa": false}}

// addMailDomain adds a domain, verifies it and enables Email for it.
func (t *tenant) addMailDomain(name string) {
	t.t.Helper()
	if answer := t.callGraph("POST", "/domains", jsonObject{"id": name}); answer.status != http.StatusCreated {
		t.t.Fatalf("add %s: %d %s, want 201", name, answer.status, answer.raw)
	}
	t.publishVerificationRecord(name)
	if answer := t.callGraph("POST", "/domains/"+name+"/verify", nil); answer.status != http.StatusOK || answer.valueAt("isVerified") != true {
		t.t.Fatalf("verify %s: %d %s, want 200 and a verified domain", name, answer.status, answer.raw)
	}
	if answer := t.callGraph("PATCH", "/domains/"+name, jsonObject{"supportedServices": []string{"Email"}}); answer.status != http.StatusNoContent {
		t.t.Fatalf("enable mail of %s: %d %s, want 204", name, answer.status, answer.raw)
	}
}

func (t *tenant) publishVerificationRecord(name string) {
	t.t.Helper()
	text := t.callGraph("GET", "/domains/"+name+"/verificationDnsRecords", nil).valueAt("value", 0, "text").(string)
	t.fakeDNS.publish(name + `. 60 IN TXT "` + text + `"`)
}

func (t *tenant) publishSelectorCNAMEs(name string) {
	t.t.Helper()
	row := t.runCmdlet("Get-DkimSigningConfig", jsonObject{"Identity": name})
	t.fakeDNS.publish("selector1._domainkey."+name+". 60 IN CNAME "+row.valueAt("value", 0, "Selector1CNAME").(string)+".",
		"selector2._domainkey."+name+". 60 IN CNAME "+row.valueAt("value", 0, "Selector2CNAME").(string)+".")
}

// newMailbox creates a shared mailbox with the display name Anna Keller. It returns the row of the
// mailbox.
func (t *tenant) newMailbox(address, alias string) jsonObject {
	t.t.Helper()
	answer := t.runCmdlet("New-Mailbox", jsonObject{"Shared": true, "Name": address, "DisplayName": "Anna Keller", "Alias": alias,
		"PrimarySmtpAddress": address})
	if answer.status != http.StatusOK {
		t.t.Fatalf("New-Mailbox: %d %s, want 200", answer.status, answer.raw)
	}
	return answer.valueAt("value", 0).(jsonObject)
}
