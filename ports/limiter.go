// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/ratelimit"
)

// Limiter counts the requests of accounts and the calls to providers. Replicas that share a store
// count together, with the store's clock and in one atomic step for each request.
//
// A Limiter never fails, and a cancelled request still counts. While the store is unavailable or
// slow, each replica counts on its own, so each may allow a full limit. The first requests detect
// an outage after 200 ms. Later requests do not wait until the store is back. Requests that a
// replica allowed stay counted there, even if the store comes back empty.
type Limiter interface {
	// Take counts a request in a bucket if the bucket's limit allows it. giveBack undoes that. It
	// does nothing for a refused request and may be called more than once.
	Take(ctx context.Context, b ratelimit.Bucket) (v ratelimit.Verdict, giveBack func())
	// Enter takes one of the slots of a name, if one is free. leave releases it. The slots of a
	// crashed replica become free after a while. Both functions may be called more than once.
	Enter(ctx context.Context, name string, places int) (leave func(), ok bool)
}
