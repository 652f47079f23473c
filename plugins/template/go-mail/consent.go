// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"

	"github.com/tenantry/tenantry/plugins/sdk"
)

var tenantID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ConsentURL implements sdk.MailPlatform.
func (p platform) ConsentURL(_ context.Context, state, redirect string) (string, error) {
	return p.login + "/consent?" + url.Values{"state": {state}, "redirect": {redirect}}.Encode(), nil
}

// Granted implements sdk.MailPlatform. The tenant in the query is only a claim.
func (p platform) Granted(_ context.Context, query string) (sdk.TenantID, error) {
	q, err := url.ParseQuery(query)
	switch {
	case err == nil && q.Get("error") == "denied":
		return "", sdk.RefusedAs("consent_declined", "denied", "the administrator did not agree")
	case err != nil || q.Get("state") == "" || !tenantID.MatchString(q.Get("tenant")):
		return "", sdk.RefusedAs("invalid_request", "callback", "the query of the callback is invalid")
	}
	return sdk.TenantID(q.Get("tenant")), nil
}

// SignInURL implements sdk.MailPlatform. As in PKCE (RFC 7636), the URL contains the SHA-256 sum of
// the verifier, but not the verifier.
func (p platform) SignInURL(_ context.Context, s sdk.AdministratorSignIn) (string, error) {
	challenge := sha256.Sum256([]byte(s.Verifier.Reveal()))
	return p.login + "/sign-in?" + url.Values{
		"tenant": {string(s.Tenant)}, "state": {s.State}, "nonce": {s.Nonce}, "redirect": {s.Redirect},
		"challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])},
	}.Encode(), nil
}

// Administrator implements sdk.MailPlatform. The platform accepts the code once, and only with the
// verifier. It returns the tenant and the nonce of the sign-in.
func (p platform) Administrator(ctx context.Context, s sdk.AdministratorSignIn, code sdk.Secret) (sdk.Administrator, error) {
	body := map[string]string{"code": code.Reveal(), "verifier": s.Verifier.Reveal(), "redirect": s.Redirect}
	var person struct {
		Tenant        string `json:"tenant"`
		Nonce         string `json:"nonce"`
		Username      string `json:"username"`
		Name          string `json:"name"`
		Administrator bool   `json:"administrator"`
	}
	if err := p.call(ctx, http.MethodPost, "/logins", body, &person); err != nil {
		return sdk.Administrator{}, err
	}
	switch {
	case person.Username == "":
		return sdk.Administrator{}, sdk.BrokenAnswer("no_person")
	case person.Tenant != string(s.Tenant) || person.Nonce != s.Nonce:
		return sdk.Administrator{}, sdk.RefusedAs("connect_link_invalid", "other_login", "this sign-in belongs to a different link")
	case !person.Administrator:
		return sdk.Administrator{}, sdk.RefusedAs("not_an_administrator", "role", "this person is not an administrator")
	}
	return sdk.Administrator{Tenant: s.Tenant, Address: person.Username, Name: person.Name}, nil
}
