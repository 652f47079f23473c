// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/ratelimit"
)

// Limiter counts what accounts ask for and what providers are asked. Replicas
// that share a store count together, by its clock. A Limiter never fails:
// while the store is away each replica counts by itself.
type Limiter interface {
	// Take counts a request in a bucket if it still fits in. giveBack undoes
	// that; for a request that was refused it does nothing.
	Take(ctx context.Context, b ratelimit.Bucket) (v ratelimit.Verdict, giveBack func())
	// Enter takes one of the places that a name has, unless all of them are
	// taken. leave gives it back. The places of a replica that dies are free
	// again after a while. Both functions may be called more than once.
	Enter(ctx context.Context, name string, places int) (leave func(), ok bool)
}
