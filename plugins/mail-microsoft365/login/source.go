// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"net/http"
	"time"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// MaxTokenAge is the age from which RenewOld renews a token. It is also the longest delay of
// replacementDelay.
const MaxTokenAge = 5 * time.Minute

// TokenSource returns the tokens of one connection for one tenant and scope.
type TokenSource struct {
	Host       Host
	Tokens     *TokenCache
	Connection string // fingerprint of the connection
	Tenant     tenant.GUID
	Scope      string
}

func (s TokenSource) key() tokenKey { return tokenKey{s.Connection, s.Tenant, s.Scope} }

// Token returns the cached token. It requests a new token if none is cached, or if the cached token
// expires soon or is marked for renewal.
func (s TokenSource) Token(ctx context.Context) (Token, error) {
	cached, request, mustSend := s.Tokens.tokenOrRequest(s.key())
	if request == nil {
		return cached, nil
	}
	if mustSend {
		// Other callers may wait for this request, so it must continue after the end of ctx.
		panics.Go(func() { s.fetch(context.WithoutCancel(ctx), request) }, func(e *panics.Error) {
			s.Tokens.finish(s.key(), request, Token{}, e)
		})
	}
	select {
	case <-request.done:
		panics.Repanic(request.err)
		return request.token, request.err
	case <-ctx.Done():
		return Token{}, call.ContextError(ctx)
	}
}

func (s TokenSource) fetch(ctx context.Context, request *tokenRequest) {
	ctx, cancel := context.WithTimeout(ctx, call.Deadline)
	defer cancel()
	t, err := s.Host.AppToken(ctx, s.Tenant, s.Scope)
	s.Tokens.finish(s.key(), request, t, err)
}

// Renew marks the cached token for renewal if it is at least age old. The next call then requests a
// token, which contains the current grants. See TokenCache.requestRenewal for the exceptions.
func (s TokenSource) Renew(age time.Duration) { s.Tokens.requestRenewal(s.key(), age) }

// RenewOld is Renew(MaxTokenAge), for use before a write and at the beginning of a sync. A token
// can stay valid for about an hour after the administrator has revoked the consent. tenantry
// notices the revocation only when it requests a new token, or when an API answers 401 or 403.
func (s TokenSource) RenewOld() { s.Renew(MaxTokenAge) }

// Do calls send with a token. If an API refuses a cached token with 401 or 403, the permissions in
// the token may be too old. Do then calls send once more with a new token, unless it is too early
// to request one (see replacementDelay).
func (s TokenSource) Do(ctx context.Context, send func(Token) (call.Response, error)) (call.Response, error) {
	began := s.Tokens.Now()
	t, err := s.Token(ctx)
	if err != nil {
		return call.Response{}, err
	}
	resp, err := send(t)
	cached := t.Obtained.Before(began)
	if err != nil || !isRefusal(resp) || !cached || !s.Tokens.discardRefused(s.key(), t, resp.Status) {
		return resp, err
	}
	if t, err = s.Token(ctx); err != nil {
		return call.Response{}, err
	}
	refused := resp.Status
	resp, err = send(t)
	if err == nil {
		s.Tokens.recordReplacement(s.key(), t, refused, resp.Status == refused)
	}
	return resp, err
}

func isRefusal(resp call.Response) bool {
	return resp.Status == http.StatusUnauthorized || resp.Status == http.StatusForbidden
}
