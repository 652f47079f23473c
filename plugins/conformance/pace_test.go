// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestPacerKeepsToBudgets checks when each call of a sequence begins. Every call takes 100 ms.
func TestPacerKeepsToBudgets(t *testing.T) {
	for name, tc := range map[string]struct {
		budgets []sdk.Budget
		calls   []string        // operations; the credential is "b" if a ! follows, otherwise "a"
		want    []time.Duration // when each call begins
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
				pacer, start := newPacer(tc.budgets), time.Now()
				for i, operation := range tc.calls {
					credential := "a"
					if name, found := strings.CutSuffix(operation, "!"); found {
						operation, credential = name, "b"
					}
					call := pacer.begin(t.Context(), credential, operation)
					if at := time.Since(start); at != tc.want[i] {
						t.Errorf("call %d began after %s, want %s", i, at, tc.want[i])
					}
					time.Sleep(100 * time.Millisecond)
					pacer.end(call)
				}
			})
		})
	}
}

// TestPacerEndsWithTheContext checks that begin stops waiting when the context of the call ends.
func TestPacerEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer, start := newPacer([]sdk.Budget{{Key: "credential", Limit: 1, Window: time.Hour}}), time.Now()
		pacer.end(pacer.begin(t.Context(), "a", "zone"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		pacer.begin(ctx, "a", "zone")
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("the call waited for %s, want 1s", waited)
		}
	})
}
