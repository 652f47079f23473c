// SPDX-License-Identifier: Apache-2.0

package login

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/sdk"
)

const guid tenant.GUID = "7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9d11"

const clientID = "5f1c2b7e-0000-4c1d-9a2b-111122223333"

// fakeLogin is a login host whose answers a test can change.
type fakeLogin struct {
	t              *testing.T
	url            string
	key            *rsa.PrivateKey             // signs ID tokens
	keyID          string                      // key id in the header of ID tokens
	published      *rsa.PrivateKey             // the key that the host publishes
	publishedID    string                      // key id of the published key
	document       map[string]any              // the discovery document
	documentStatus int                         // status of the discovery document
	jwks           []any                       // further published keys, listed first
	keyRequests    int                         // number of requests for the keys
	answer         func(url.Values) (int, any) // answers the token endpoint
	forms          []url.Values                // the requests to the token endpoint
	header         http.Header                 // headers of the last request to the token endpoint
}

func newKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}

// sharedKey is generated only once, because generating a key is slow.
var sharedKey = sync.OnceValue(newKey)

func newFakeLogin(t *testing.T) *fakeLogin {
	t.Helper()
	fake := &fakeLogin{t: t, key: sharedKey(), published: sharedKey(), keyID: "k1", publishedID: "k1", documentStatus: http.StatusOK}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	fake.url = server.URL
	authority := fake.url + "/" + string(guid)
	fake.document = map[string]any{
		"issuer": authority + "/v2.0", "authorization_endpoint": authority + "/oauth2/v2.0/authorize",
		"token_endpoint": authority + "/oauth2/v2.0/token", "jwks_uri": authority + "/discovery/v2.0/keys",
		"id_token_signing_alg_values_supported": []string{"RS256"}, "something_new": true,
	}
	mux.HandleFunc("GET /{tenant}/v2.0/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("tenant") != string(guid) {
			fake.reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_tenant", "error_codes": []int{90002}})
			return
		}
		fake.reply(w, fake.documentStatus, fake.document)
	})
	mux.HandleFunc("GET /{tenant}/discovery/v2.0/keys", func(w http.ResponseWriter, _ *http.Request) {
		fake.keyRequests++
		fake.reply(w, http.StatusOK, map[string]any{"keys": append(slices.Clone(fake.jwks), jose.JSONWebKey{
			Key: fake.published.Public(), KeyID: fake.publishedID, Use: "sig",
		})})
	})
	mux.HandleFunc("POST /{tenant}/oauth2/v2.0/token", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		fake.forms, fake.header = append(fake.forms, r.PostForm), r.Header
		status, body := fake.answer(r.PostForm)
		fake.reply(w, status, body)
	})
	return fake
}

func (l *fakeLogin) reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		l.t.Error(err)
	}
}

// host returns a client of the fake with no cached keys.
func (l *fakeLogin) host() Host {
	return Host{
		URL: l.url, HTTP: call.NewHTTPClient(), Retry: call.RetryPolicy{MaxAttempts: 3, BaseDelay: time.Millisecond}, Now: time.Now,
		Keys:       &KeyCache{},
		Credential: Credential{ClientID: clientID, Secret: secret.New("s3cret")},
	}
}

func (l *fakeLogin) signIn() sdk.SignIn {
	return sdk.SignIn{
		Tenant: guid, State: "state-2", Nonce: "n0nce", Redirect: "https://app.example.net/connect/microsoft365/signin",
		Verifier: secret.New("a-verifier-of-at-least-forty-three-characters"),
	}
}

// idToken returns a signed ID token with the usual claims. The claims in changed replace them. A
// nil value removes a claim.
func (l *fakeLogin) idToken(changed map[string]any) string {
	l.t.Helper()
	now := time.Now()
	claims := map[string]any{
		"ver": "2.0", "iss": l.url + "/" + string(guid) + "/v2.0", "aud": clientID, "tid": string(guid),
		"oid": "c0a8f7de-3b51-4d7e-9f55-7a2f0d6e1b90", "sub": "q0mX", "name": "Ada Admin",
		"preferred_username": "ada@fabrikam-mail.example", "nonce": "n0nce",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"wids": []string{"62e90394-69f5-4237-9190-012177145e10"},
	}
	maps.Copy(claims, changed)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	raw, err := json.Marshal(claims)
	if err != nil {
		l.t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: l.key, KeyID: l.keyID}}, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	signed, err := signer.Sign(raw)
	if err != nil {
		l.t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		l.t.Fatal(err)
	}
	return token
}
