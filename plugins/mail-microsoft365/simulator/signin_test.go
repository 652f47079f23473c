// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
)

// TestIDTokenIsVerifiable verifies an ID token with an OpenID Connect client, which finds the keys
// by discovery. It verifies a further ID token after the keys were rotated.
func TestIDTokenIsVerifiable(t *testing.T) {
	sim := startSimulator(t)
	testTenant := sim.newConnectedTenant(jsonObject{"name": "Fabrikam Outreach"})
	provider, err := oidc.NewProvider(t.Context(), sim.ready.Settings["login_url"]+"/"+testTenant.id+"/v2.0")
	if err != nil {
		t.Fatal(err)
	}
	idTokenVerifier := provider.Verifier(&oidc.Config{ClientID: sim.ready.Settings["client_id"]})
	for _, key := range []string{"first key", "rotated key"} {
		answer := testTenant.redeem(testTenant.signInCode(testTenant.admin), nil)
		if answer.status != http.StatusOK || answer.valueAt("token_type") != "Bearer" || answer.valueAt("scope") != "openid profile" {
			t.Fatalf("%s: %d %s, want 200 with a Bearer token for openid profile", key, answer.status, answer.raw)
		}
		token, err := idTokenVerifier.Verify(t.Context(), answer.valueAt("id_token").(string))
		if err != nil {
			t.Fatalf("the ID token is not valid with the %s: %v", key, err)
		}
		claims := jsonObject{}
		if err := token.Claims(&claims); err != nil {
			t.Fatal(err)
		}
		if token.Nonce != "n1" || claims["tid"] != testTenant.id || claims["preferred_username"] != testTenant.admin ||
			claims["ver"] != "2.0" || claims["oid"] == "" || claims["name"] == "" || claims["sub"] == claims["oid"] {
			t.Errorf("%s: the claims are %v, want those of the administrator, with the nonce n1", key, claims)
		}
		for _, absent := range []string{"upn", "wids", "idp"} {
			if value, has := claims[absent]; has {
				t.Errorf("%s: the ID token has %s: %v, want it absent by default", key, absent, value)
			}
		}
		sim.control("POST", "/app", jsonObject{"rotate_keys": true})
	}
}

func TestIDTokenIdentifiesUser(t *testing.T) {
	for _, tc := range []struct {
		name, user   string // a user that ends in "@" is completed with the initial domain
		guest, admin bool
	}{
		{"administrator", "admin@", false, true},
		{"ordinary member", "user@", false, false},
		{"guest", "guest@", true, true},
		{"guest by home address", "guest@partner.example", true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			testTenant.control("POST", "/app", jsonObject{"wids_in_id_token": true})
			user := tc.user
			if strings.HasSuffix(user, "@") {
				user += testTenant.initialDomain()
			}
			claims := claimsOf(t, testTenant.redeem(testTenant.signInCode(user), nil).valueAt("id_token").(string))
			if idp, has := claims["idp"]; has != tc.guest || has && idp == claims["iss"] {
				t.Errorf("idp is %v, want a value other than iss for a guest, and no idp for a member", idp)
			}
			filter := "?$filter=principalId eq '" + claims["oid"].(string) + "' and roleDefinitionId eq '" + globalAdministrator + "'"
			rows := testTenant.callGraph("GET", "/roleManagement/directory/roleAssignments"+filter, nil).rows()
			if (len(rows) == 1) != tc.admin {
				t.Errorf("the assignments of the role Global Administrator are %v, want one: %v", rows, tc.admin)
			}
			var wids []string
			for _, roleID := range claims["wids"].([]any) {
				wids = append(wids, roleID.(string))
			}
			if strings.Contains(strings.Join(wids, " "), globalAdministrator) != tc.admin {
				t.Errorf("wids is %v, want the role Global Administrator in it: %v", wids, tc.admin)
			}
		})
	}
}

func TestCodeIsRedeemedOnce(t *testing.T) {
	for _, tc := range []struct {
		name   string
		form   url.Values // replaces the usual parameters
		twice  bool       // the code was redeemed before
		age    string     // age of the code
		status int
		number float64 // AADSTS number, 0 if the code is accepted
	}{
		{"in time", nil, false, "9m", 200, 0},
		{"a second time", nil, true, "1s", 400, 54005},
		{"after ten minutes", nil, false, "11m", 400, 70008},
		{"wrong verifier", url.Values{"code_verifier": {"wrong"}}, false, "1s", 400, 501481},
		{"no verifier", url.Values{"code_verifier": {""}}, false, "1s", 400, 501481},
		{"wrong redirect URI", url.Values{"redirect_uri": {consentRedirectURI}}, false, "1s", 401, 500112},
		{"unknown code", url.Values{"code": {"1.unknown"}}, false, "1s", 400, 70000},
		{"without the secret", url.Values{"client_secret": {""}}, false, "1s", 401, 7000215},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			code := testTenant.signInCode(testTenant.admin)
			if tc.twice {
				testTenant.redeem(code, nil)
			}
			testTenant.control("POST", "/clock", jsonObject{"advance": tc.age})
			answer := testTenant.redeem(code, tc.form)
			if answer.status != tc.status || tc.number != 0 && answer.valueAt("error_codes", 0) != tc.number {
				t.Errorf("the answer is %d %s, want %d and the AADSTS number %v", answer.status, answer.raw, tc.status, tc.number)
			}
			if tc.twice {
				assertGolden(t, "aadsts-54005", answer)
			}
		})
	}
}

func TestCodeOfAnotherTenantIsRefused(t *testing.T) {
	sim := startSimulator(t)
	issuerTenant, otherTenant := sim.newConnectedTenant(), sim.newConnectedTenant()
	if answer := otherTenant.redeem(issuerTenant.signInCode(issuerTenant.admin), nil); answer.status != http.StatusBadRequest {
		t.Errorf("the answer is %d %s, want 400", answer.status, answer.raw)
	}
}

func TestSignInRefusesInvalidRequests(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change url.Values // replaces parameters of the address
		// user is the username in the form. "admin" stands for the administrator. If user is "",
		// the page is requested without a form.
		user   string
		revoke string // the grant to revoke before the sign-in, if any
		status int
		want   string // a text in the page or in the redirect
	}{
		{"redirect URI not registered", url.Values{"redirect_uri": {"http://evil.example/"}}, "", "", 400, "AADSTS50011"},
		{"another application", url.Values{"client_id": {"x"}}, "", "", 400, "AADSTS700016"},
		{"user of another tenant", nil, "someone@elsewhere.example", "", 400, "AADSTS50020"},
		{"response type token", url.Values{"response_type": {"token"}}, "", "", 302, "unsupported_response_type"},
		{"no openid", url.Values{"scope": {"profile"}}, "", "", 302, "invalid_scope"},
		{"prompt none", url.Values{"prompt": {"none"}}, "", "", 302, "login_required"},
		{"tenant has not consented", nil, "admin", "consent", 302, "AADSTS65001"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			if tc.revoke != "" {
				testTenant.revoke(tc.revoke)
			}
			var form url.Values
			if tc.user != "" {
				form = url.Values{"username": {strings.Replace(tc.user, "admin", testTenant.admin, 1)}}
			}
			answer, redirect := testTenant.openPage(testTenant.signInURL(tc.change), form)
			text := string(answer.raw)
			if tc.status == http.StatusFound {
				text = redirect.Encode()
				if redirect.Get("code") != "" || redirect.Get("state") != "st" {
					t.Errorf("the parameters of the redirect are %v, want the state st and no code", redirect)
				}
			}
			if answer.status != tc.status || !strings.Contains(text, tc.want) {
				t.Errorf("the answer is %d %s, want %d with %s", answer.status, text, tc.status, tc.want)
			}
		})
	}
}

func TestDisabledAccountCannotSignIn(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.addMailDomain("d.example")
	testTenant.newMailbox("a@d.example", "a.d")
	if answer, _ := testTenant.openPage(testTenant.signInURL(nil), url.Values{"username": {"a@d.example"}}); !strings.Contains(string(answer.raw), "AADSTS50057") {
		t.Errorf("the answer is %d %s, want AADSTS50057", answer.status, answer.raw)
	}
}

// TestFormPostReturnsCode checks that response_mode=form_post returns the code in a form with a
// button instead of a redirect.
func TestFormPostReturnsCode(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	answer, _ := testTenant.openPage(testTenant.signInURL(url.Values{"response_mode": {"form_post"}}), url.Values{"username": {testTenant.admin}})
	page := string(answer.raw)
	for _, want := range []string{`action="` + signInRedirectURI + `"`, `name="code" value="1.`, `name="state" value="st"`} {
		if answer.status != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("the page with status %d lacks %s: %s", answer.status, want, page)
		}
	}
}

// TestSharedAuthorityHasIssuerTemplate checks the metadata and the keys of the authority
// "organizations", which all tenants share.
func TestSharedAuthorityHasIssuerTemplate(t *testing.T) {
	sim := startSimulator(t)
	login := sim.ready.Settings["login_url"]
	answer := sim.do("GET", login+"/organizations/v2.0/.well-known/openid-configuration", nil, "")
	if answer.valueAt("issuer") != login+"/{tenantid}/v2.0" || answer.valueAt("jwks_uri") != login+"/organizations/discovery/v2.0/keys" {
		t.Errorf("the metadata are %s, want an issuer with {tenantid} and the address of the keys", answer.raw)
	}
	keys := sim.do("GET", login+"/organizations/discovery/v2.0/keys", nil, "")
	for _, name := range []string{"kid", "x5t", "n", "e", "x5c", "issuer"} {
		if keys.valueAt("keys", 0, name) == nil {
			t.Errorf("the first key has no %s, want a value: %s", name, keys.raw)
		}
	}
	if answer := sim.do("GET", login+"/no_tenant/v2.0/.well-known/openid-configuration", nil, ""); answer.status != http.StatusBadRequest {
		t.Errorf("an invalid tenant name: %d, want 400", answer.status)
	}
}
