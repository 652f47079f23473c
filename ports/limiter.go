// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/ratelimit"
)

// Limiter counts what accounts ask for and what providers are asked. Replicas
// that share a store count together, by its clock, in one atomic step a request.
//
// A Limiter never fails, and a caller that goes away has been counted. While
// the store is away (gone, hung, slow, or refusing to count) each replica counts
// by itself, so that each may give a whole limit. The first requests notice
// that after 200 ms, and then none waits until the store is back. What a replica let through stays counted in it,
// also when the store comes back empty.
type Limiter interface {
	// Take counts a request in a bucket if it still fits in. giveBack undoes
	// that; for a request that was refused it does nothing. It may be called
	// more than once.
	Take(ctx context.Context, b ratelimit.Bucket) (v ratelimit.Verdict, giveBack func())
	// Enter takes one of the places that a name has, unless all of them are
	// taken. leave gives it back. The places of a replica that dies are free
	// again after a while. Both functions may be called more than once.
	Enter(ctx context.Context, name string, places int) (leave func(), ok bool)
}
