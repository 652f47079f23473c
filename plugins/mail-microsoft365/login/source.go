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

const (
	// WriteTokenMaxAge is how old a token may be for a write.
	WriteTokenMaxAge = 5 * time.Minute
	// SyncTokenMaxAge is how old a token may be at the beginning of a sync. The calls of one sync
	// follow each other closely and share a token.
	SyncTokenMaxAge = 5 * time.Second
)

// TokenSource returns the tokens of one connection for one tenant and scope.
type TokenSource struct {
	Host       Host
	Tokens     *TokenCache
	Connection string // fingerprint of the connection
	Tenant     tenant.GUID
	Scope      string
}

func (s TokenSource) key() tokenKey { return tokenKey{s.Connection, s.Tenant, s.Scope} }

// Token returns the cached token. It requests a new one if the cached token expires soon or was
// marked for renewal.
func (s TokenSource) Token(ctx context.Context) (Token, error) {
	cached, f, start := s.Tokens.tokenOrRequest(s.key())
	if f == nil {
		return cached, nil
	}
	if start {
		// Other callers may wait for this request, so it must not end with ctx.
		panics.Go(func() { s.fetch(context.WithoutCancel(ctx), f) }, func(e *panics.Error) {
			s.Tokens.finish(s.key(), f, Token{}, e)
		})
	}
	select {
	case <-f.done:
		panics.Continue(f.err)
		return f.token, f.err
	case <-ctx.Done():
		return Token{}, call.ContextError(ctx)
	}
}

func (s TokenSource) fetch(ctx context.Context, f *tokenRequest) {
	ctx, cancel := context.WithTimeout(ctx, call.Deadline)
	defer cancel()
	t, err := s.Host.AppToken(ctx, s.Tenant, s.Scope)
	s.Tokens.finish(s.key(), f, t, err)
}

// Renew marks the cached token for renewal if it is at least age old. The next call then sees what
// was granted or revoked in the meantime. See TokenCache.requestRenewal for the exceptions.
func (s TokenSource) Renew(age time.Duration) { s.Tokens.requestRenewal(s.key(), age) }

// RenewForWrite is Renew(WriteTokenMaxAge), for use before a write. A token is valid for about an
// hour even if the administrator revokes the consent. A new token, or a 401 or 403, shows that.
func (s TokenSource) RenewForWrite() { s.Renew(WriteTokenMaxAge) }

// Do calls send with a token. Tokens contain permissions, so a 401 or 403 for a cached token is
// repeated once with a new token. See replacementDelay for the exception.
func (s TokenSource) Do(ctx context.Context, send func(Token) (call.Response, error)) (call.Response, error) {
	began := s.Tokens.Now()
	t, err := s.Token(ctx)
	if err != nil {
		return call.Response{}, err
	}
	a, err := send(t)
	cached := t.Obtained.Before(began)
	if err != nil || !isRefusal(a) || !cached || !s.Tokens.discardRefused(s.key(), t, a.Status) {
		return a, err
	}
	if t, err = s.Token(ctx); err != nil {
		return call.Response{}, err
	}
	refused := a.Status
	a, err = send(t)
	if err == nil {
		s.Tokens.recordReplacement(s.key(), t, refused, a.Status == refused)
	}
	return a, err
}

func isRefusal(a call.Response) bool {
	return a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden
}
