// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// publishedURL is the login host by the name that Microsoft publishes. Its
// documents and tokens may name it wherever they were asked for.
const publishedURL = "https://login.microsoftonline.com"

// authority is where a tenant's people sign in, always at the configured host.
type authority struct {
	Issuers                    []string // the names that its tokens may bear
	Authorization, Token, Keys string
	Algorithms                 []string
}

// document is a tenant's own OpenID configuration.
type document struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Keys          string   `json:"jwks_uri"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// wellKnown is the authority without a document: Microsoft's paths at the
// configured host.
func (h Host) wellKnown(id tenant.GUID) authority {
	base := h.URL + "/" + string(id)
	return authority{
		Issuers:       []string{base + "/v2.0", publishedURL + "/" + string(id) + "/v2.0"},
		Authorization: base + "/oauth2/v2.0/authorize",
		Token:         base + "/oauth2/v2.0/token",
		Keys:          base + "/discovery/v2.0/keys",
	}
}

// discover reads a tenant's authority. Asked by GUID, the document names the
// one issuer of that tenant, so no wildcard issuer is ever taken; codes,
// secrets and keys go to and come from the configured host alone.
func (h Host) discover(ctx context.Context, id tenant.GUID) (authority, error) {
	at := h.wellKnown(id)
	var found document
	err := h.fetch(ctx, h.URL+"/"+string(id)+"/v2.0/.well-known/openid-configuration",
		"/{tenant}/v2.0/.well-known/openid-configuration", &found)
	var f *Failure
	switch {
	case errors.As(err, &f) && f.class == consentLost:
		return authority{}, foreign(f.Outcome.Cause) // there is no such tenant
	case errors.As(err, &f) && f.class == bug:
		return at, nil // the host publishes no document
	case err != nil:
		return authority{}, err
	case !slices.Contains(at.Issuers, found.Issuer):
		return authority{}, call.Broken("login", "issuer_mismatch")
	}
	at.Issuers, at.Algorithms = []string{found.Issuer}, found.Algorithms
	for endpoint, named := range map[*string]string{
		&at.Authorization: found.Authorization, &at.Token: found.Token, &at.Keys: found.Keys,
	} {
		if call.SameHost(h.URL, named) {
			*endpoint = named
		}
	}
	return at, nil
}

// fetch reads a JSON document of the login host.
func (h Host) fetch(ctx context.Context, address, route string, into any) error {
	_, err := call.Retry(ctx, h.Patience, call.Read, func() (struct{}, error) {
		a, err := call.Once(ctx, h.HTTP, call.Request{
			Effect: call.Read, Method: http.MethodGet, URL: address, Route: route,
			Header: http.Header{"Accept": {"application/json"}},
		})
		if err != nil {
			return struct{}{}, err
		}
		if a.Status != http.StatusOK {
			return struct{}{}, failure(a)
		}
		if json.Unmarshal(a.Body, into) != nil {
			return struct{}{}, call.Broken("login", "document_unreadable")
		}
		return struct{}{}, nil
	})
	return err
}
