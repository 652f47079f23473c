// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// Tokens keeps app-only tokens from one call for the next.
type Tokens struct {
	Now func() time.Time

	mu      sync.Mutex
	entries map[tokenKey]*entry
}

type tokenKey struct {
	connection string
	tenant     tenant.GUID
	scope      string
}

// entry holds one token. Who holds turn may fetch a new one; the others wait
// for it rather than fetch their own.
type entry struct {
	turn  chan struct{}
	token Token
}

// sweepAt is how many tokens are kept before those that ended are removed.
const sweepAt = 1024

func (c *Tokens) entry(key tokenKey) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		return e
	}
	if c.entries == nil {
		c.entries = map[tokenKey]*entry{}
	}
	if len(c.entries) >= sweepAt {
		for k, e := range c.entries {
			if !c.Now().Before(e.token.Expires) {
				delete(c.entries, k)
			}
		}
	}
	e := &entry{turn: make(chan struct{}, 1)}
	c.entries[key] = e
	return e
}

func (c *Tokens) kept(e *entry) Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.token
}

func (c *Tokens) keep(e *entry, t Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.token = t
}

// Source gives the tokens of one connection for one tenant and resource.
type Source struct {
	Host       Host
	Tokens     *Tokens
	Connection string // the connection's fingerprint
	Tenant     tenant.GUID
	Scope      string
}

func (s Source) entry() *entry {
	return s.Tokens.entry(tokenKey{s.Connection, s.Tenant, s.Scope})
}

// Token returns the kept token, or a new one where it is about to end.
func (s Source) Token(ctx context.Context) (Token, error) {
	e := s.entry()
	if t := s.Tokens.kept(e); t.usable(s.Tokens.Now()) {
		return t, nil
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return Token{}, fmt.Errorf("wait for a token: %w", ctx.Err())
	}
	if t := s.Tokens.kept(e); t.usable(s.Tokens.Now()) {
		return t, nil // another call fetched it meanwhile
	}
	t, err := s.Host.AppToken(ctx, s.Tenant, s.Scope)
	if err != nil {
		return Token{}, err
	}
	s.Tokens.keep(e, t)
	return t, nil
}

// Drop forgets the kept token if it is t.
func (s Source) Drop(t Token) {
	e := s.entry()
	if s.Tokens.kept(e) == t {
		s.Tokens.keep(e, Token{})
	}
}

// Renew forgets a token older than age, so that the next call sees what was
// granted or withdrawn since.
func (s Source) Renew(age time.Duration) {
	if t := s.Tokens.kept(s.entry()); s.Tokens.Now().Sub(t.Obtained) >= age {
		s.Drop(t)
	}
}

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
	s.Drop(t)
	if !kept {
		return a, nil
	}
	if t, err = s.Token(ctx); err != nil {
		return call.Answer{}, err
	}
	return send(t)
}
