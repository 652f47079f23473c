// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"errors"
	"net/url"

	"golang.org/x/oauth2"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/sdk"
)

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
	keys, err := h.keys(ctx, at, got.IDToken)
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
