// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/wire"
)

// TestBudgetWithoutLimitOrWindowIsIgnored checks that a budget whose limit or window is not
// positive refuses no call. The valid budget of the plugin, with a limit of 2, still applies.
func TestBudgetWithoutLimitOrWindowIsIgnored(t *testing.T) {
	_, counters := newFingerprinterAndLimiter(t)
	for name, invalid := range map[string]wire.Budget{
		"no limit":        {Key: "egress", Window: time.Minute},
		"negative limit":  {Key: "egress", Limit: -1, Window: time.Minute},
		"no window":       {Key: "egress", Limit: 1},
		"negative window": {Key: "egress", Limit: 1, Window: -time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			describe := func(context.Context, string) (wire.Description, error) {
				return wire.Description{Budgets: []wire.Budget{invalid, {Key: "credential", Limit: 2, Window: time.Minute}}}, nil
			}
			providerBudgets := budgets{name, describe, counters}
			for call := range 3 {
				if _, _, allowed := providerBudgets.spend(t.Context(), "provider", "check"); allowed != (call < 2) {
					t.Errorf("call %d: allowed is %v, want %v", call, allowed, call < 2)
				}
			}
		})
	}
}

// TestHugeCostCountsAsAHundredRequests checks a plugin whose budget has a huge cost for an
// operation. The host counts each call of the operation as 100 requests, so two calls fit into a
// limit of 250.
func TestHugeCostCountsAsAHundredRequests(t *testing.T) {
	_, counters := newFingerprinterAndLimiter(t)
	describe := func(context.Context, string) (wire.Description, error) {
		budget := wire.Budget{Key: "egress", Limit: 250, Window: time.Minute, Costs: map[string]int{"zone": 20_000_000}}
		return wire.Description{Budgets: []wire.Budget{budget}}, nil
	}
	providerBudgets := budgets{"greedy", describe, counters}
	for call, want := range []bool{true, true, false} {
		if _, _, allowed := providerBudgets.spend(t.Context(), "provider", "zone"); allowed != want {
			t.Errorf("call %d: allowed is %v, want %v, because each call counts as 100 requests", call, allowed, want)
		}
	}
}
