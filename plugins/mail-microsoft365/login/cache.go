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

// TokenCache keeps access tokens between calls. It is safe for concurrent use.
type TokenCache struct {
	Now func() time.Time

	mu      sync.Mutex
	entries map[tokenKey]*cacheEntry
}

type tokenKey struct {
	connection string
	tenant     tenant.GUID
	scope      string
}

// cacheEntry has one token, the request for the next token, and the state that limits how often
// tokens are requested.
type cacheEntry struct {
	token           Token
	renewalWanted   bool
	renewalTimes    []time.Time // when renewals were requested during the last renewalWindow
	noRenewalBefore time.Time
	request         *tokenRequest    // nil if no request is in progress
	refusals        map[int]refusals // keyed by the status, 401 or 403
}

// refusals counts refused replacements: an API refuses a token, and then refuses the new token with
// the same status. A new token that is not refused with that status resets the count.
type refusals struct {
	count int
	last  Token // the new token that was counted last
}

// tokenRequest is one request for a token. Concurrent callers share the request and its result.
type tokenRequest struct {
	done  chan struct{}
	token Token
	err   error
}

// If the cache has at least sweepThreshold entries, adding an entry first removes the entries
// without a valid token.
const sweepThreshold = 1024

func (c *TokenCache) entry(key tokenKey) *cacheEntry {
	if existing := c.entries[key]; existing != nil {
		return existing
	}
	if c.entries == nil {
		c.entries = map[tokenKey]*cacheEntry{}
	}
	if len(c.entries) >= sweepThreshold {
		for k, existing := range c.entries {
			if existing.request == nil && !c.Now().Before(existing.token.Expires) {
				delete(c.entries, k)
			}
		}
	}
	created := &cacheEntry{}
	c.entries[key] = created
	return created
}

// tokenOrRequest returns the cached token if it can be used and no renewal is wanted. Otherwise it
// returns the request to wait for. mustSend is true if the caller must send that request.
func (c *TokenCache) tokenOrRequest(key tokenKey) (cached Token, request *tokenRequest, mustSend bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(key)
	if !e.renewalWanted && e.token.isUsable(c.Now()) {
		return e.token, nil, false
	}
	if e.request == nil {
		e.request, mustSend = &tokenRequest{done: make(chan struct{})}, true
	}
	return Token{}, e.request, mustSend
}

// finish stores the result of a request and wakes the callers that wait for it. An old token that
// can still be used stays in use after a Throttled, Down or Unknown outcome. After any other error,
// finish removes the old token.
func (c *TokenCache) finish(key tokenKey, request *tokenRequest, t Token, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(key)
	if isUnavailable(err) && e.token.isUsable(c.Now()) {
		e.noRenewalBefore = c.Now().Add(unavailableDelay(err))
		t, err = e.token, nil
	}
	e.token, e.renewalWanted = t, false
	request.token, request.err = t, err
	if e.request == request {
		e.request = nil
	}
	close(request.done)
}

func isUnavailable(err error) bool {
	switch outcome.KindOf(err) {
	case outcome.Throttled, outcome.Down, outcome.Unknown:
		return true
	}
	return false
}

func unavailableDelay(err error) time.Duration {
	var result *outcome.Error
	if errors.As(err, &result) && result.RetryAfter > 0 {
		return result.RetryAfter
	}
	return failedRenewalDelay
}

// failedRenewalDelay is the minimum time until the next renewal, if the last renewal failed with a
// Throttled, Down or Unknown outcome that contains no retry delay.
const failedRenewalDelay = 30 * time.Second

// discardRefused removes the cached token if it is t, which an API has refused with the status. It
// returns false if the token must stay in use. This is the case if the last new tokens were refused
// too and it is too early to request the next token (see replacementDelay).
func (c *TokenCache) discardRefused(key tokenKey, t Token, status int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(key)
	if e.token != t {
		return true // a concurrent call has already replaced t
	}
	if c.Now().Sub(t.Obtained) < replacementDelay(e.refusals[status].count) {
		return false
	}
	e.token = Token{}
	return true
}

// recordReplacement records whether an API refused the new token t with the status with which it
// had refused the previous token.
func (c *TokenCache) recordReplacement(key tokenKey, t Token, status int, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(key)
	if e.refusals == nil {
		e.refusals = map[int]refusals{}
	}
	switch before := e.refusals[status]; {
	case !refused:
		delete(e.refusals, status)
	case before.last != t: // concurrent calls share the same new token
		e.refusals[status] = refusals{before.count + 1, t}
	}
}

// replacementDelay returns the age that a refused token must have before it is replaced. count is
// the number of consecutive new tokens that were refused too. The first three replacements have no
// delay. The fourth replacement has a delay of one second. The delay doubles with each further
// replacement, up to MaxTokenAge. It takes minutes to an hour until new tokens contain a new role.
// Without a delay, a caller that tries once per second would request a new token each time.
func replacementDelay(count int) time.Duration {
	const withoutDelay = 3
	if count < withoutDelay {
		return 0
	}
	return min(time.Second<<min(count-withoutDelay, 16), MaxTokenAge)
}

// The login host answers AADSTS50196 to an application that sends the same request too often, and
// then issues no token to it at all. Therefore a valid token is renewed at most maxRenewals times
// in renewalWindow.
const (
	maxRenewals   = 3
	renewalWindow = 10 * time.Minute
)

// requestRenewal marks the token for renewal if it is at least age old. It does nothing if the
// token cannot be used, if the time noRenewalBefore has not come, or if there were maxRenewals
// during the last renewalWindow.
func (c *TokenCache) requestRenewal(key tokenKey, age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, now := c.entry(key), c.Now()
	if e.renewalWanted || !e.token.isUsable(now) || now.Sub(e.token.Obtained) < age || now.Before(e.noRenewalBefore) {
		return
	}
	e.renewalTimes = slices.DeleteFunc(e.renewalTimes, func(at time.Time) bool { return now.Sub(at) >= renewalWindow })
	if len(e.renewalTimes) < maxRenewals {
		e.renewalWanted, e.renewalTimes = true, append(e.renewalTimes, now)
	}
}
