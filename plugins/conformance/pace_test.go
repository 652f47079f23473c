// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestPacerKeepsToBudgets checks when each call of a sequence begins. Every call takes 100 ms.
func TestPacerKeepsToBudgets(t *testing.T) {
	for name, c := range map[string]struct {
		budgets []sdk.Budget
		calls   []string // the operations. An operation with a ! has a different credential.
		want    []time.Duration
	}{
		"a call waits until a window after earlier calls ended": {
			[]sdk.Budget{{Key: "credential", Limit: 2, Window: time.Second}},
			[]string{"zone", "zone", "zone", "zone"},
			[]time.Duration{0, 100 * time.Millisecond, 1100 * time.Millisecond, 1200 * time.Millisecond},
		},
		"a call that makes several requests": {
			[]sdk.Budget{{Key: "credential", Limit: 4, Window: time.Second, Costs: map[string]int{"apply": 3}}},
			[]string{"apply", "zone", "apply"},
			[]time.Duration{0, 100 * time.Millisecond, 1100 * time.Millisecond},
		},
		"a call that costs more than the limit": {
			[]sdk.Budget{{Key: "credential", Limit: 2, Window: time.Second, Costs: map[string]int{"apply": 3}}},
			[]string{"apply", "apply"},
			[]time.Duration{0, 1100 * time.Millisecond},
		},
		"all budgets apply": {
			[]sdk.Budget{{Key: "credential", Limit: 1, Window: time.Second}, {Key: "credential", Limit: 2, Window: time.Minute}},
			[]string{"zone", "zone", "zone"},
			[]time.Duration{0, 1100 * time.Millisecond, 60100 * time.Millisecond},
		},
		"operations that do not count": {
			[]sdk.Budget{{Key: "credential", Limit: 1, Window: time.Second, Only: []string{"apply"}}},
			[]string{"zone", "apply", "zone", "apply"},
			[]time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, 1200 * time.Millisecond},
		},
		"each credential has its own budget": {
			[]sdk.Budget{{Key: "credential", Limit: 1, Window: time.Second}},
			[]string{"zone", "zone!"},
			[]time.Duration{0, 100 * time.Millisecond},
		},
		"all credentials share an egress budget": {
			[]sdk.Budget{{Key: "egress", Limit: 1, Window: time.Second}},
			[]string{"zone", "zone!"},
			[]time.Duration{0, 1100 * time.Millisecond},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, start := newPacer(c.budgets), time.Now()
				for i, operation := range c.calls {
					credential := "a"
					if n := len(operation) - 1; operation[n] == '!' {
						operation, credential = operation[:n], "b"
					}
					call := p.begin(t.Context(), credential, operation)
					if at := time.Since(start); at != c.want[i] {
						t.Errorf("call %d began after %s, want %s", i, at, c.want[i])
					}
					time.Sleep(100 * time.Millisecond)
					p.end(call)
				}
			})
		})
	}
}

// TestPacerEndsWithTheContext checks that a call that waits in the pacer ends when its context
// ends.
func TestPacerEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := newPacer([]sdk.Budget{{Key: "credential", Limit: 1, Window: time.Hour}}), time.Now()
		p.end(p.begin(t.Context(), "a", "zone"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p.begin(ctx, "a", "zone")
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("the call waited for %s, want 1s", waited)
		}
	})
}
