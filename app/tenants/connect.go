// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"net/url"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// ConnectPath returns the common prefix of the paths of the connect pages. platform is the name of
// the mail platform's plugin.
func ConnectPath(platform string) string { return "/connect/" + platform + "/" }

// RedirectURIs returns the redirect URIs to register with the mail platform. The platform redirects
// administrators only to registered URIs.
func RedirectURIs(publicURL, platform string) []string {
	path := publicURL + ConnectPath(platform)
	return []string{path + "callback", path + "signin"}
}

// redirectURIs returns the URIs to which the platform redirects after the consent and the sign-in.
func (s *Service) redirectURIs() (callback, signIn string) {
	uris := RedirectURIs(s.PublicURL, s.PlatformName)
	return uris[0], uris[1]
}

// Link is a connect link. It works only once, and only until it expires. SessionID is the id of its
// connect session.
type Link struct {
	SessionID string
	URL       string
	ExpiresAt time.Time
}

// LinkRequest holds the options of a new link. State is a text of the caller, which the service
// adds to the query of the return URL. The zero LinkRequest asks for a link with the default
// lifetime and no return URL.
type LinkRequest struct {
	ReturnURL *string
	State     string
	Lifetime  time.Duration
}

// Redirect sends a browser to URL and sets Cookie, which binds the browser to the flow. The flow
// ends at ExpiresAt, so the browser needs the cookie until then.
type Redirect struct {
	URL       string
	Cookie    secret.Text
	ExpiresAt time.Time
}

// ConnectURL starts a connect session and returns its first link. It fails with invalid_return_url,
// tenant_limit_reached, or with service_unavailable when no mail platform is configured.
func (s *Service) ConnectURL(ctx context.Context, acc access.Account, request LinkRequest) (Link, error) {
	var returnURL string
	if request.ReturnURL != nil {
		returnURL = *request.ReturnURL
		settings, err := s.Settings.Settings(ctx, acc.ID)
		if err != nil {
			return Link{}, err
		}
		if err := settings.CheckReturnURL(returnURL); err != nil {
			return Link{}, err
		}
	}
	id, err := ident.NewFrom(s.Random, s.Now())
	if err != nil {
		return Link{}, err
	}
	session := tenant.ConnectSession{
		ID: id, Status: tenant.SessionPending, Lifetime: cmp.Or(request.Lifetime, tenant.DefaultLinkLifetime), ReturnURL: returnURL, State: request.State,
	}
	link, flow, err := s.newLink(ctx, acc, session)
	if err != nil {
		return Link{}, err
	}
	session.ExpiresAt = link.ExpiresAt
	if err := s.Flows.DeleteFlows(ctx, s.Now()); err != nil {
		return Link{}, err
	}
	if err := s.Sessions.DeleteConnectSessions(ctx, s.Now().Add(-ports.SessionRetention)); err != nil {
		return Link{}, err
	}
	return link, s.Sessions.StartConnectSession(ctx, session, flow)
}

// newLink returns a new link of a session and the flow of the link. It does not store them. It
// fails with tenant_limit_reached, or with service_unavailable when no mail platform is configured.
func (s *Service) newLink(ctx context.Context, acc access.Account, session tenant.ConnectSession) (Link, ports.ConnectFlow, error) {
	tenants, err := s.Tenants.Tenants(ctx, acc.ID)
	if err != nil {
		return Link{}, ports.ConnectFlow{}, err
	}
	connectedCount := 0
	for _, t := range tenants {
		if t.Consent == tenant.ConsentGranted {
			connectedCount++
		}
	}
	if err := acc.CheckFreeSlot(connectedCount); err != nil {
		return Link{}, ports.ConnectFlow{}, err
	}
	expires := s.Now().Add(session.Lifetime).Truncate(time.Second)
	state, err := s.sealState(acc.ID, expires)
	if err != nil {
		return Link{}, ports.ConnectFlow{}, err
	}
	callback, _ := s.redirectURIs()
	consentURL, err := s.Platform.ConsentURL(ctx, state, callback)
	if err != nil {
		return Link{}, ports.ConnectFlow{}, fmt.Errorf("consent url: %w", err)
	}
	flow := ports.ConnectFlow{StateHash: hash(state), Account: acc.ID, Step: ports.FlowStarted, ExpiresAt: expires}
	return Link{SessionID: session.ID, URL: consentURL, ExpiresAt: expires}, flow, nil
}

// Callback handles the platform's redirect after the consent. rawQuery is the query of the
// redirect. Callback marks the link as used, binds the flow to this browser, and returns a redirect
// to the sign-in. It fails with connect_link_invalid, consent_declined, invalid_request, or an
// error of the platform. If the platform's answer is invalid or missing, the link can still be
// used.
//
// The tenant in the query proves nothing, because anyone can open this URL with any GUID. It only
// selects the tenant to which the administrator signs in.
func (s *Service) Callback(ctx context.Context, rawQuery string) (Redirect, error) {
	state, err := singleParam(rawQuery, "state")
	if err != nil {
		return Redirect{}, err
	}
	owner, err := s.openState(state)
	if err != nil {
		return Redirect{}, err
	}
	claimed, consentErr := s.claimedTenant(ctx, rawQuery)
	if consentErr != nil && fault.ErrorOf(consentErr).Code.Kind != fault.Forbidden {
		return Redirect{}, consentErr // the link can still be used
	}
	flow, err := s.Flows.TakeFlow(ctx, hash(state), [32]byte{}, ports.FlowStarted, ports.FlowSigningIn, s.Now())
	if err != nil {
		return Redirect{}, err
	}
	if flow.Account != owner {
		return Redirect{}, invalidLinkError()
	}
	if consentErr != nil {
		return Redirect{}, s.recordDecline(ctx, flow, consentErr)
	}
	return s.sendToSignIn(ctx, flow, claimed)
}

// claimedTenant returns the tenant that the platform's redirect names. It fails with
// consent_declined, or with invalid_request when the query is invalid or names no tenant.
func (s *Service) claimedTenant(ctx context.Context, rawQuery string) (tenant.GUID, error) {
	grantedGUID, err := s.Platform.Granted(ctx, rawQuery)
	if err != nil {
		return "", fmt.Errorf("consent: %w", err)
	}
	claimed, ok := tenant.ParseGUID(string(grantedGUID))
	if !ok || claimed == tenant.NoGUID {
		return "", fault.InvalidRequest.With("the mail platform's answer names no tenant")
	}
	return claimed, nil
}

func (s *Service) sendToSignIn(ctx context.Context, flow ports.ConnectFlow, claimed tenant.GUID) (Redirect, error) {
	cookie, err := s.newCookie(flow.StateHash)
	if err != nil {
		return Redirect{}, err
	}
	nonce, err := s.randomToken()
	if err != nil {
		return Redirect{}, err
	}
	verifier, err := s.randomToken() // 43 characters of the alphabet that RFC 7636 allows
	if err != nil {
		return Redirect{}, err
	}
	flow.Step, flow.ClaimedTenant, flow.Nonce = ports.FlowSigningIn, claimed, nonce
	flow.BrowserHash = hash(cookie.Reveal())
	if flow.SealedVerifier, err = s.Sealer.Seal(secret.New(verifier), verifierAssociatedData(flow)); err != nil {
		return Redirect{}, fmt.Errorf("seal verifier: %w", err)
	}
	signIn := s.signInRequest(flow, cookie, secret.New(verifier))
	flow.SignInHash = hash(signIn.State)
	var signInURL string
	err = reconcile.Call(ctx, func(ctx context.Context) (err error) {
		signInURL, err = s.Platform.SignInURL(ctx, signIn)
		return err
	})
	if err != nil {
		return Redirect{}, fmt.Errorf("sign-in url: %w", err)
	}
	return Redirect{URL: signInURL, Cookie: cookie, ExpiresAt: flow.ExpiresAt}, s.Flows.SaveFlow(ctx, flow)
}

func (s *Service) signInRequest(flow ports.ConnectFlow, cookie, verifier secret.Text) ports.SignIn {
	_, redirect := s.redirectURIs()
	return ports.SignIn{
		Tenant: flow.ClaimedTenant, State: deriveToken(cookie, "sign-in"), Nonce: flow.Nonce, Verifier: verifier,
		Redirect: redirect,
	}
}

// verifierAssociatedData returns the associated data that binds a sealed PKCE verifier to its flow.
func verifierAssociatedData(flow ports.ConnectFlow) string {
	return "connect/verifier/" + hex.EncodeToString(flow.StateHash[:])
}

// singleParam returns a query parameter that must occur exactly once. Otherwise it fails with
// connect_link_invalid.
func singleParam(rawQuery, name string) (string, error) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil || len(query[name]) != 1 {
		return "", invalidLinkError()
	}
	return query[name][0], nil
}
