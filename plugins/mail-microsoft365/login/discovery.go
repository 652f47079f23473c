// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// publishedURL is the public address of the login host. Its documents and tokens may contain this
// address even if the request was sent to a different address.
const publishedURL = "https://login.microsoftonline.com"

// authority has the sign-in endpoints of a tenant. All of them are at the configured host.
type authority struct {
	Issuers                             []string // issuers that the tenant's tokens may have
	AuthorizationURL, TokenURL, KeysURL string
	Algorithms                          []string // signature algorithms of ID tokens, nil if unknown
}

type discoveryDocument struct {
	Issuer           string   `json:"issuer"`
	AuthorizationURL string   `json:"authorization_endpoint"`
	TokenURL         string   `json:"token_endpoint"`
	KeysURL          string   `json:"jwks_uri"`
	Algorithms       []string `json:"id_token_signing_alg_values_supported"`
}

// wellKnownAuthority returns the authority of a tenant without reading its discovery document:
// Microsoft's usual paths at the configured host.
func (h Host) wellKnownAuthority(id tenant.GUID) authority {
	base := h.URL + "/" + string(id)
	return authority{
		Issuers:          []string{base + "/v2.0", publishedURL + "/" + string(id) + "/v2.0"},
		AuthorizationURL: base + "/oauth2/v2.0/authorize",
		TokenURL:         base + "/oauth2/v2.0/token",
		KeysURL:          base + "/discovery/v2.0/keys",
	}
}

// discover reads the authority of a tenant. The document for a GUID contains exactly one issuer, so
// discover accepts no wildcard issuer. It ignores endpoints at a different host. Codes and secrets
// may be sent only to the configured host, and keys may come only from this host.
func (h Host) discover(ctx context.Context, id tenant.GUID) (authority, error) {
	endpoints := h.wellKnownAuthority(id)
	var document discoveryDocument
	err := h.getJSON(ctx, h.URL+"/"+string(id)+"/v2.0/.well-known/openid-configuration",
		"/{tenant}/v2.0/.well-known/openid-configuration", &document)
	var f *Failure
	switch {
	case errors.As(err, &f) && f.class == noAccess:
		return authority{}, invalidLink(f.Outcome.Cause) // the tenant does not exist
	case errors.As(err, &f) && f.class == unexpected:
		return endpoints, nil // for example 404: the host has no discovery document
	case err != nil:
		return authority{}, err
	case !slices.Contains(endpoints.Issuers, document.Issuer):
		// The issuer of a tenant of a different national cloud is at the login host of that cloud.
		return authority{}, call.Refuse(fault.ProviderError, "the tenant signs in at a different host", "login", "issuer_mismatch")
	}
	endpoints.Issuers, endpoints.Algorithms = []string{document.Issuer}, document.Algorithms
	for endpoint, published := range map[*string]string{
		&endpoints.AuthorizationURL: document.AuthorizationURL, &endpoints.TokenURL: document.TokenURL, &endpoints.KeysURL: document.KeysURL,
	} {
		if call.SameHost(h.URL, published) {
			*endpoint = published
		}
	}
	return endpoints, nil
}

func (h Host) getJSON(ctx context.Context, address, route string, target any) error {
	_, err := call.Retry(ctx, h.Retry, call.Read, func() (struct{}, error) {
		resp, err := call.Send(ctx, h.HTTP, call.Request{
			Effect: call.Read, Method: http.MethodGet, URL: address, Route: route,
			Header: http.Header{"Accept": {"application/json"}}, Gate: h.gate(address),
		})
		if err != nil {
			return struct{}{}, err
		}
		if resp.Status != http.StatusOK {
			return struct{}{}, failureFromResponse(resp)
		}
		if json.Unmarshal(resp.Body, target) != nil {
			return struct{}{}, call.Broken("login", "document_unreadable")
		}
		return struct{}{}, nil
	})
	return err
}
