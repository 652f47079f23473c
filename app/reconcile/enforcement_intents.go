// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// ReconcileIntents finds out which intents of an interrupted enforcement pass took effect. An
// intent is a block or unblock of a mailbox that was stored before the rules were changed. An
// intent took effect if the rules at the platform show it. ReconcileIntents stores these intents as
// changes that are done, with their events, and returns them in the result done. It deletes all
// stored intents of the tenant.
//
// A lagging replica may return an old state of the rules. The caller must therefore set each rule
// that an intent concerns, even if the rule seems to be correct. For this purpose ReconcileIntents
// returns all intents.
//
// held is false if the claim was lost. ReconcileIntents fails when the store or the platform fails.
func ReconcileIntents(ctx context.Context, claims ports.TenantClaims, claim ports.TenantClaim, now func() time.Time, rules func(context.Context) ([]sendlimit.Rule, error)) (intents, done []sendlimit.Change, held bool, err error) {
	intents, err = claims.Intents(ctx, claim)
	if err != nil || len(intents) == 0 {
		return nil, nil, true, err
	}
	existing, err := rules(ctx)
	if err != nil {
		return intents, nil, true, fmt.Errorf("read rules: %w", err)
	}
	for _, c := range intents {
		if c.InEffect(existing) {
			done = append(done, c)
		}
	}
	held, err = claims.SaveChanges(ctx, claim, ports.SendChanges{At: now(), Done: done})
	return intents, done, held, err
}
