// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// enforce decides who is to be blocked, stores what is about to change, has the
// rules say so, and stores what changed. A mailbox is never shown as blocked,
// or let go, that the platform treats otherwise, and a run that ends on the way
// leaves its intents, which the next one settles first.
func (w *look) enforce(ctx context.Context) (due time.Time, err error) {
	if err := w.settle(ctx); err != nil {
		return due, err
	}
	a := &act{look: w}
	policies, err := w.Policies.Policies(ctx, w.Account, w.Tenant)
	if err != nil {
		return due, err
	}
	if a.ruled, err = w.Policies.RuledScopes(ctx, w.Account, w.Tenant); err != nil {
		return due, err
	}
	if len(a.ruled) > 0 { // else no rule is wanted, and the first look removed what there was
		if _, err := w.rules(ctx); err != nil {
			return due, fmt.Errorf("read rules: %w", err)
		}
	}
	if a.boxes, err = w.boxes(ctx); err != nil {
		return due, err
	}
	a.boxes = w.vanished.among(w.Tenant, a.boxes, w.now)
	a.limits = sendlimit.ByScope(policies)
	a.Ruling = sendlimit.Decide(w.Tenant, a.limits, a.boxes, w.day, w.now)
	if err := a.intend(ctx); err != nil {
		return due, err
	}
	err = a.rule(ctx)
	if errors.Is(err, errLost) {
		return due, err
	}
	if err := a.save(ctx); err != nil {
		return due, err
	}
	return sendlimit.Next(w.Tenant, a.limits, a.boxes, w.day, w.now), err
}

// boxes are the tenant's mailboxes with what was counted today, if it was.
func (w *look) boxes(ctx context.Context) ([]sendlimit.Box, error) {
	all, err := w.Runs.SendBoxes(ctx, w.SendRun, w.day.Start)
	boxes := make([]sendlimit.Box, 0, len(all))
	for _, b := range all {
		boxes = append(boxes, b.On(w.day))
	}
	return boxes, err
}

// save stores the changes that are so at the platform now, with their events,
// and forgets scopes whose rule is no longer of use.
func (a *act) save(ctx context.Context) error {
	var c ports.SendChanges
	for _, change := range a.Changes {
		switch {
		case a.open(change):
			c.Open = append(c.Open, change.Box)
		case change.Action == sendlimit.Unblocked || a.lists(change):
			c.Done = append(c.Done, change)
		}
	}
	for _, scope := range a.ruled {
		if !a.InForce(scope) && !slices.Contains(a.failed, scope) {
			c.Emptied = append(c.Emptied, scope)
		}
	}
	if len(a.Changes) == 0 && len(c.Emptied) == 0 {
		return nil
	}
	failpoint.Hit("enforcement.before-changes")
	c.At = a.Now()
	err := saved(a.Runs.SaveChanges(ctx, a.SendRun, c))
	failpoint.Hit("enforcement.after-changes")
	if err == nil {
		a.tell(ctx, c.Done)
		a.measure(ctx, c.Done)
	}
	return err
}

// open reports whether it is not known what became of a change: a rule that
// could not be set may have been all the same, and whose rule had blocked one
// that is let go is not known for sure.
func (a *act) open(c sendlimit.Change) bool {
	if c.Action == sendlimit.Unblocked {
		return len(a.failed) > 0
	}
	return slices.Contains(a.failed, c.Scope)
}

// lists reports whether a rule that was set blocks a mailbox: not so where it
// vanished, or where its scope came to be only now.
func (a *act) lists(c sendlimit.Change) bool {
	return slices.Contains(a.ruled, c.Scope) && slices.Contains(a.Lists[c.Scope], c.Event.Address)
}

// tell counts what was changed.
func (w *look) tell(ctx context.Context, changes []sendlimit.Change) {
	if w.Changed == nil {
		return
	}
	for _, c := range changes {
		w.Changed(ctx, c.Action)
	}
}

// measure tells how late blocks are.
func (w *look) measure(ctx context.Context, changes []sendlimit.Change) {
	if w.Late == nil {
		return
	}
	for _, c := range changes {
		if c.Action != sendlimit.Blocked {
			continue
		}
		if at, known := w.reading.Passed(c.Event.Address, c.Event.Limit, w.day); known {
			w.Late(ctx, max(0, w.Now().Sub(at)))
		}
	}
}
