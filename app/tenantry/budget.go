// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// budgets are what a provider allows, as its plugin describes it. Replicas
// count them together.
type budgets struct {
	provider string
	describe func(context.Context, string) (wire.Description, error)
	counters ports.Limiter
}

// spend counts what one call of an operation in a fault domain costs. A budget
// has a window for each value of its key; a call in no such domain does not
// count in it. A call that does not fit into all of them as a whole counts in
// none.
func (b budgets) spend(ctx context.Context, domain, operation string) (time.Duration, bool) {
	about, err := b.describe(ctx, b.provider)
	if err != nil {
		return 0, true // the call itself says what is wrong with the plugin
	}
	var taken []func()
	for _, budget := range about.Budgets {
		owner, counts := b.owner(budget.Key, domain)
		if !counts {
			continue
		}
		for range budget.Cost(operation) {
			v, giveBack := b.counters.Take(ctx, ratelimit.Bucket{
				Key: b.bucket(budget, owner), Limit: budget.Limit, Window: budget.Window,
			})
			if !v.Allowed {
				for _, undo := range taken {
					undo()
				}
				return v.RetryIn, false
			}
			taken = append(taken, giveBack)
		}
	}
	return 0, true
}

// bucket names a budget's window of one owner. A provider may have several
// budgets of a key.
func (b budgets) bucket(budget wire.Budget, owner string) string {
	name := "budget:" + b.provider + ":" + budget.Key + ":" + owner + ":" + budget.Window.String()
	if len(budget.Only) > 0 {
		name += ":" + strings.Join(budget.Only, "+")
	}
	return name
}

// owner is the value that a budget's key has for a fault domain, which is a
// kind, or a kind and its value: `tenant/` and the tenant's id, `credential/`
// and the fingerprint of an account's. All other calls share the operator's
// credential, and all the way out of this network.
func (b budgets) owner(key, domain string) (string, bool) {
	if kind, value, ok := strings.Cut(domain, "/"); ok && kind == key {
		return value, true
	}
	return "", key == "credential" || key == "egress"
}
