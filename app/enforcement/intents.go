// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// settle finds out what became of the intents of a run that did not end. Before
// that nothing is decided, as a decision that differs would leave a block or a
// release without its event.
func (w *look) settle(ctx context.Context) error {
	done, held, err := settling.Intents(ctx, w.Runs, w.SendRun, w.Now, w.rules)
	if err := saved(held, err); err != nil {
		return err
	}
	w.tell(ctx, done)
	return nil
}

// rules are ours at the platform, as they were when this look asked first.
func (w *look) rules(ctx context.Context) ([]sendlimit.Rule, error) {
	if w.listed {
		return w.there, nil
	}
	err := w.ask(ctx, func(ctx context.Context) (err error) {
		w.there, err = w.platform.Rules(ctx)
		return err
	})
	w.listed = err == nil
	return w.there, err
}

// intend stores what the rules are about to change.
func (a *act) intend(ctx context.Context) error {
	if len(a.Changes) == 0 {
		return nil
	}
	failpoint.Hit("enforcement.before-intents")
	err := saved(a.Runs.SaveIntents(ctx, a.SendRun, a.Changes))
	failpoint.Hit("enforcement.after-intents")
	return err
}
