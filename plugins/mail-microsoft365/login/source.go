// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"net/http"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// Fresh is how old a token may be at a write.
const Fresh = 5 * time.Second

// Source gives the tokens of one connection for one tenant and resource.
type Source struct {
	Host       Host
	Tokens     *Tokens
	Connection string // the connection's fingerprint
	Tenant     tenant.GUID
	Scope      string
}

func (s Source) key() tokenKey { return tokenKey{s.Connection, s.Tenant, s.Scope} }

// Token returns the kept token, or a new one where it is about to end or was
// to be renewed.
func (s Source) Token(ctx context.Context) (Token, error) {
	kept, f, first := s.Tokens.take(s.key())
	if f == nil {
		return kept, nil
	}
	if first {
		// Others wait for it too, so it does not end with this one's call.
		go s.fetch(context.WithoutCancel(ctx), f)
	}
	select {
	case <-f.done:
		return f.token, f.err
	case <-ctx.Done():
		return Token{}, call.Ended(ctx)
	}
}

func (s Source) fetch(ctx context.Context, f *flight) {
	ctx, cancel := context.WithTimeout(ctx, call.Deadline)
	defer cancel()
	t, err := s.Host.AppToken(ctx, s.Tenant, s.Scope)
	s.Tokens.land(s.key(), f, t, err)
}

// Renew has a token of that age replaced, so that the next call sees what was
// granted or withdrawn since.
func (s Source) Renew(age time.Duration) { s.Tokens.renew(s.key(), age) }

// RenewForWrite renews before a write. Issued tokens live for an hour whatever
// an administrator withdraws; only a new one tells. Writes that follow each
// other share one: a token for each would be a loop to the login host.
func (s Source) RenewForWrite() { s.Renew(Fresh) }

// Do sends a request with a token. The platform writes permissions into
// tokens, so a refusal of a kept token is tried once more with a new one.
func (s Source) Do(ctx context.Context, send func(Token) (call.Answer, error)) (call.Answer, error) {
	began := s.Tokens.Now()
	t, err := s.Token(ctx)
	if err != nil {
		return call.Answer{}, err
	}
	a, err := send(t)
	kept := t.Obtained.Before(began)
	if err != nil || (a.Status != http.StatusUnauthorized && (a.Status != http.StatusForbidden || !kept)) {
		return a, err
	}
	s.Tokens.drop(s.key(), t)
	if !kept {
		return a, nil
	}
	if t, err = s.Token(ctx); err != nil {
		return call.Answer{}, err
	}
	return send(t)
}
