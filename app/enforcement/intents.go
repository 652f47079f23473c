// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"slices"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// settle finds out what became of the intents of a run that did not end. Before
// that nothing is decided, as a decision that differs would leave a block or a
// release without its event.
func (w *look) settle(ctx context.Context) error {
	done, held, err := settling.Intents(ctx, w.Runs, w.SendRun, w.rules)
	if err := saved(held, err); err != nil {
		return err
	}
	for _, c := range done {
		w.Last = slices.MaxFunc([]time.Time{w.Last, c.Event.At}, time.Time.Compare)
	}
	w.tell(ctx, done)
	return nil
}

// rules are ours at the platform, as they were when this look asked first.
func (w *look) rules(ctx context.Context) ([]sendlimit.Rule, error) {
	if w.listed {
		return w.there, nil
	}
	err := w.guard(ctx, func(ctx context.Context) (err error) {
		w.there, err = w.platform.Rules(ctx)
		return err
	})
	w.listed = err == nil
	return w.there, err
}

// intend stores what the rules are about to change, each with the id of its
// event.
func (a *act) intend(ctx context.Context) error {
	if len(a.Changes) == 0 {
		return nil
	}
	for i := range a.Changes {
		if a.Changes[i].Event.ID != "" {
			continue
		}
		id, err := a.eventID(a.Changes[i].Event.At)
		if err != nil {
			return err
		}
		a.Changes[i].Event.ID = id
	}
	failpoint.Hit("enforcement.before-intents")
	err := saved(a.Runs.SaveIntents(ctx, a.SendRun, a.Changes))
	failpoint.Hit("enforcement.after-intents")
	return err
}
