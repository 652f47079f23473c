// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// budgets enforces the budgets that a provider's plugin describes (see wire.Budget). With Redis,
// all replicas share the counters.
type budgets struct {
	provider string
	describe describeFunc
	counters ports.Limiter
}

// spend takes the cost of one call from each budget that covers the call. If one budget has too
// little left, spend takes nothing, and returns false with the time until a retry can succeed.
// giveBack returns the cost to the budgets. spend ignores a budget whose limit or window is not
// positive. spend is used as breaker.Options.Budget.
func (b budgets) spend(ctx context.Context, budgetDomain, operation string) (giveBack func(), retryIn time.Duration, ok bool) {
	var undos []func()
	giveBack = func() {
		for _, undoTake := range undos {
			undoTake()
		}
	}
	description, err := b.describe(ctx, b.provider)
	if err != nil {
		return giveBack, 0, true // the call itself fails with this error
	}
	for _, budget := range description.Budgets {
		owner, covered := b.owner(budget.Key, budgetDomain)
		if !covered || budget.Limit < 1 || budget.Window <= 0 { // a limiter accepts only positive values
			continue
		}
		for range budget.Cost(operation) {
			decision, undoTake := b.counters.Take(ctx, ratelimit.Bucket{
				Key: b.bucketKey(budget, owner), Limit: budget.Limit, Window: budget.Window,
			})
			if !decision.Allowed {
				giveBack()
				return nil, decision.RetryIn, false
			}
			undos = append(undos, undoTake)
		}
	}
	return giveBack, 0, true
}

// bucketKey returns the key of a budget's bucket for one owner. It includes the window and the
// operations, because a provider may have several budgets for one kind of owner.
func (b budgets) bucketKey(budget wire.Budget, owner string) string {
	name := "budget:" + b.provider + ":" + budget.Key + ":" + owner + ":" + budget.Window.String()
	if len(budget.Only) > 0 {
		name += ":" + strings.Join(budget.Only, "+")
	}
	return name
}

// owner returns the owner of a budget's bucket for a call, and whether the budget covers the call.
// key is the kind of owner: "tenant", "credential" or "egress" (the service's own address).
// budgetDomain comes from a breaker.FaultDomain, such as `login`, `tenant/<id>` or
// `credential/<fingerprint>`. If budgetDomain has this kind and an id, the id is the owner.
// Otherwise a budget by tenant does not cover the call. A budget by credential or egress then has
// an empty owner, so that all these calls share one bucket.
func (b budgets) owner(key, budgetDomain string) (owner string, covered bool) {
	if kind, id, ok := strings.Cut(budgetDomain, "/"); ok && kind == key {
		return id, true
	}
	return "", key == "credential" || key == "egress"
}
