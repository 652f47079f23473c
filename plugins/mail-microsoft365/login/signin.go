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

// SignInURL returns the URL of the page on which the administrator signs in. The page belongs to
// the tenant's own authority.
func (h Host) SignInURL(ctx context.Context, signIn sdk.SignIn) (string, error) {
	tenantAuthority, err := h.discover(ctx, signIn.Tenant)
	if err != nil {
		return "", err
	}
	config := oauth2.Config{
		ClientID: h.Credential.ClientID, RedirectURL: signIn.Redirect, Scopes: []string{"openid", "profile"},
		Endpoint: oauth2.Endpoint{AuthURL: tenantAuthority.AuthorizationURL},
	}
	return config.AuthCodeURL(signIn.State,
		oauth2.S256ChallengeOption(signIn.Verifier.Reveal()),
		oauth2.SetAuthURLParam("nonce", signIn.Nonce),
		oauth2.SetAuthURLParam("response_mode", "query"),
		oauth2.SetAuthURLParam("prompt", "select_account")), nil
}

// RedeemCode redeems the code of a sign-in for an ID token and returns the person in it. It fails
// with ConnectLinkInvalid if the code or the token does not belong to the sign-in. For other errors
// see codeError and person.
func (h Host) RedeemCode(ctx context.Context, signIn sdk.SignIn, code secret.Text) (Person, error) {
	tenantAuthority, err := h.discover(ctx, signIn.Tenant)
	if err != nil {
		return Person{}, err
	}
	// The code can be used only once, so the request is not repeated.
	tokens, err := h.requestToken(ctx, call.Create, tenantAuthority.TokenURL, url.Values{
		"grant_type": {"authorization_code"}, "code": {code.Reveal()},
		"redirect_uri": {signIn.Redirect}, "code_verifier": {signIn.Verifier.Reveal()},
	})
	if err != nil {
		return Person{}, codeError(err)
	}
	keys, err := h.verificationKeys(ctx, tenantAuthority, tokens.IDToken)
	if err != nil {
		return Person{}, err
	}
	return h.person(ctx, signIn, tenantAuthority, keys, tokens.IDToken)
}

// codeError translates the refusal to redeem a code. It returns ConsentDeclined if the tenant
// blocks the sign-in or has not given its consent. It returns ConnectLinkInvalid for a code that
// was used, is too old, or belongs to a different tenant or verifier.
func codeError(err error) error {
	var failure *Failure
	if !errors.As(err, &failure) {
		return err
	}
	switch {
	case failure.class == policyBlocked:
		return call.Refuse(fault.ConsentDeclined, "a policy of the tenant blocks the sign-in", failure.Outcome.Cause)
	case failure.class == applicationUnknown, failure.AADSTS == 65001, failure.class == noExchange:
		return call.Refuse(fault.ConsentDeclined, "the tenant has not given its consent", failure.Outcome.Cause)
	case failure.class == noAccess, failure.Outcome.Kind == outcome.Broken:
		return invalidLink(failure.Outcome.Cause)
	default:
		return err
	}
}

// invalidLink returns the refusal ConnectLinkInvalid. It is for a sign-in that does not belong to
// the link, or whose code was used before or is too old.
func invalidLink(cause string) error {
	return call.Refuse(fault.ConnectLinkInvalid, "the sign-in is not the one that was started, or was used before", cause)
}
