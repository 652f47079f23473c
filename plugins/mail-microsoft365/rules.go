// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

// EnsureRule implements sdk.MailTenant.
func (c *tenantClient) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	return c.changeRule(ctx, scope, mailboxes, ensureStep)
}

// Block implements sdk.MailTenant.
func (c *tenantClient) Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	return c.changeRule(ctx, scope, mailboxes, blockStep)
}

func (c *tenantClient) changeRule(ctx context.Context, scope string, mailboxes []string, next nextStep) (sendlimit.Rule, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	name := sendlimit.RuleName(scope)
	senders, err := ruleSenders(name, mailboxes)
	if err != nil {
		return sendlimit.Rule{}, err
	}
	u := ruleUpdate{tenantClient: c, name: name, scope: scope, senders: senders}
	return u.run(ctx, next)
}

// Rules implements sdk.MailTenant.
func (c *tenantClient) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	rows, err := c.rules(ctx, nil)
	if err != nil {
		return nil, err
	}
	var all []sendlimit.Rule
	for _, r := range rows {
		if !sendlimit.IsRuleName(string(r.Name)) {
			continue
		}
		if err := r.checkState(); err != nil {
			return nil, err
		}
		all = append(all, r.toPort(false, false))
	}
	return all, nil
}

// RemoveRule implements sdk.MailTenant. It reads the rule after the removal, so that it notices if
// the rule still exists.
func (c *tenantClient) RemoveRule(ctx context.Context, scope string) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	name, p := sendlimit.RuleName(scope), c.platform.state.retry
	var failed error
	for n := 0; ; n++ {
		_, found, err := c.rule(ctx, name)
		if err != nil && n > 0 {
			return partlyDone(err)
		}
		if err != nil || !found {
			return err
		}
		if n >= p.MaxAttempts || n > 0 && !p.Pause(ctx, n-1, failed) {
			return firstError(failed, call.NotReady("the mail platform still shows a rule that was removed"))
		}
		if failed = c.removeRule(ctx, name); failed != nil && !mayRetry(failed) {
			return failed
		}
	}
}

// RemoveRules implements sdk.MailTenant. It lists the rules again after each round of removals, so
// that it notices rules that still exist. It removes enabled rules first, because the deadline may
// come before all rules are removed.
func (c *tenantClient) RemoveRules(ctx context.Context) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	p := c.platform.state.retry
	var failed error
	for n := 0; ; n++ {
		rows, err := c.rules(ctx, nil)
		if err != nil && n > 0 {
			return partlyDone(err)
		}
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(r ruleRow) bool { return !sendlimit.IsRuleName(string(r.Name)) })
		if len(rows) == 0 {
			return nil
		}
		if n >= p.MaxAttempts || n > 0 && !p.Pause(ctx, n-1, failed) {
			return firstError(failed, call.NotReady("the mail platform still shows a rule that was removed"))
		}
		failed = nil
		slices.SortStableFunc(rows, func(a, b ruleRow) int { return cmp.Compare(a.removalOrder(), b.removalOrder()) })
		for _, r := range rows {
			if err := c.removeRule(ctx, string(r.Name)); err != nil {
				failed = err
			}
		}
		if failed != nil && !mayRetry(failed) {
			return failed
		}
	}
}

// maxWrites limits the writes to a rule that another client changes at the same time.
const maxWrites = 10

// ruleUpdate changes one rule step by step until it has the requested state. It reads the rule
// before each write and after the last one. After a write fails, its error only determines whether
// to continue. The result is always the rule as it was last read.
type ruleUpdate struct {
	*tenantClient

	name, scope string
	senders     []string
	lastStep    ruleStep
	failed      error // error of the last write, nil if it succeeded
	reads       int   // how often the rule was read after the last new step
	writes      int
	created     bool // this update created the rule
	changed     bool // a write has changed the rule, or may have changed it
}

func (u *ruleUpdate) run(ctx context.Context, next nextStep) (sendlimit.Rule, error) {
	for {
		row, found, err := u.rule(ctx, u.name)
		if err != nil {
			return sendlimit.Rule{}, u.finalError(err)
		}
		step := next(row, found, u.senders)
		if step == ruleDone {
			return row.toPort(u.created, u.writes > 0), nil
		}
		if err := u.apply(ctx, step); err != nil {
			return sendlimit.Rule{}, u.finalError(err)
		}
	}
}

// finalError returns the error of an update that cannot go on. If a write may have changed the
// rule, the error must not say that nothing changed.
func (u *ruleUpdate) finalError(err error) error {
	if u.changed {
		return partlyDone(err)
	}
	return err
}

// partlyDone replaces an error that means "nothing changed" by Unknown, because some rules were
// already changed.
func partlyDone(err error) error {
	if !outcome.ChangedNothing(err) || hasKind(err, outcome.NotReady) {
		return err
	}
	return &outcome.Error{
		Kind: outcome.Unknown, Cause: call.CauseOf(err), Detail: "the mail platform's rules were changed in part",
	}
}

// apply executes a step. If the last write was the same step and succeeded, apply does not repeat
// it, but waits until the platform shows the rule.
func (u *ruleUpdate) apply(ctx context.Context, step ruleStep) error {
	p := u.platform.state.retry
	if step != u.lastStep {
		u.lastStep, u.reads, u.failed = step, 0, nil
	} else if u.reads++; u.reads >= p.MaxAttempts || !p.Pause(ctx, u.reads-1, u.failed) {
		return firstError(u.failed, call.NotReady("the mail platform does not show the rule yet as it was set"))
	} else if u.failed == nil {
		return nil
	}
	if u.writes++; u.writes > maxWrites {
		return call.NotReady("somebody else changes the rule at the same time")
	}
	u.failed = u.write(ctx, step)
	if u.failed == nil || hasKind(u.failed, outcome.Unknown) || hasKind(u.failed, outcome.Broken) {
		u.changed = true
	}
	switch {
	case exchange.Is(u.failed, exchange.Exists):
		u.failed = nil // another client created the rule; the platform shows it soon
		return nil
	case u.failed == nil || mayRetry(u.failed):
		u.created = u.created || step == createEnabled || step == createDisabled
		return nil
	case exchange.Is(u.failed, exchange.NotFound):
		return u.notFoundError(ctx, step)
	case exchange.Is(u.failed, exchange.LimitReached):
		return call.Refuse(fault.ProviderError, "the tenant has no room for the rule", call.CauseOf(u.failed))
	default:
		return u.failed
	}
}

// notFoundError handles a write that failed with NotFound. If a sender does not exist, it returns a
// MailboxNotFound refusal. If the rule cannot be read, it returns that error. Otherwise it returns
// nil, so that the update reads the rule again.
func (u *ruleUpdate) notFoundError(ctx context.Context, step ruleStep) error {
	if step != createEnabled && step != createDisabled {
		if _, found, err := u.rule(ctx, u.name); err != nil || !found || step != setSenders {
			return err
		}
	}
	return call.Refuse(fault.MailboxNotFound, "a mailbox to block does not exist", call.CauseOf(u.failed))
}

// mayRetry reports whether it can help to read the rule and try again after a failed write. It can
// if the write may have had its effect, or if the platform was temporarily unavailable.
func mayRetry(err error) bool {
	switch outcome.Of(err) {
	case outcome.Unknown, outcome.Broken, outcome.Down, outcome.Throttled:
		return true
	default:
		return false
	}
}

func firstError(one, other error) error {
	if one != nil {
		return one
	}
	return other
}
