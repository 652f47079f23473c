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

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	// upstreamRetryAfter is the Retry-After that callers get after Microsoft has throttled
	// Instantly, if Instantly sends none.
	upstreamRetryAfter = 5 * time.Second
	// workspaceWindow is the window in which Instantly counts the sign-ins that a workspace starts.
	workspaceWindow = time.Minute
)

// starter holds the HTTP client and the wait scopes for starting sign-ins. Instantly has separate
// limits for these calls, so a Retry-After in their answers does not apply to other calls.
type starter struct {
	http  *http.Client // does not observe Retry-After
	waits *sdk.Waits
	// The scopes in waits: all calls with the key, the starts with the key, and the starts with all
	// keys.
	key, startsOfKey, allStarts string
}

func newStarter(s *processState, base string, key sdk.Secret) starter {
	const suffix = " start_sign_in"
	scope := sdk.KeyScope(base, key)
	return starter{s.http, s.waits, scope, scope + suffix, sdk.KeyScope(base, sdk.Secret{}) + suffix}
}

// check fails while starts must wait.
func (s starter) check(ctx context.Context) error {
	return s.waits.Check(ctx, s.key, s.startsOfKey, s.allStarts)
}

// observe makes further starts wait if err has the Retry-After of an answer to a start. A 429 that
// demands a longer wait than workspaceWindow means that Instantly has blocked the IP address.
// Further starts would extend the block, so the starts with all keys wait.
func (s starter) observe(ctx context.Context, err error) {
	result := sdk.OutcomeOf(err)
	scope := s.startsOfKey
	if result.Kind == sdk.Throttled && result.RetryAfter > workspaceWindow {
		scope = s.allStarts
	}
	s.waits.Extend(ctx, scope, result.RetryAfter)
}

// StartSignIn implements sdk.SendingPlatform. An OAuth session of Instantly does not belong to an
// address: Instantly connects the mailbox that signs in, whichever it is.
func (p *platform) StartSignIn(ctx context.Context, address string) (sdk.SignInSession, error) {
	var answer struct {
		SessionID string    `json:"session_id"`
		AuthURL   string    `json:"auth_url"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := p.starter.check(ctx); err != nil {
		return sdk.SignInSession{}, err
	}
	if err := p.callWith(ctx, p.starter.http, http.MethodPost, "/oauth/microsoft/init", &answer); err != nil {
		p.starter.observe(ctx, err)
		return sdk.SignInSession{}, withUpstreamRetry(asOutcome(err))
	}
	switch {
	case answer.SessionID == "":
		return sdk.SignInSession{}, sdk.BrokenAnswer("session_without_id")
	case !sdk.SignInLink(answer.AuthURL, p.authHosts):
		return sdk.SignInSession{}, sdk.BrokenAnswer("auth_url_of_different_host")
	}
	return sdk.SignInSession{ID: answer.SessionID, URL: withLoginHint(answer.AuthURL, address), ExpiresAt: answer.ExpiresAt}, nil
}

// withUpstreamRetry adds upstreamRetryAfter to an error that reports a 503 without a Retry-After
// header. Instantly answers with this status if Microsoft throttles it.
func withUpstreamRetry(err error) error {
	result := sdk.OutcomeOf(err)
	if result.Kind != sdk.Down || result.Cause != "status 503" || result.RetryAfter > 0 {
		return err
	}
	result.RetryAfter = upstreamRetryAfter
	return &result
}

// withLoginHint appends the parameter login_hint, with which Microsoft's page fills in the address.
// It keeps the other parameters as they are. If the URL already contains login_hint, withLoginHint
// returns it unchanged.
func withLoginHint(authURL, address string) string {
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

// oauthErrorCode matches an OAuth error code.
var oauthErrorCode = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

// SignIn implements sdk.SendingPlatform. A session that Instantly does not have counts as expired.
func (p *platform) SignIn(ctx context.Context, session string) (sdk.Progress, error) {
	if strings.Trim(session, ".") == "" {
		return sdk.Progress{State: sdk.SignInExpired}, nil // "." and ".." would change the path
	}
	var answer struct{ Status, Email, Name, Error string }
	err := p.call(ctx, http.MethodGet, "/oauth/session/status/"+url.PathEscape(session), &answer)
	switch {
	case errors.Is(err, errNotFound):
		return sdk.Progress{State: sdk.SignInExpired}, nil
	case err != nil:
		return sdk.Progress{}, err
	}
	switch answer.Status {
	case "success":
		if answer.Email == "" {
			return sdk.Progress{}, sdk.BrokenAnswer("success_without_email")
		}
		return sdk.Progress{State: sdk.SignInSucceeded, Address: answer.Email, Name: answer.Name}, nil
	case "error":
		reason := "sign_in_failed"
		if oauthErrorCode.MatchString(answer.Error) {
			reason = answer.Error
		}
		return sdk.Progress{State: sdk.SignInFailed, Reason: reason}, nil
	case "expired":
		return sdk.Progress{State: sdk.SignInExpired}, nil
	case "pending":
		return sdk.Progress{State: sdk.SignInPending}, nil
	default:
		return sdk.Progress{}, sdk.BrokenAnswer("unknown_session_status")
	}
}
