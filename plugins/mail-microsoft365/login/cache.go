// SPDX-License-Identifier: Apache-2.0

package login

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
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

// entry holds one token and the request for the next.
type entry struct {
	token   Token
	stale   bool        // a newer token is wanted
	renewed []time.Time // when one was wanted lately
	hold    time.Time   // until then none is wanted
	flight  *flight     // nil while no request is under way
}

// flight is one request for a token. All who need the token wait for the same
// request and share its failure: queued behind each other, each would meet a
// dead host for its own full time.
type flight struct {
	done  chan struct{}
	token Token
	err   error
}

// sweepAt is how many tokens are kept before those that ended are removed.
const sweepAt = 1024

func (c *Tokens) entry(key tokenKey) *entry {
	if e := c.entries[key]; e != nil {
		return e
	}
	if c.entries == nil {
		c.entries = map[tokenKey]*entry{}
	}
	if len(c.entries) >= sweepAt {
		for k, e := range c.entries {
			if e.flight == nil && !c.Now().Before(e.token.Expires) {
				delete(c.entries, k)
			}
		}
	}
	e := &entry{}
	c.entries[key] = e
	return e
}

// take returns the kept token, or the request to wait for; first is true for
// the one who has to make it.
func (c *Tokens) take(key tokenKey) (kept Token, f *flight, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(key)
	if !e.stale && e.token.usable(c.Now()) {
		return e.token, nil, false
	}
	if e.flight == nil {
		e.flight, first = &flight{done: make(chan struct{})}, true
	}
	return Token{}, e.flight, first
}

// land ends a request. A login host that is away or wants us to wait leaves a
// token that is still good in use; one that refuses us does not.
func (c *Tokens) land(key tokenKey, f *flight, t Token, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(key)
	if err != nil && away(err) && e.token.usable(c.Now()) {
		e.hold = c.Now().Add(awayWait(err))
		t, err = e.token, nil
	}
	e.token, e.stale = t, false
	f.token, f.err = t, err
	if e.flight == f {
		e.flight = nil
	}
	close(f.done)
}

func away(err error) bool {
	kind := outcome.Of(err)
	return kind == outcome.Throttled || kind == outcome.Down
}

func awayWait(err error) time.Duration {
	var o *outcome.Error
	if errors.As(err, &o) && o.RetryAfter > 0 {
		return o.RetryAfter
	}
	return Fresh
}

// drop forgets the kept token if it is t.
func (c *Tokens) drop(key tokenKey, t Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entry(key); e.token == t {
		e.token = Token{}
	}
}

// maxRenewals is how many tokens a minute are asked for although one is good.
// The login host answers AADSTS50196 to an application that asks for the same
// again and again, and then nobody gets one; what is well below keeps us out
// of that however many writes and syncs come in.
const maxRenewals = 30

func (c *Tokens) renew(key tokenKey, age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, now := c.entry(key), c.Now()
	if e.stale || !e.token.usable(now) || now.Sub(e.token.Obtained) < age || now.Before(e.hold) {
		return
	}
	e.renewed = slices.DeleteFunc(e.renewed, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	if len(e.renewed) < maxRenewals {
		e.stale, e.renewed = true, append(e.renewed, now)
	}
}
