// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"golang.org/x/oauth2"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// authority is a tenant's own OpenID configuration.
type authority struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Keys          string   `json:"jwks_uri"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// discover reads a tenant's authority. Asked by GUID, the issuer it names has
// to be the address it was asked at, so no wildcard issuer is ever taken.
func (h Host) discover(ctx context.Context, id tenant.GUID) (authority, error) {
	issuer := h.URL + "/" + string(id) + "/v2.0"
	var found authority
	err := h.fetch(ctx, issuer+"/.well-known/openid-configuration", "/{tenant}/v2.0/.well-known/openid-configuration", &found)
	var f *Failure
	switch {
	case errors.As(err, &f) && (f.class == consentLost || f.class == bug):
		return authority{}, foreign(f.Outcome.Cause) // there is no such tenant
	case err != nil:
		return authority{}, err
	case found.Issuer != issuer:
		return authority{}, call.Broken("login", "issuer_mismatch")
	case found.Authorization == "" || found.Token == "" || found.Keys == "":
		return authority{}, call.Broken("login", "discovery_incomplete")
	}
	return found, nil
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

// SignInURL is where the administrator signs in at the tenant's own authority.
func (h Host) SignInURL(ctx context.Context, s sdk.SignIn) (string, error) {
	at, err := h.discover(ctx, s.Tenant)
	if err != nil {
		return "", err
	}
	config := oauth2.Config{
		ClientID: h.Credential.ClientID, RedirectURL: s.Redirect, Scopes: []string{"openid", "profile"},
		Endpoint: oauth2.Endpoint{AuthURL: at.Authorization},
	}
	return config.AuthCodeURL(s.State,
		oauth2.S256ChallengeOption(s.Verifier.Reveal()),
		oauth2.SetAuthURLParam("nonce", s.Nonce),
		oauth2.SetAuthURLParam("response_mode", "query"),
		oauth2.SetAuthURLParam("prompt", "select_account")), nil
}

// SignedIn redeems the sign-in's code and returns who signed in, proven by the
// ID token.
func (h Host) SignedIn(ctx context.Context, s sdk.SignIn, code secret.Text) (Person, error) {
	at, err := h.discover(ctx, s.Tenant)
	if err != nil {
		return Person{}, err
	}
	// The code works once, so there is no second try.
	got, err := h.redeem(ctx, call.Create, at.Token, url.Values{
		"grant_type": {"authorization_code"}, "code": {code.Reveal()},
		"redirect_uri": {s.Redirect}, "code_verifier": {s.Verifier.Reveal()},
	})
	if err != nil {
		return Person{}, refusedCode(err)
	}
	keys, err := h.keys(ctx, at)
	if err != nil {
		return Person{}, err
	}
	return h.person(ctx, s, at, keys, got.IDToken)
}

// refusedCode reads a refusal to redeem a code. A code that was used, is too
// old, or belongs to another tenant or verifier ends the connect link.
func refusedCode(err error) error {
	var f *Failure
	if !errors.As(err, &f) {
		return err
	}
	switch {
	case f.class == blocked:
		return call.Refuse(fault.ConsentDeclined, "a policy of the tenant blocks the sign-in", f.Outcome.Cause)
	case f.class == notConsented, f.AADSTS == 65001, f.class == noExchange:
		return call.Refuse(fault.ConsentDeclined, "the tenant has not given its consent", f.Outcome.Cause)
	case f.class == consentLost, f.Outcome.Kind == outcome.Broken:
		return foreign(f.Outcome.Cause)
	default:
		return err
	}
}

// foreign is a sign-in that is not the one which was begun.
func foreign(cause string) error {
	return call.Refuse(fault.ConnectLinkInvalid, "the sign-in is not the one that was begun, or was used before", cause)
}
