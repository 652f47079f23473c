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

// cacheEntry holds one token and the request for the next.
type cacheEntry struct {
	token           Token
	renewalWanted   bool             // a renewal was requested
	renewals        []time.Time      // times of the renewals in the last renewalWindow
	noRenewalBefore time.Time        // no renewal before this time
	request         *tokenRequest    // nil if no request is in progress
	refusals        map[int]refusals // by the status, 401 or 403
}

// refusals counts the consecutive new tokens that an API refused with the same status as the tokens
// that they replaced.
type refusals struct {
	count int
	last  Token // the new token that was counted last
}

// tokenRequest is one request for a token. All callers that need the token wait for the same
// request and share its failure. If each caller sent its own request after the previous one, each
// would wait for the full timeout of a host that does not answer.
type tokenRequest struct {
	done  chan struct{}
	token Token
	err   error
}

// sweepAt is the number of cached tokens above which expired ones are removed.
const sweepAt = 1024

func (c *TokenCache) entry(key tokenKey) *cacheEntry {
	if e := c.entries[key]; e != nil {
		return e
	}
	if c.entries == nil {
		c.entries = map[tokenKey]*cacheEntry{}
	}
	if len(c.entries) >= sweepAt {
		for k, e := range c.entries {
			if e.request == nil && !c.Now().Before(e.token.Expires) {
				delete(c.entries, k)
			}
		}
	}
	e := &cacheEntry{}
	c.entries[key] = e
	return e
}

// tokenOrRequest returns the cached token if it can be used. Otherwise it returns the request to
// wait for; start is true for the caller that must send it.
func (c *TokenCache) tokenOrRequest(key tokenKey) (cached Token, request *tokenRequest, start bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(key)
	if !e.renewalWanted && e.token.usable(c.Now()) {
		return e.token, nil, false
	}
	if e.request == nil {
		e.request, start = &tokenRequest{done: make(chan struct{})}, true
	}
	return Token{}, e.request, start
}

// finish stores the result of a request and wakes its callers. If the login host is unreachable or
// throttles, the old token stays in use while it is valid. After any other error, finish drops the
// old token.
func (c *TokenCache) finish(key tokenKey, request *tokenRequest, t Token, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(key)
	if err != nil && isUnavailable(err) && e.token.usable(c.Now()) {
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
	kind := outcome.Of(err)
	return kind == outcome.Throttled || kind == outcome.Down
}

func unavailableDelay(err error) time.Duration {
	var o *outcome.Error
	if errors.As(err, &o) && o.RetryAfter > 0 {
		return o.RetryAfter
	}
	return failedRenewalDelay
}

// failedRenewalDelay is how long no renewal is tried after a failed one, if the answer has no
// Retry-After.
const failedRenewalDelay = 30 * time.Second

// discardRefused removes the cached token if it is t, which an API has refused with the status. It
// returns false if the token must stay in use: the last new tokens were refused too, and it is too
// soon for the next one. See replacementDelay.
func (c *TokenCache) discardRefused(key tokenKey, t Token, status int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(key)
	if e.token != t {
		return true // a concurrent call has replaced t
	}
	if c.Now().Sub(t.Obtained) < replacementDelay(e.refusals[status].count) {
		return false
	}
	e.token = Token{}
	return true
}

// recordReplacement records whether an API refused t. t replaces a token that the API refused with
// the status.
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
	case before.last != t: // concurrent calls share one replacement
		e.refusals[status] = refusals{before.count + 1, t}
	}
}

// replacementDelay returns the age that a refused token must have before it is replaced. count is
// the number of consecutive new tokens that were refused too. The first three replacements have no
// delay. The fourth waits one second, and each further one waits twice as long as the one before. A
// role takes minutes to an hour until new tokens contain it, and a caller may try once a second.
func replacementDelay(count int) time.Duration {
	const atOnce = 3
	if count < atOnce {
		return 0
	}
	return min(time.Second<<min(count-atOnce, 16), MaxTokenAge)
}

// The login host answers AADSTS50196 to an application that sends the same request too often, and
// then no caller gets a token. A valid token is therefore renewed at most maxRenewals times in
// renewalWindow.
const (
	maxRenewals   = 3
	renewalWindow = 10 * time.Minute
)

// requestRenewal marks the token for renewal if it is at least age old. It does nothing for a token
// that cannot be used, before noRenewalBefore, and after maxRenewals in the last renewalWindow.
func (c *TokenCache) requestRenewal(key tokenKey, age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, now := c.entry(key), c.Now()
	if e.renewalWanted || !e.token.usable(now) || now.Sub(e.token.Obtained) < age || now.Before(e.noRenewalBefore) {
		return
	}
	e.renewals = slices.DeleteFunc(e.renewals, func(at time.Time) bool { return now.Sub(at) >= renewalWindow })
	if len(e.renewals) < maxRenewals {
		e.renewalWanted, e.renewals = true, append(e.renewals, now)
	}
}
