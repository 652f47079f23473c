// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// upstreamPause is how long to wait when Microsoft throttles Instantly, which
// does not say.
const upstreamPause = 5 * time.Second

// StartSignIn implements sdk.SendingPlatform. A session of Instantly's is not
// bound to an address: whoever signs in is attached.
func (p *platform) StartSignIn(ctx context.Context, address string) (sdk.SignInSession, error) {
	var made struct {
		SessionID string    `json:"session_id"`
		AuthURL   string    `json:"auth_url"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := p.call(ctx, http.MethodPost, "/oauth/microsoft/init", &made); err != nil {
		return sdk.SignInSession{}, patient(settled(err))
	}
	switch {
	case made.SessionID == "":
		return sdk.SignInSession{}, sdk.BrokenBy("session_without_id")
	case !integration.AuthURL(made.AuthURL, p.hosts):
		return sdk.SignInSession{}, sdk.BrokenBy("auth_url_elsewhere")
	}
	return sdk.SignInSession{ID: made.SessionID, URL: hinted(made.AuthURL, address), ExpiresAt: made.ExpiresAt}, nil
}

// patient says when to come back after the 503 by which Instantly hands on that
// Microsoft throttles it.
func patient(err error) error {
	var o *outcome.Error
	if !errors.As(err, &o) || o.Kind != outcome.Down || o.Cause != "status 503" || o.RetryAfter > 0 {
		return err
	}
	later := *o
	later.RetryAfter = upstreamPause
	return &later
}

// hinted adds the parameter by which Microsoft fills in who is to sign in,
// unless Instantly has set it. The rest of the URL stays to the octet.
func hinted(authURL, address string) string {
	u, err := url.Parse(authURL)
	if err != nil || u.Query().Has("login_hint") {
		return authURL
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += "login_hint=" + url.QueryEscape(address)
	return u.String()
}

// oauthCode is the form of OAuth's error codes.
var oauthCode = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

// SignIn implements sdk.SendingPlatform.
func (p *platform) SignIn(ctx context.Context, session string) (sdk.Progress, error) {
	if strings.Trim(session, ".") == "" {
		return sdk.Progress{State: sdk.SignInExpired}, nil // would be another path
	}
	var now struct{ Status, Email, Name, Error string }
	err := p.call(ctx, http.MethodGet, "/oauth/session/status/"+url.PathEscape(session), &now)
	switch {
	case errors.Is(err, errGone):
		return sdk.Progress{State: sdk.SignInExpired}, nil
	case err != nil:
		return sdk.Progress{}, err
	}
	switch now.Status {
	case "success":
		if now.Email == "" {
			return sdk.Progress{}, sdk.BrokenBy("success_without_email")
		}
		return sdk.Progress{State: sdk.SignInSucceeded, Address: now.Email, Name: now.Name}, nil
	case "error":
		reason := "sign_in_failed"
		if oauthCode.MatchString(now.Error) {
			reason = now.Error
		}
		return sdk.Progress{State: sdk.SignInFailed, Reason: reason}, nil
	case "expired":
		return sdk.Progress{State: sdk.SignInExpired}, nil
	case "pending":
		return sdk.Progress{State: sdk.SignInPending}, nil
	default:
		return sdk.Progress{}, sdk.BrokenBy("unknown_session_status")
	}
}
