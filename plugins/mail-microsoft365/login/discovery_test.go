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

// issues makes the token endpoint answer a code with an ID token alone.
func (d *double) issues(claims map[string]any) {
	d.answer = func(url.Values) (int, any) {
		return http.StatusOK, map[string]any{"token_type": "Bearer", "id_token": d.idToken(claims)}
	}
}

func (d *double) signedIn() error {
	d.t.Helper()
	_, err := d.host().SignedIn(d.t.Context(), d.signIn(), secret.New("c0de"))
	return err
}

func TestIssuers(t *testing.T) {
	const other = publishedURL + "/11111111-6a0e-4a55-8f0e-0c2f5b6a9d11/v2.0"
	for name, tt := range map[string]struct {
		document, token string // "": the configured host's
		found           int
		want            outcome.Kind // 0: signed in
	}{
		"the configured host's":              {"", "", 200, 0},
		"the published one":                  {publishedIssuer, publishedIssuer, 200, 0},
		"a token of the other one":           {publishedIssuer, "", 200, outcome.Refused},
		"a token of the published one":       {"", publishedIssuer, 200, outcome.Refused},
		"the published one, another tenant":  {other, other, 200, outcome.Broken},
		"the template":                       {publishedURL + "/{tenantid}/v2.0", publishedIssuer, 200, outcome.Broken},
		"another host":                       {"https://evil.example/" + string(guid) + "/v2.0", "", 200, outcome.Broken},
		"no document":                        {"", "", 404, 0},
		"no document, the published one":     {"", publishedIssuer, 400, 0},
		"no document, another tenant's":      {"", other, 404, outcome.Refused},
		"no document, the host is not there": {"", "", 503, outcome.Down},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(t)
			if d.found = tt.found; d.found != http.StatusOK {
				d.document = map[string]any{"error": "not_found"}
			}
			if tt.document != "" {
				d.document["issuer"] = tt.document
			}
			claims := map[string]any{}
			if tt.token != "" {
				claims["iss"] = tt.token
			}
			d.issues(claims)
			if err := d.signedIn(); outcome.Of(err) != tt.want || (err != nil) != (tt.want != 0) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// Codes, the credential and keys go to and come from the configured host,
// whatever the document names.
func TestEndpointsStayAtTheConfiguredHost(t *testing.T) {
	for name, host := range map[string]string{
		"published": publishedURL, "another": "https://evil.example", "a longer name": "", "none": "-",
	} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(t)
			if name == "a longer name" {
				host = strings.Replace(d.url, "127.0.0.1", "127.0.0.1.evil.example", 1)
			}
			for _, endpoint := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri"} {
				d.document[endpoint] = strings.Replace(d.document[endpoint].(string), d.url, host, 1)
				if host == "-" {
					delete(d.document, endpoint)
				}
			}
			d.issues(nil)
			if err := d.signedIn(); err != nil || d.fetched != 1 {
				t.Fatalf("got %v", err)
			}
			page, err := d.host().SignInURL(t.Context(), d.signIn())
			if err != nil || !strings.HasPrefix(page, d.url+"/"+string(guid)+"/oauth2/v2.0/authorize?") {
				t.Fatalf("got %s, %v", page, err)
			}
		})
	}
}

func TestATenantThatDoesNotExistEndsTheLink(t *testing.T) {
	d := newDouble(t)
	s := d.signIn()
	s.Tenant = "11111111-6a0e-4a55-8f0e-0c2f5b6a9d11"
	_, err := d.host().SignInURL(t.Context(), s)
	if !errors.Is(err, fault.ConnectLinkInvalid) {
		t.Fatalf("got %v", err)
	}
}
