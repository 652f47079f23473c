// SPDX-License-Identifier: Apache-2.0

package settling

import (
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Intents finds out at the platform what became of the intents of a run of
// enforcement that did not end. What happened is stored, with the event that it
// was to have, and returned; the rest never was. held is false when the tenant
// is another run's.
func Intents(ctx context.Context, runs ports.SendRuns, r ports.SendRun, now func() time.Time, rules func(context.Context) ([]sendlimit.Rule, error)) (done []sendlimit.Change, held bool, err error) {
	intents, err := runs.Intents(ctx, r)
	if err != nil || len(intents) == 0 {
		return nil, true, err
	}
	there, err := rules(ctx)
	if err != nil {
		return nil, true, fmt.Errorf("read rules: %w", err)
	}
	for _, c := range intents {
		if c.Happened(there) {
			done = append(done, c)
		}
	}
	failpoint.Hit("enforcement.before-settled")
	held, err = runs.SaveChanges(ctx, r, ports.SendChanges{At: now(), Done: done})
	failpoint.Hit("enforcement.after-settled")
	return done, held, err
}
