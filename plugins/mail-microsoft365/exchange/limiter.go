// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

const (
	// maxInFlight is the maximum number of cmdlets of one Limiter that run at the same time.
	// Exchange delays further cmdlets, or refuses them with status 429.
	maxInFlight = 3
	// burst is how many calls are not delayed by the pace after a time without calls. It is the
	// number of calls in two minutes at the default pace.
	burst = 120
	// If there are at least sweepThreshold limiters, adding one first removes the idle limiters.
	sweepThreshold = 4096
)

// Limiter limits the rate and the number of concurrent cmdlets of one connection in one tenant.
type Limiter struct {
	slots chan struct{}
	pace  *rate.Limiter
}

// Limiters has a Limiter for each connection and tenant. It is safe for concurrent use.
type Limiters struct {
	mu    sync.Mutex
	byKey map[limiterKey]*Limiter
}

type limiterKey struct {
	connection string
	tenant     tenant.GUID
}

// For returns the limiter of the calls that one connection makes for a tenant. perSecond limits the
// average number of calls per second. A value of 0 or less sets no limit. An existing limiter keeps
// the limit that it was created with.
func (ls *Limiters) For(connection string, id tenant.GUID, perSecond float64) *Limiter {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	key := limiterKey{connection, id}
	if limiter := ls.byKey[key]; limiter != nil {
		return limiter
	}
	if ls.byKey == nil {
		ls.byKey = map[limiterKey]*Limiter{}
	}
	if len(ls.byKey) >= sweepThreshold {
		for k, limiter := range ls.byKey {
			if limiter.isIdle() {
				delete(ls.byKey, k)
			}
		}
	}
	limit := rate.Limit(perSecond)
	if perSecond <= 0 {
		limit = rate.Inf
	}
	limiter := &Limiter{slots: make(chan struct{}, maxInFlight), pace: rate.NewLimiter(limit, burst)}
	ls.byKey[key] = limiter
	return limiter
}

func (l *Limiter) isIdle() bool { return len(l.slots) == 0 && l.pace.Tokens() >= burst }

// Acquire waits until a call may start. The caller must call release when the call has ended.
// Acquire returns a Throttled outcome if the deadline passes first. If the pace does not allow the
// call before the deadline, it returns this outcome at once. If the caller cancelled ctx, it
// returns an error that wraps context.Canceled.
func (l *Limiter) Acquire(ctx context.Context) (release func(), err error) {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, l.waitError(ctx)
	}
	if err := l.pace.Wait(ctx); err != nil {
		<-l.slots
		return nil, l.waitError(ctx)
	}
	return func() { <-l.slots }, nil
}

func (l *Limiter) waitError(ctx context.Context) error {
	if ctx.Err() == context.Canceled {
		return fmt.Errorf("wait for a call slot: %w", ctx.Err())
	}
	return &outcome.Error{
		Kind: outcome.Throttled, Cause: "own_pacing", RetryAfter: 10 * time.Second,
		Detail: "too many calls for this tenant at once",
	}
}
