// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
)

// pacer delays calls to a DNS provider until the budgets in the plugin's description allow them.
// The simulator of a plugin may therefore enforce the rate limits of its provider. The service does
// not delay such a call, but refuses it. A nil *pacer delays nothing.
type pacer struct {
	budgets []sdk.Budget

	mu    sync.Mutex
	calls []*pacedCall // the calls that may still count, in the order in which they began
}

// pacedCall is a call that counts against budgets.
type pacedCall struct {
	credential string
	operation  string
	ended      time.Time // zero while the call is in progress
}

func newPacer(budgets []sdk.Budget) *pacer { return &pacer{budgets: budgets} }

// interceptors returns the interceptor that delays the calls of a connection.
func (p *pacer) interceptors(c sdk.Connection) []wire.Interceptor {
	if p == nil || len(p.budgets) == 0 {
		return nil
	}
	credential := c.Fingerprint()
	return []wire.Interceptor{func(ctx context.Context, call wire.Call, next func(context.Context) error) error {
		startedCall := p.begin(ctx, credential, call.Operation)
		defer p.end(startedCall)
		return next(ctx)
	}}
}

// begin waits until the budgets allow a call, and counts the call. If ctx ends first, it does not
// count the call.
func (p *pacer) begin(ctx context.Context, credential, operation string) *pacedCall {
	call := &pacedCall{credential: credential, operation: operation}
	for {
		wait := p.countOrWait(call)
		if wait == 0 {
			return call
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return call // the call itself then fails because its context has ended
		}
	}
}

// countOrWait counts a call, or returns how long to wait before the next attempt.
func (p *pacer) countOrWait(call *pacedCall) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, longest := time.Now(), time.Duration(0)
	for _, b := range p.budgets {
		wait, longest = max(wait, p.waitForBudget(b, call, now)), max(longest, b.Window)
	}
	if wait > 0 {
		return wait
	}
	p.calls = slices.DeleteFunc(p.calls, func(c *pacedCall) bool { return !c.ended.IsZero() && now.Sub(c.ended) >= longest })
	p.calls = append(p.calls, call)
	return 0
}

// waitForBudget returns how long a call must wait because of a budget. A call can send requests
// until it ends, so it counts for a full window after its end.
func (p *pacer) waitForBudget(b sdk.Budget, call *pacedCall, now time.Time) time.Duration {
	remaining := b.Limit - b.Cost(call.operation)
	if b.Cost(call.operation) == 0 {
		return 0
	}
	var wait time.Duration
	for _, c := range slices.Backward(p.calls) {
		if b.Key == "credential" && c.credential != call.credential {
			continue
		}
		countsFor := b.Window
		if !c.ended.IsZero() {
			countsFor -= now.Sub(c.ended)
		}
		if countsFor <= 0 {
			continue
		}
		if remaining -= b.Cost(c.operation); remaining < 0 && b.Cost(c.operation) > 0 {
			wait = max(wait, countsFor)
		}
	}
	return wait
}

func (p *pacer) end(call *pacedCall) {
	p.mu.Lock()
	defer p.mu.Unlock()
	call.ended = time.Now()
}
