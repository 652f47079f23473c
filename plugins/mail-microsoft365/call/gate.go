// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// Gate delays a request while a Retry-After applies to it. The zero Gate delays nothing.
type Gate struct {
	Waits *sdk.Waits
	// Scopes are the groups of calls to which the request belongs (see sdk.Waits). A Retry-After of
	// the response applies to all calls of the first scope, or of the scope that ThrottledScope
	// returns.
	Scopes []string
	// ThrottledScope returns the scope to which the Retry-After of a response applies. It may be
	// nil.
	ThrottledScope func(Response) string
}

// wait waits until the request may be sent. If the wait leaves no time for the request before the
// deadline of ctx, it returns a Throttled outcome at once. If the caller cancelled ctx, it returns
// an error that wraps context.Canceled.
func (g Gate) wait(ctx context.Context) error {
	for {
		err := g.Waits.Check(ctx, g.Scopes...)
		if err == nil || !sleep(ctx, outcome.RetryAfter(err)) {
			if errors.Is(ctx.Err(), context.Canceled) {
				return ContextError(ctx)
			}
			return err
		}
	}
}

// observe stores the wait that a response requests.
func (g Gate) observe(ctx context.Context, resp Response) {
	if len(g.Scopes) == 0 {
		return
	}
	scope := g.Scopes[0]
	if g.ThrottledScope != nil {
		scope = g.ThrottledScope(resp)
	}
	g.Waits.Observe(ctx, scope, resp.Status, resp.Header)
}
