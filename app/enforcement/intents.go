// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// settle finds out at the platform what became of the intents of a run that did
// not end. What happened is stored with the event that it was to have; the rest
// never was. Before that nothing is decided, as a decision that differs would
// leave a block or a release without its event.
func (w *look) settle(ctx context.Context) error {
	intents, err := w.Runs.Intents(ctx, w.SendRun)
	if err != nil || len(intents) == 0 {
		return err
	}
	rules, err := w.rules(ctx)
	if err != nil {
		return err
	}
	var done []sendlimit.Change
	for _, c := range intents {
		if c.Happened(rules) {
			done = append(done, c)
		}
	}
	failpoint.Hit("enforcement.before-settled")
	err = saved(w.Runs.SaveChanges(ctx, w.SendRun, ports.SendChanges{Done: done}))
	failpoint.Hit("enforcement.after-settled")
	if err != nil {
		return err
	}
	for _, c := range done {
		w.Last = slices.MaxFunc([]time.Time{w.Last, c.Event.At}, time.Time.Compare)
	}
	w.tell(ctx, done)
	return nil
}

// rules are ours at the platform, as they are.
func (w *look) rules(ctx context.Context) (rules []sendlimit.Rule, err error) {
	if err = w.guard(ctx, func(ctx context.Context) (err error) {
		rules, err = w.platform.Rules(ctx)
		return err
	}); err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	return rules, nil
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
