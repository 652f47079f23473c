// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

func TestTokenEndpointReturnsAADSTSErrors(t *testing.T) {
	credentials := func(testTenant *tenant) response { return testTenant.clientCredentials(testTenant.id, graphScope) }
	withScope := func(scope string) func(*tenant) response {
		return func(testTenant *tenant) response { return testTenant.clientCredentials(testTenant.id, scope) }
	}
	forTenant := func(id string) func(*tenant) response {
		return func(testTenant *tenant) response { return testTenant.clientCredentials(id, graphScope) }
	}
	consentedWith := func(behaviour jsonObject) func(*tenant) {
		return func(testTenant *tenant) { testTenant.consent(); testTenant.setBehaviour(behaviour) }
	}
	consented := func(testTenant *tenant) { testTenant.consent() }
	withFault := func(fault jsonObject) func(*tenant) {
		return func(testTenant *tenant) { fault["kind"], fault["times"] = "status", 1; testTenant.planFault(fault) }
	}
	for _, tc := range []struct {
		name    string
		setUp   func(*tenant)
		request func(*tenant) response
		golden  string
	}{
		{"scope malformed", consented, withScope("https://graph.microsoft.com/User.Read"), "aadsts-70011"},
		{"scope of an unknown resource", consented, withScope("https://vault.azure.net/.default"), "aadsts-70011"},
		{"two resources", consented, withScope(graphScope + " " + exchangeScope), "aadsts-70011"},
		{"consent revoked before redemption", nil, redeemWithoutConsent, "aadsts-65001"},
		{"tenant not found", nil, forTenant("11111111-2222-4333-8444-555555555555"), "aadsts-90002"},
		{"tenant named by an unknown domain", nil, forTenant("nobody.example"), "aadsts-90002"},
		{"tenant identifier not valid", nil, forTenant("no_tenant"), "aadsts-900023"},
		{"tenant deleted", consentedWith(jsonObject{"deleted": true}), credentials, "aadsts-5000224"},
		{"never consented", nil, credentials, "aadsts-700016"},
		{"consent revoked", func(testTenant *tenant) { testTenant.consent(); testTenant.revoke("consent") }, credentials, "aadsts-700016"},
		{"wrong secret", consented, requestWithSecret("wrong"), "aadsts-7000215"},
		{"secret expired", consented, requestWithExpiredSecret, "aadsts-7000222"},
		{"application disabled", consentedWith(jsonObject{"app_disabled": true}), credentials, "aadsts-7000112"},
		{"no Exchange Online in the tenant", consentedWith(jsonObject{"no_exchange": true}), withScope(exchangeScope), "aadsts-500011"},
		{"Conditional Access blocked", consentedWith(jsonObject{"conditional_access": true}), credentials, "aadsts-53003"},
		{"transient, with Retry-After", withFault(jsonObject{"status": 503, "retry_after": 2}), credentials, "aadsts-90033"},
		{"transient", withFault(jsonObject{"status": 503}), credentials, "aadsts-90013"},
		{"client request loop", withFault(jsonObject{"status": 400}), credentials, "aadsts-50196"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newTenant()
			if tc.setUp != nil {
				tc.setUp(testTenant)
			}
			assertGolden(t, tc.golden, tc.request(testTenant))
		})
	}
}

func redeemWithoutConsent(testTenant *tenant) response {
	testTenant.consent()
	code := testTenant.signInCode(testTenant.admin)
	testTenant.revoke("consent")
	return testTenant.redeem(code, nil)
}

func requestWithSecret(value string) func(*tenant) response {
	return func(testTenant *tenant) response {
		return testTenant.askToken(testTenant.id, url.Values{"grant_type": {"client_credentials"}, "scope": {graphScope}, "client_secret": {value}})
	}
}

func requestWithExpiredSecret(testTenant *tenant) response {
	testTenant.control("POST", "/app", jsonObject{"expire_secret": true})
	return requestWithSecret(testTenant.ready.Secrets["client_secret"])(testTenant)
}

func TestTokenEndpointThrottles(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	testTenant.planFault(jsonObject{"kind": "status", "status": 429, "retry_after": 9, "times": 1, "operation": "token"})
	answer := testTenant.clientCredentials(testTenant.id, graphScope)
	if answer.status != http.StatusTooManyRequests || answer.header.Get("Retry-After") != "9" {
		t.Errorf("the answer is %d %v, want 429 with the planned Retry-After of 9 s", answer.status, answer.header)
	}
}

func TestTokenIsRefusedUntilConsentIsVisible(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	testTenant.setBehaviour(jsonObject{"consent_ms": 3_600_000})
	testTenant.consent()
	assertGolden(t, "aadsts-700016", testTenant.clientCredentials(testTenant.id, graphScope))
	testTenant.control("POST", "/clock", jsonObject{"advance": "61m"})
	testTenant.token(graphScope)
}

func TestAppOnlyTokenHasClaims(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	testTenant.consent()
	answer := testTenant.clientCredentials(testTenant.id, graphScope)
	if answer.valueAt("token_type") != "Bearer" || answer.valueAt("expires_in") != 3599.0 || answer.valueAt("ext_expires_in") != 3599.0 || answer.valueAt("refresh_token") != nil {
		t.Errorf("the answer is %s, want a Bearer token for 3599 s without a refresh token", answer.raw)
	}
	claims := claimsOf(t, answer.valueAt("access_token").(string))
	wantClaims := jsonObject{"aud": "https://graph.microsoft.com", "iss": "https://sts.windows.net/" + testTenant.id + "/",
		"appid": testTenant.ready.Settings["client_id"], "idtyp": "app", "tid": testTenant.id}
	for name, want := range wantClaims {
		if claims[name] != want {
			t.Errorf("the claim %s is %v, want %v", name, claims[name], want)
		}
	}
	roles, _ := claims["roles"].([]any)
	if !slices.Contains(roles, any("Domain.ReadWrite.All")) || slices.Contains(roles, any("Exchange.ManageAsApp")) {
		t.Errorf("the roles of the Graph token are %v, want Domain.ReadWrite.All and no Exchange.ManageAsApp", roles)
	}
	if roles, _ := claimsOf(t, testTenant.token(exchangeScope))["roles"].([]any); len(roles) != 1 || roles[0] != "Exchange.ManageAsApp" {
		t.Errorf("the roles of the Exchange token are %v, want only Exchange.ManageAsApp", roles)
	}
}

// TestTokenIsIssuedWithoutRoles checks that a token is issued even if no app role is granted, and
// that this token has no roles claim.
func TestTokenIsIssuedWithoutRoles(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	testTenant.consent()
	testTenant.revoke("app_role")
	if roles, has := claimsOf(t, testTenant.token(exchangeScope))["roles"]; has {
		t.Errorf("the token has the roles %v, want no roles claim", roles)
	}
}

// TestTokenHasRolesOfItsIssueTime checks that a directory role is only in tokens that are issued
// after the lag of the role, and that a token from before does not get the role later.
func TestTokenHasRolesOfItsIssueTime(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	testTenant.consent()
	testTenant.setBehaviour(jsonObject{"role_ms": 600_000})
	testTenant.assignExchange()
	tokenHasRole := func() bool {
		wids, _ := claimsOf(t, testTenant.token(exchangeScope))["wids"].([]any)
		return slices.Contains(wids, any(exchangeAdministrator))
	}
	if tokenHasRole() {
		t.Error("a token from before the end of the lag has the role, want it absent")
	}
	earlyToken := testTenant.token(exchangeScope)
	testTenant.control("POST", "/clock", jsonObject{"advance": "11m"})
	if !tokenHasRole() {
		t.Error("a token from after the lag lacks the role, want it present")
	}
	if answer := testTenant.runCmdletWith(bearer(earlyToken), "", "Get-OrganizationConfig", jsonObject{}); answer.status != http.StatusForbidden {
		t.Errorf("after the lag, a token from before: %d, want 403", answer.status)
	}
}

func TestTokenEndpointAcceptsBasicAuth(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	testTenant.consent()
	address := testTenant.ready.Settings["login_url"] + "/" + testTenant.id + "/oauth2/v2.0/token"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(url.QueryEscape(testTenant.ready.Settings["client_id"]), url.QueryEscape(testTenant.ready.Secrets["client_secret"]))
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {graphScope}}
	answer := testTenant.do("POST", address, http.Header{"Content-Type": {"application/x-www-form-urlencoded"},
		"Authorization": {req.Header.Get("Authorization")}}, form.Encode())
	if answer.status != http.StatusOK {
		t.Errorf("the answer is %d %s, want 200", answer.status, answer.raw)
	}
}

func TestTokenEndpointRefusesOtherGrants(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	testTenant.consent()
	for _, grantType := range []string{"password", "refresh_token", ""} {
		if answer := testTenant.askToken(testTenant.id, url.Values{"grant_type": {grantType}}); answer.status != http.StatusBadRequest || answer.valueAt("error") != "unsupported_grant_type" {
			t.Errorf("grant type %q: %d %s, want 400 unsupported_grant_type", grantType, answer.status, answer.raw)
		}
	}
	if answer := testTenant.clientCredentials("organizations", graphScope); answer.status != http.StatusBadRequest {
		t.Errorf("the authority organizations, which names no tenant: %d %s, want 400", answer.status, answer.raw)
	}
}

type credential struct {
	key *rsa.PrivateKey
	der []byte // the certificate
}

// newCredential generates a key and a self-signed certificate that is valid for an hour.
func newCredential(t *testing.T) credential {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return credential{key, der}
}

func (c credential) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.der}))
}

// sign returns a client assertion. With PS256 its header has the SHA-256 thumbprint of the
// certificate, with other algorithms the SHA-1 thumbprint.
func (c credential) sign(t *testing.T, algorithm jose.SignatureAlgorithm, claims jsonObject) string {
	t.Helper()
	x5tS256, x5t := sha256.Sum256(c.der), sha1.Sum(c.der)
	options := (&jose.SignerOptions{}).WithType("JWT")
	if algorithm == jose.PS256 {
		options = options.WithHeader("x5t#S256", base64.RawURLEncoding.EncodeToString(x5tS256[:]))
	} else {
		options = options.WithHeader("x5t", base64.RawURLEncoding.EncodeToString(x5t[:]))
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: c.key}, options)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestClientAssertionIsVerified(t *testing.T) {
	sim := startSimulator(t)
	testTenant := sim.newTenant()
	testTenant.consent()
	registeredCert, unknownCert := newCredential(t), newCredential(t)
	sim.control("POST", "/app", jsonObject{"certificate": registeredCert.pem()})
	tokenURL := sim.ready.Settings["login_url"] + "/" + testTenant.id + "/oauth2/v2.0/token"
	clientID, now := sim.ready.Settings["client_id"], time.Now()

	for _, tc := range []struct {
		name      string
		signer    credential
		algorithm jose.SignatureAlgorithm
		change    jsonObject // replaces claims of the assertion
		want      float64    // AADSTS number, 0 for a token
	}{
		{"PS256 with x5t#S256", registeredCert, jose.PS256, nil, 0},
		{"RS256 with x5t", registeredCert, jose.RS256, nil, 0},
		{"certificate unknown", unknownCert, jose.PS256, nil, 700027},
		{"signed with another key", credential{unknownCert.key, registeredCert.der}, jose.PS256, nil, 700027},
		{"unsupported algorithm", registeredCert, jose.RS512, nil, 700027},
		{"wrong issuer", registeredCert, jose.PS256, jsonObject{"iss": "someone"}, 700027},
		{"no jti", registeredCert, jose.PS256, jsonObject{"jti": nil}, 700027},
		{"audience of another tenant", registeredCert, jose.PS256, jsonObject{"aud": sim.ready.Settings["login_url"] + "/x/oauth2/v2.0/token"}, 700023},
		{"expired", registeredCert, jose.PS256, jsonObject{"exp": now.Add(-time.Hour).Unix()}, 700024},
		{"expires in an hour", registeredCert, jose.PS256, jsonObject{"exp": now.Add(time.Hour).Unix()}, 700024},
		{"no expiry", registeredCert, jose.PS256, jsonObject{"exp": nil}, 700024},
	} {
		t.Run(tc.name, func(t *testing.T) {
			claims := jsonObject{"aud": tokenURL, "iss": clientID, "sub": clientID, "jti": "1", "nbf": now.Unix(), "iat": now.Unix(),
				"exp": now.Add(10 * time.Minute).Unix()}
			maps.Copy(claims, tc.change)
			answer := sim.askToken(testTenant.id, url.Values{"grant_type": {"client_credentials"}, "scope": {graphScope},
				"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
				"client_assertion":      {tc.signer.sign(t, tc.algorithm, claims)}})
			switch {
			case tc.want == 0 && answer.status != http.StatusOK:
				t.Errorf("the answer is %d %s, want a token", answer.status, answer.raw)
			case tc.want == 0 && claimsOf(t, answer.valueAt("access_token").(string))["appidacr"] != "2":
				t.Error("appidacr of the token is not 2, want 2 for the use of a certificate")
			case tc.want == 700027:
				assertGolden(t, "aadsts-700027", answer)
			case tc.want != 0 && (answer.status != http.StatusUnauthorized || answer.valueAt("error_codes", 0) != tc.want):
				t.Errorf("the answer is %d %s, want 401 with AADSTS number %v", answer.status, answer.raw, tc.want)
			}
		})
	}
}
