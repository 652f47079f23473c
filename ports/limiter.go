// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
)

// Limiter counts the requests of accounts and the calls to providers. Replicas that share a store
// count together, with the store's clock and in one atomic step for each request.
//
// A Limiter never fails, and a cancelled request still counts. While the store is unavailable or
// slow, each replica counts separately, so each replica may allow a full limit. The first requests
// detect an outage after 200 ms. Later requests do not wait until the store is available again. A
// replica keeps counting the requests that it allowed, even if the store comes back empty.
type Limiter interface {
	// Take counts a request in a bucket if the bucket's limit allows the request. giveBack removes
	// the request from the count. It does nothing for a refused request and may be called more than
	// once.
	Take(ctx context.Context, b ratelimit.Bucket) (v ratelimit.Verdict, giveBack func())
	// Remaining returns the number of requests that the bucket still allows now. It counts none.
	Remaining(ctx context.Context, b ratelimit.Bucket) int
	// Enter takes one of the slots of a name, of which there are as many as places. ok is false if
	// no slot is free. leave releases the slot and may be called more than once. The slots of a
	// crashed replica become free after a timeout.
	Enter(ctx context.Context, name string, places int) (leave func(), ok bool)
}

// Waits holds the times before which a provider wants no calls. Replicas that share a store also
// share the waits. While the store is unavailable, each replica knows only its own.
type Waits interface {
	// Wait makes the callers of a scope wait for at least the duration atLeast from now. It returns
	// how long they have to wait, 0 if they need not. With atLeast 0 it changes nothing.
	Wait(ctx context.Context, scope string, atLeast time.Duration) (left time.Duration)
}
