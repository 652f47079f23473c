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

// issueIDToken makes the token endpoint answer with an ID token alone.
func (d *fakeLogin) issueIDToken(claims map[string]any) {
	d.answer = func(url.Values) (int, any) {
		return http.StatusOK, map[string]any{"token_type": "Bearer", "id_token": d.idToken(claims)}
	}
}

func (d *fakeLogin) redeemCode() error {
	d.t.Helper()
	_, err := d.host().RedeemCode(d.t.Context(), d.signIn(), secret.New("c0de"))
	return err
}

func TestOnlyTheTenantsIssuersAreAccepted(t *testing.T) {
	const other = publishedURL + "/11111111-6a0e-4a55-8f0e-0c2f5b6a9d11/v2.0"
	for name, tt := range map[string]struct {
		document, token string // "": the issuer at the configured host
		documentStatus  int
		want            outcome.Kind // 0: the sign-in succeeds
	}{
		"the issuer at the configured host":                 {"", "", 200, 0},
		"the public issuer":                                 {publishedIssuer, publishedIssuer, 200, 0},
		"a public document, a token of the configured host": {publishedIssuer, "", 200, outcome.Refused},
		"a document of the configured host, a public token": {"", publishedIssuer, 200, outcome.Refused},
		"the public issuer of a different tenant":           {other, other, 200, outcome.Broken},
		"an issuer template":                                {publishedURL + "/{tenantid}/v2.0", publishedIssuer, 200, outcome.Broken},
		"another host":                                      {"https://evil.example/" + string(guid) + "/v2.0", "", 200, outcome.Broken},
		"no document":                                       {"", "", 404, 0},
		"no document, the public issuer":                    {"", publishedIssuer, 400, 0},
		"no document, a different tenant":                   {"", other, 404, outcome.Refused},
		"no document, host out of service":                  {"", "", 503, outcome.Down},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFakeLogin(t)
			if d.documentStatus = tt.documentStatus; d.documentStatus != http.StatusOK {
				d.document = map[string]any{"error": "not_found"}
			}
			if tt.document != "" {
				d.document["issuer"] = tt.document
			}
			claims := map[string]any{}
			if tt.token != "" {
				claims["iss"] = tt.token
			}
			d.issueIDToken(claims)
			if err := d.redeemCode(); outcome.Of(err) != tt.want || (err != nil) != (tt.want != 0) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// The plugin exchanges codes, credentials and keys with the configured host alone, whatever the
// document names.
func TestEndpointsStayAtTheConfiguredHost(t *testing.T) {
	for name, host := range map[string]string{
		"published": publishedURL, "another": "https://evil.example", "a longer name": "", "none": "-",
	} {
		t.Run(name, func(t *testing.T) {
			d := newFakeLogin(t)
			if name == "a longer name" {
				host = strings.Replace(d.url, "127.0.0.1", "127.0.0.1.evil.example", 1)
			}
			for _, endpoint := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri"} {
				d.document[endpoint] = strings.Replace(d.document[endpoint].(string), d.url, host, 1)
				if host == "-" {
					delete(d.document, endpoint)
				}
			}
			d.issueIDToken(nil)
			if err := d.redeemCode(); err != nil || d.keyRequests != 1 {
				t.Fatalf("got %v", err)
			}
			page, err := d.host().SignInURL(t.Context(), d.signIn())
			if err != nil || !strings.HasPrefix(page, d.url+"/"+string(guid)+"/oauth2/v2.0/authorize?") {
				t.Fatalf("got %s, %v", page, err)
			}
		})
	}
}

func TestAnUnknownTenantInvalidatesTheConnectLink(t *testing.T) {
	d := newFakeLogin(t)
	s := d.signIn()
	s.Tenant = "11111111-6a0e-4a55-8f0e-0c2f5b6a9d11"
	_, err := d.host().SignInURL(t.Context(), s)
	if !errors.Is(err, fault.ConnectLinkInvalid) {
		t.Fatalf("got %v", err)
	}
}
