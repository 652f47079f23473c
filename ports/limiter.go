// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
)

// Limiter counts the requests of accounts and the calls to providers. Replicas that share a store
// count together. They use the store's clock, and count each request in one atomic step.
//
// A Limiter never fails, and a cancelled request still counts. While the store is unavailable or
// slow, each replica counts separately, so each replica may allow the full limit. In an outage, the
// first requests wait for the store, by default for at most 400 ms. Later requests do not wait for
// it. A replica remembers the requests that it allowed, even if the store is empty after the
// outage.
type Limiter interface {
	// Take counts a request in a bucket if the bucket's limit allows the request. giveBack removes
	// the request from the count. It does nothing for a refused request and may be called more than
	// once.
	Take(ctx context.Context, b ratelimit.Bucket) (v ratelimit.Verdict, giveBack func())
	// Remaining returns the number of requests that the bucket still allows now. It does not count
	// a request.
	Remaining(ctx context.Context, b ratelimit.Bucket) int
	// Enter takes one of the slots of a name. slots is the total number of slots of that name. ok
	// is false if no slot is free. leave releases the slot and may be called more than once. The
	// slots of a crashed replica become free after a timeout.
	Enter(ctx context.Context, name string, slots int) (leave func(), ok bool)
}

// Waits holds the times before which a provider accepts no calls. Replicas that share a store also
// share the waits. While the store is unavailable, each replica has only its own waits.
type Waits interface {
	// Wait makes all calls of a scope wait for at least the duration atLeast from now. Plugins
	// define the scopes, such as a tenant or a credential. Wait returns the remaining wait of the
	// scope, which is 0 if calls may be made now. With an atLeast of 0 it changes nothing.
	Wait(ctx context.Context, scope string, atLeast time.Duration) (remaining time.Duration)
}
