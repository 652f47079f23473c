// SPDX-License-Identifier: Apache-2.0

package login

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
)

const graphScope = "https://graph.microsoft.com/.default"

// tokenGranted is an answer of the token endpoint.
func tokenGranted(url.Values) (int, any) {
	return http.StatusOK, map[string]any{"token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599, "access_token": "t0ken"}
}

func TestAppTokenIsRequestedWithTheSecret(t *testing.T) {
	fake := newFakeLogin(t)
	fake.answer = tokenGranted
	got, err := fake.host().AppToken(t.Context(), guid, graphScope)
	if err != nil || got.Value.Reveal() != "t0ken" || got.Expires.Sub(got.Obtained) != 3599*time.Second {
		t.Fatalf("got %+v, %v, want t0ken for 3599 s", got, err)
	}
	want := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {clientID}, "scope": {graphScope}, "client_secret": {"s3cret"},
	}
	if !cmp.Equal(fake.forms, []url.Values{want}) || fake.header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Fatalf("the content type or the sent forms (-want +got):\n%s", cmp.Diff([]url.Values{want}, fake.forms))
	}
}

func TestACertificateTakesPrecedenceOverASecret(t *testing.T) {
	fake := newFakeLogin(t)
	fake.answer = tokenGranted
	certificateDER, setting := newCertificate(t, fake.key)
	host := fake.host()
	host.Credential = Credential{ClientID: clientID, Secret: secret.New("unused"), Certificate: setting}
	if _, err := host.AppToken(t.Context(), guid, graphScope); err != nil {
		t.Fatal(err)
	}
	form := fake.forms[0]
	if form.Has("client_secret") || form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		t.Fatalf("sent %v, want an assertion and no client_secret", form)
	}
	parsed, err := jose.ParseSignedCompact(form.Get("client_assertion"), []jose.SignatureAlgorithm{jose.PS256})
	if err != nil {
		t.Fatal(err)
	}
	certificateHash := sha256.Sum256(certificateDER)
	header := parsed.Signatures[0].Header
	if header.ExtraHeaders["typ"] != "JWT" || header.ExtraHeaders["x5t#S256"] != base64.RawURLEncoding.EncodeToString(certificateHash[:]) {
		t.Fatalf("the header of the assertion is %+v, want typ JWT and the hash of the certificate", header)
	}
	raw, err := parsed.Verify(fake.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		Aud, Iss, Sub, Jti string
		Nbf, Iat, Exp      int64
	}
	if err := json.Unmarshal(raw, &claims); err != nil {
		t.Fatal(err)
	}
	if claims.Aud != fake.url+"/"+string(guid)+"/oauth2/v2.0/token" || claims.Iss != clientID || claims.Sub != clientID ||
		len(claims.Jti) != 36 || claims.Exp-claims.Nbf != 600 || claims.Iat != claims.Nbf {
		t.Fatalf("the claims are %+v, want the token endpoint, the client id, a UUID and a lifetime of 600 s", claims)
	}
}

// newCertificate returns a self-signed certificate of the key, in DER form, and the text of the
// setting client_certificate with the key and the certificate.
func newCertificate(t *testing.T, key *rsa.PrivateKey) ([]byte, secret.Text) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return der, secret.New(text)
}

func TestCredentialCheckRejectsUnusableCredentials(t *testing.T) {
	for name, credential := range map[string]Credential{
		"no client":      {Secret: secret.New("x")},
		"no credential":  {ClientID: clientID},
		"no certificate": {ClientID: clientID, Certificate: secret.New("not PEM")},
	} {
		if err := credential.Check(); !errors.Is(err, fault.ServiceUnavailable) {
			t.Errorf("%s: %v, want service_unavailable", name, err)
		}
	}
}

// TestAADSTSNumbersBecomeOutcomes covers known numbers, an unknown number, and errors without a
// number.
func TestAADSTSNumbersBecomeOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		number     int // AADSTS number, 0 for none
		oauthError string
		status     int
		kind       outcome.Kind
		code       fault.Code
		requests   int
	}{
		"scope malformed":      {70011, "invalid_scope", 400, outcome.Broken, fault.ProviderError, 1},
		"not consented":        {65001, "invalid_grant", 400, outcome.Refused, fault.AccessDenied, 1},
		"declined":             {65004, "access_denied", 400, outcome.Refused, fault.AccessDenied, 1},
		"tenant not found":     {90002, "invalid_request", 400, outcome.Refused, fault.AccessDenied, 1},
		"tenant not valid":     {900023, "invalid_request", 400, outcome.Refused, fault.AccessDenied, 1},
		"tenant deleted":       {5000224, "invalid_request", 400, outcome.Refused, fault.AccessDenied, 1},
		"no service principal": {700016, "unauthorized_client", 400, outcome.Refused, fault.AccessDenied, 1},
		"wrong secret":         {7000215, "invalid_client", 401, outcome.Down, fault.ProviderUnavailable, 1},
		"secret expired":       {7000222, "invalid_client", 401, outcome.Down, fault.ProviderUnavailable, 1},
		"assertion not valid":  {700027, "invalid_client", 401, outcome.Down, fault.ProviderUnavailable, 1},
		"application disabled": {7000112, "unauthorized_client", 400, outcome.Refused, fault.AccessDenied, 1},
		"no Exchange":          {500011, "invalid_resource", 400, outcome.Refused, fault.ExchangeNotReady, 1},
		"not subscribed":       {650052, "invalid_resource", 400, outcome.Refused, fault.ExchangeNotReady, 1},
		"consent under way":    {650051, "invalid_request", 400, outcome.NotReady, fault.ProviderTimeout, 1},
		"conditional access":   {53003, "access_denied", 400, outcome.Refused, fault.AccessDenied, 1},
		"redirect mismatch":    {50011, "invalid_request", 400, outcome.Broken, fault.ProviderError, 1},
		"transient":            {90033, "temporarily_unavailable", 503, outcome.Down, fault.ProviderUnavailable, 3},
		"transient input":      {90013, "invalid_request", 503, outcome.Down, fault.ProviderUnavailable, 3},
		"looping":              {50196, "invalid_request", 400, outcome.Throttled, fault.ProviderUnavailable, 1},
		"throttled":            {0, "temporarily_unavailable", 429, outcome.Throttled, fault.ProviderUnavailable, 3},
		"unknown number":       {12345, "invalid_request", 400, outcome.Broken, fault.ProviderError, 1},
		"unknown client error": {0, "invalid_client", 401, outcome.Down, fault.ProviderUnavailable, 1},
		"unknown client":       {0, "unauthorized_client", 400, outcome.Refused, fault.AccessDenied, 1},
		"server error":         {0, "server_error", 500, outcome.Down, fault.ProviderUnavailable, 3},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakeLogin(t)
			fake.answer = func(url.Values) (int, any) {
				// The number in error_codes takes precedence over the number in this text.
				body := map[string]any{"error": tc.oauthError, "error_description": "AADSTS70011: customer.example ..."}
				if tc.number != 0 {
					body["error_codes"] = []int{tc.number}
				} else {
					body["error_description"] = "customer.example"
				}
				return tc.status, body
			}
			_, err := fake.host().AppToken(t.Context(), guid, graphScope)
			if outcome.KindOf(err) != tc.kind || !errors.Is(err, tc.code) {
				t.Fatalf("got %v, want %s %s", err, tc.kind, tc.code.Name)
			}
			if len(fake.forms) != tc.requests {
				t.Fatalf("%d requests, want %d", len(fake.forms), tc.requests)
			}
		})
	}
}

func TestAADSTSNumberIsReadFromTheDescription(t *testing.T) {
	fake := newFakeLogin(t)
	fake.answer = func(url.Values) (int, any) {
		return http.StatusBadRequest, map[string]any{"error": "invalid_request", "error_description": "AADSTS700016: Application not found"}
	}
	_, err := fake.host().AppToken(t.Context(), guid, graphScope)
	if !errors.Is(err, fault.AccessDenied) || !MayBePropagating(err) {
		t.Fatalf("got %v, want access_denied for a consent that may not have reached all servers", err)
	}
}

func TestTokenLifetimeIsReadInAnyForm(t *testing.T) {
	for raw, want := range map[string]time.Duration{
		`3599`: 3599 * time.Second, `"60"`: time.Minute, `null`: time.Hour, `-1`: time.Hour, `"x"`: time.Hour, `1e99`: time.Hour,
		`99999999`: 24 * time.Hour,
	} {
		if got := (tokenAnswer{ExpiresIn: json.RawMessage(raw)}).lifetime(); got != want {
			t.Errorf("expires_in %s: the lifetime is %s, want %s", raw, got, want)
		}
	}
}

func TestPayloadReadsTheClaimsOfAToken(t *testing.T) {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"oid":"sp-1","roles":["Exchange.ManageAsApp"]}`))
	got, isReadable := Token{Value: secret.New("e30." + claims + ".sig")}.Payload()
	if !isReadable || got.ObjectID != "sp-1" || !cmp.Equal(got.Roles, []string{"Exchange.ManageAsApp"}) {
		t.Fatalf("got %+v, %v, want the object id sp-1 and its role", got, isReadable)
	}
	for _, opaque := range []string{"", "opaque", "a.b", "e30.!!!.x", "e30.bm8.x"} {
		if _, ok := (Token{Value: secret.New(opaque)}).Payload(); ok {
			t.Errorf("Payload of %q succeeds, want no payload", opaque)
		}
	}
}
