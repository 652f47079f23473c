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
	// inFlight is how many cmdlets run at once in a tenant; more earn "micro
	// delays" and 429.
	inFlight = 3
	// burst is how many calls may come at once after a quiet time: two
	// minutes' worth, so that connecting a tenant and provisioning its
	// mailboxes never waits.
	burst = 120
	// sweepAt is how many gates are kept before idle ones are removed.
	sweepAt = 4096
)

// Gate paces the cmdlets of one tenant.
type Gate struct {
	slots chan struct{}
	pace  *rate.Limiter
}

// Gates holds the gate of each tenant.
type Gates struct {
	mu    sync.Mutex
	gates map[gateKey]*Gate
}

type gateKey struct {
	connection string
	tenant     tenant.GUID
}

// Of returns the gate of a tenant, for perSecond calls on the average; 0 does
// not pace.
func (g *Gates) Of(connection string, id tenant.GUID, perSecond float64) *Gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := gateKey{connection, id}
	if gate := g.gates[key]; gate != nil {
		return gate
	}
	if g.gates == nil {
		g.gates = map[gateKey]*Gate{}
	}
	if len(g.gates) >= sweepAt {
		for k, gate := range g.gates {
			if gate.idle() {
				delete(g.gates, k)
			}
		}
	}
	limit := rate.Limit(perSecond)
	if perSecond <= 0 {
		limit = rate.Inf
	}
	gate := &Gate{slots: make(chan struct{}, inFlight), pace: rate.NewLimiter(limit, burst)}
	g.gates[key] = gate
	return gate
}

func (g *Gate) idle() bool { return len(g.slots) == 0 && g.pace.Tokens() >= burst }

// Enter waits for a place and returns how to leave it. A wait that the caller's
// deadline has no room for is a throttle at once.
func (g *Gate) Enter(ctx context.Context) (leave func(), err error) {
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, g.ended(ctx)
	}
	if err := g.pace.Wait(ctx); err != nil {
		<-g.slots
		return nil, g.ended(ctx)
	}
	return func() { <-g.slots }, nil
}

func (g *Gate) ended(ctx context.Context) error {
	if ctx.Err() == context.Canceled {
		return fmt.Errorf("wait for our turn: %w", ctx.Err())
	}
	return &outcome.Error{
		Kind: outcome.Throttled, Cause: "own_pacing", RetryAfter: 10 * time.Second,
		Detail: "too many calls for this tenant at once",
	}
}
