// SPDX-License-Identifier: Apache-2.0

package login

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
)

const publishedIssuer = publishedURL + "/" + string(guid) + "/v2.0"

// issueIDToken makes the token endpoint answer with an ID token and no access token.
func (l *fakeLogin) issueIDToken(claims map[string]any) {
	l.answer = func(url.Values) (int, any) {
		return http.StatusOK, map[string]any{"token_type": "Bearer", "id_token": l.idToken(claims)}
	}
}

// redeemCode redeems a code for the ID token and returns the error.
func (l *fakeLogin) redeemCode() error {
	l.t.Helper()
	_, err := l.host().RedeemCode(l.t.Context(), l.signIn(), secret.New("c0de"))
	return err
}

func TestOnlyTheTenantsIssuersAreAccepted(t *testing.T) {
	const foreignIssuer = publishedURL + "/11111111-6a0e-4a55-8f0e-0c2f5b6a9d11/v2.0"
	for name, tc := range map[string]struct {
		documentIssuer, tokenIssuer string // "" for the issuer at the configured host
		documentStatus              int
		want                        outcome.Kind // 0 if the sign-in succeeds
	}{
		"the issuer at the configured host":                 {"", "", 200, 0},
		"the public issuer":                                 {publishedIssuer, publishedIssuer, 200, 0},
		"a public document, a token of the configured host": {publishedIssuer, "", 200, outcome.Refused},
		"a document of the configured host, a public token": {"", publishedIssuer, 200, outcome.Refused},
		"the public issuer of a different tenant":           {foreignIssuer, foreignIssuer, 200, outcome.Refused},
		"an issuer template":                                {publishedURL + "/{tenantid}/v2.0", publishedIssuer, 200, outcome.Refused},
		"the issuer of a different host":                    {"https://evil.example/" + string(guid) + "/v2.0", "", 200, outcome.Refused},
		"no document":                                       {"", "", 404, 0},
		"no document, the public issuer":                    {"", publishedIssuer, 400, 0},
		"no document, a different tenant":                   {"", foreignIssuer, 404, outcome.Refused},
		"no document, host out of service":                  {"", "", 503, outcome.Down},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakeLogin(t)
			if fake.documentStatus = tc.documentStatus; fake.documentStatus != http.StatusOK {
				fake.document = map[string]any{"error": "not_found"}
			}
			if tc.documentIssuer != "" {
				fake.document["issuer"] = tc.documentIssuer
			}
			claims := map[string]any{}
			if tc.tokenIssuer != "" {
				claims["iss"] = tc.tokenIssuer
			}
			fake.issueIDToken(claims)
			if err := fake.redeemCode(); outcome.KindOf(err) != tc.want || (err != nil) != (tc.want != 0) {
				t.Fatalf("got %v, want the outcome %s", err, tc.want)
			}
		})
	}
}

// The plugin sends codes and credentials only to the configured host, and gets keys only from this
// host, whatever URLs the discovery document contains.
func TestEndpointsStayAtTheConfiguredHost(t *testing.T) {
	const noEndpoints, longerName = "none", "longer" // special values of host
	for name, host := range map[string]string{
		"published host": publishedURL, "different host": "https://evil.example", "longer host name": longerName, "no endpoints": noEndpoints,
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakeLogin(t)
			if host == longerName {
				host = strings.Replace(fake.url, "127.0.0.1", "127.0.0.1.evil.example", 1)
			}
			for _, endpoint := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri"} {
				fake.document[endpoint] = strings.Replace(fake.document[endpoint].(string), fake.url, host, 1)
				if host == noEndpoints {
					delete(fake.document, endpoint)
				}
			}
			fake.issueIDToken(nil)
			if err := fake.redeemCode(); err != nil || fake.keyRequests != 1 {
				t.Fatalf("got %v after %d requests for the keys, want success after 1", err, fake.keyRequests)
			}
			page, err := fake.host().SignInURL(t.Context(), fake.signIn())
			if err != nil || !strings.HasPrefix(page, fake.url+"/"+string(guid)+"/oauth2/v2.0/authorize?") {
				t.Fatalf("got %s, %v, want a page at %s", page, err, fake.url)
			}
		})
	}
}

// TestATenantOfADifferentCloudIsRefused checks a tenant whose issuer is at the login host of a
// different national cloud. The outcome must be a refusal, because a refusal does not count as a
// failure of the configured login host.
func TestATenantOfADifferentCloudIsRefused(t *testing.T) {
	fake := newFakeLogin(t)
	fake.document["issuer"] = "https://login.microsoftonline.us/" + string(guid) + "/v2.0"
	_, err := fake.host().SignInURL(t.Context(), fake.signIn())
	if outcome.KindOf(err) != outcome.Refused || !errors.Is(err, fault.ProviderError) {
		t.Fatalf("got %v, want a refusal with provider_error", err)
	}
}

func TestAnUnknownTenantInvalidatesTheConnectLink(t *testing.T) {
	fake := newFakeLogin(t)
	signIn := fake.signIn()
	signIn.Tenant = "11111111-6a0e-4a55-8f0e-0c2f5b6a9d11"
	_, err := fake.host().SignInURL(t.Context(), signIn)
	if !errors.Is(err, fault.ConnectLinkInvalid) {
		t.Fatalf("got %v, want connect_link_invalid", err)
	}
}
