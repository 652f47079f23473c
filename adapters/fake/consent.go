// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const loginURL = "https://login.fake.test"

type userRole int

const (
	administrator userRole = iota + 1
	member
	guest
)

// pendingSignIn is a sign-in for which the platform has issued a code.
type pendingSignIn struct {
	tenant           tenant.GUID
	user             string
	nonce, challenge string
	redirect         string
	wasRedeemed      bool
}

// Check implements ports.MailPlatform.
func (p *Platform) Check(ctx context.Context) error {
	return p.call(ctx, "Check", "", "", func() (bool, error) { return false, nil })
}

// ConsentURL implements ports.Consent.
func (p *Platform) ConsentURL(_ context.Context, state, redirect string) (string, error) {
	return loginURL + "/consent?" + url.Values{"state": {state}, "redirect": {redirect}}.Encode(), nil
}

// Granted implements ports.Consent.
func (p *Platform) Granted(_ context.Context, query string) (tenant.GUID, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return "", fault.InvalidRequest.With("the platform's answer can't be read")
	}
	if q.Get("error") != "" {
		return "", fault.ConsentDeclined.With("the administrator did not give consent")
	}
	if q.Get("admin_consent") == "" || len(q.Get("tenant")) != 36 {
		return "", fault.InvalidRequest.With("the platform's answer names no tenant")
	}
	return tenant.GUID(strings.ToLower(q.Get("tenant"))), nil
}

// SignInURL implements ports.Consent.
func (p *Platform) SignInURL(ctx context.Context, s ports.SignIn) (string, error) {
	err := p.call(ctx, "SignInURL", s.Tenant, "", func() (bool, error) { return false, nil })
	return loginURL + "/signin?" + url.Values{
		"tenant": {string(s.Tenant)}, "state": {s.State}, "nonce": {s.Nonce},
		"challenge": {challenge(s.Verifier)}, "redirect": {s.Redirect},
	}.Encode(), err
}

// Administrator implements ports.Consent.
func (p *Platform) Administrator(ctx context.Context, s ports.SignIn, code secret.Text) (tenant.Administrator, error) {
	var admin tenant.Administrator
	err := p.call(ctx, "Administrator", s.Tenant, "", func() (bool, error) {
		signIn := p.codes[code.Reveal()]
		if signIn == nil || signIn.wasRedeemed || signIn.tenant != s.Tenant || signIn.nonce != s.Nonce ||
			signIn.challenge != challenge(s.Verifier) || signIn.redirect != s.Redirect {
			return false, refuse(fault.ConnectLinkInvalid, "the code belongs to a different sign-in")
		}
		signIn.wasRedeemed = true
		if p.tenants[signIn.tenant].people[signIn.user] != administrator {
			return false, refuse(fault.NotAdministrator, "the person who signed in is not an administrator of the tenant")
		}
		admin = tenant.Administrator{Tenant: signIn.tenant, Address: signIn.user, Name: "Ada Admin"}
		return true, nil
	})
	return admin, err
}

// Visit simulates a person who opens the consent or the sign-in page of the platform as username.
// accept is true if the person gives consent; the sign-in page ignores it. Visit returns the query
// string of the redirect back to tenantry. It fails if page is not the URL of one of these pages.
func (p *Platform) Visit(page, username string, accept bool) (query string, err error) {
	u, err := url.Parse(page)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	q := u.Query()
	switch u.Path {
	case "/consent":
		return p.consent(q.Get("state"), username, accept), nil
	case "/signin":
		return p.signIn(q, username), nil
	default:
		return "", fmt.Errorf("the platform has no page %s", u.Path)
	}
}

func (p *Platform) consent(state, username string, accept bool) string {
	query := url.Values{"state": {state}, "admin_consent": {"True"}}
	t := p.tenantOf(username)
	if !accept || t == nil || t.people[username] != administrator {
		query.Set("error", "permission_denied")
		return query.Encode()
	}
	t.consent = "granted"
	query.Set("tenant", string(t.guid))
	return query.Encode()
}

func (p *Platform) signIn(q url.Values, username string) string {
	query := url.Values{"state": {q.Get("state")}}
	id := tenant.GUID(q.Get("tenant"))
	t := p.tenants[id]
	if t == nil || t.people[username] == 0 {
		query.Set("error", "access_denied")
		return query.Encode()
	}
	p.serial++
	code := fmt.Sprintf("code-%d", p.serial)
	p.codes[code] = &pendingSignIn{
		tenant: id, user: username, nonce: q.Get("nonce"),
		challenge: q.Get("challenge"), redirect: q.Get("redirect"),
	}
	query.Set("code", code)
	return query.Encode()
}

// tenantOf returns the tenant that username belongs to, or nil.
func (p *Platform) tenantOf(username string) *tenantState {
	for _, t := range p.tenants {
		if t.people[username] != 0 {
			return t
		}
	}
	return nil
}

func challenge(verifier secret.Text) string {
	sum := sha256.Sum256([]byte(verifier.Reveal()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
