// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// enforce decides who is to be blocked, has the rules say so, and stores it.
// The rules come first: a mailbox is never shown as blocked, or let go, that
// the platform treats otherwise. A run that ends between the two is repeated by
// the next, which finds the rules as they have to be.
func (w *look) enforce(ctx context.Context) (due time.Time, err error) {
	policies, err := w.Policies.Policies(ctx, w.Account, w.Tenant)
	if err != nil {
		return due, err
	}
	ruled, err := w.Policies.RuledScopes(ctx, w.Account, w.Tenant)
	if err != nil {
		return due, err
	}
	boxes, err := w.boxes(ctx)
	if err != nil {
		return due, err
	}
	limits := sendlimit.ByScope(policies)
	ruling := sendlimit.Decide(w.Tenant, limits, boxes, w.day, w.now)
	failed, err := w.rule(ctx, ruling, ruled)
	if errors.Is(err, errLost) {
		return due, err
	}
	if err := w.save(ctx, ruling, ruled, failed); err != nil {
		return due, err
	}
	return sendlimit.Next(w.Tenant, limits, boxes, w.day, w.now), err
}

// boxes are the tenant's mailboxes with what was counted today, if it was.
func (w *look) boxes(ctx context.Context) ([]sendlimit.Box, error) {
	all, err := w.Runs.SendBoxes(ctx, w.SendRun, w.day.Start)
	boxes := make([]sendlimit.Box, 0, len(all))
	for _, b := range all {
		for _, c := range b.Counts {
			if c.Day.Equal(w.day.Start) {
				b.Sent, b.Counted = c.Total(), true
			}
		}
		boxes = append(boxes, b.Box)
	}
	return boxes, err
}

// rule has every rule of ours block whom it has to, those of scopes without a
// policy nobody. It returns the scopes where that could not be done, and why.
func (w *look) rule(ctx context.Context, ruling sendlimit.Ruling, ruled []string) (failed []string, err error) {
	for _, scope := range ruled {
		failpoint.Hit("enforcement.before-rule")
		one := w.block(ctx, scope, ruling.Lists[scope])
		if errors.Is(one, fault.MailboxNotFound) {
			one = w.blockRest(ctx, scope, ruling, one)
		}
		failpoint.Hit("enforcement.after-rule")
		if errors.Is(one, errLost) {
			return nil, one
		}
		if one != nil {
			failed, err = append(failed, scope), errors.Join(err, fmt.Errorf("set rule: %w", one))
		}
	}
	return failed, err
}

// block has one rule block exactly these.
func (w *look) block(ctx context.Context, scope string, list []string) error {
	return w.guard(ctx, func(ctx context.Context) error {
		r, err := w.platform.Block(ctx, scope, list)
		if err == nil && !slices.Equal(r.Blocks(), list) && len(r.Blocks())+len(list) > 0 {
			err = errors.New("the rule does not block whom it was told to")
		}
		return err
	})
}

// blockRest takes mailboxes that vanished at the platform out of a list and has
// the rule block the others: one that sends no more is not to keep the rest from
// being blocked. The next sync forgets it. Where none vanished it stays refused.
func (w *look) blockRest(ctx context.Context, scope string, ruling sendlimit.Ruling, refused error) error {
	there := map[string]bool{}
	if err := w.guard(ctx, func(ctx context.Context) error {
		held, err := w.platform.Mailboxes(ctx)
		for _, m := range held {
			there[strings.ToLower(m.Address)] = true
		}
		return err
	}); err != nil {
		return err
	}
	all := ruling.Lists[scope]
	rest := slices.DeleteFunc(slices.Clone(all), func(address string) bool { return !there[strings.ToLower(address)] })
	if len(rest) == len(all) {
		return refused // it is listed, and not known all the same
	}
	ruling.Lists[scope] = rest
	return w.block(ctx, scope, rest)
}

// save stores the changes that are so at the platform now, with their events,
// and forgets scopes whose rule is no longer of use.
func (w *look) save(ctx context.Context, ruling sendlimit.Ruling, ruled, failed []string) error {
	var changes []sendlimit.Change
	for _, c := range ruling.Changes {
		done := slices.Contains(ruled, c.Scope) && !slices.Contains(failed, c.Scope) && slices.Contains(ruling.Lists[c.Scope], c.Event.Address)
		if c.Action == sendlimit.Blocked && !done {
			continue
		}
		// Whose rule had blocked one that is let go is not known for sure.
		if c.Action == sendlimit.Unblocked && len(failed) > 0 {
			continue
		}
		id, err := w.eventID()
		if err != nil {
			return err
		}
		c.Event.ID = id
		changes = append(changes, c)
	}
	var emptied []string
	for _, scope := range ruled {
		if _, inForce := ruling.Lists[scope]; !inForce && !slices.Contains(failed, scope) {
			emptied = append(emptied, scope)
		}
	}
	if len(changes) == 0 && len(emptied) == 0 {
		return nil
	}
	failpoint.Hit("enforcement.before-changes")
	err := saved(w.Runs.SaveChanges(ctx, w.SendRun, changes, emptied))
	failpoint.Hit("enforcement.after-changes")
	if err == nil {
		w.measure(ctx, changes)
	}
	return err
}

// measure tells what was changed, and how late blocks are.
func (w *look) measure(ctx context.Context, changes []sendlimit.Change) {
	for _, c := range changes {
		if w.Changed != nil {
			w.Changed(ctx, c.Action)
		}
		if w.Late == nil || c.Action != sendlimit.Blocked {
			continue
		}
		if at, known := w.reading.Passed(c.Event.Address, w.before[c.Box], c.Event.Limit, w.day); known {
			w.Late(ctx, max(0, w.Now().Sub(at)))
		}
	}
}
