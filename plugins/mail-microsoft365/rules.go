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
func (c *client) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	return c.settle(ctx, scope, mailboxes, ensured)
}

// Block implements sdk.MailTenant.
func (c *client) Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	return c.settle(ctx, scope, mailboxes, blocking)
}

func (c *client) settle(ctx context.Context, scope string, mailboxes []string, next nextStep) (sendlimit.Rule, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	name := sendlimit.RuleName(scope)
	senders, err := senders(name, mailboxes)
	if err != nil {
		return sendlimit.Rule{}, err
	}
	w := ruleWork{client: c, name: name, scope: scope, senders: senders}
	return w.run(ctx, next)
}

// Rules implements sdk.MailTenant.
func (c *client) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	rows, err := c.rules(ctx, nil)
	if err != nil {
		return nil, err
	}
	var all []sendlimit.Rule
	for _, r := range rows {
		if !sendlimit.IsRuleName(string(r.Name)) {
			continue
		}
		if err := r.known(); err != nil {
			return nil, err
		}
		all = append(all, r.told(false, false))
	}
	return all, nil
}

// RemoveRules implements sdk.MailTenant. It lists again after each round, so
// that a rule whose removal was lost is seen. Those that act come first, should
// there be no time for all.
func (c *client) RemoveRules(ctx context.Context) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	p := c.platform.house.patience
	var failed error
	for n := 0; ; n++ {
		rows, err := c.rules(ctx, nil)
		if err != nil && n > 0 {
			return partly(err)
		}
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(r ruleRow) bool { return !sendlimit.IsRuleName(string(r.Name)) })
		if len(rows) == 0 {
			return nil
		}
		if n >= p.Tries || n > 0 && !p.Pause(ctx, n-1, failed) {
			return first(failed, call.NotReady("the mail platform still shows a rule that was removed"))
		}
		failed = nil
		slices.SortStableFunc(rows, func(a, b ruleRow) int { return cmp.Compare(a.turn(), b.turn()) })
		for _, r := range rows {
			if err := c.removeRule(ctx, string(r.Name)); err != nil {
				failed = err
			}
		}
		if failed != nil && !goesOn(failed) {
			return failed
		}
	}
}

// maxWrites bounds the work on a rule that somebody else works on too.
const maxWrites = 10

// ruleWork brings one rule to where it should be: one write at a time, with a
// look before each and after the last. What a write itself answers only
// decides whether to go on; what is told of the rule was read back.
type ruleWork struct {
	*client

	name, scope   string
	senders       []string
	last          ruleStep
	failed        error // how the last write ended
	looks, writes int   // looks since the last write was another
	made, changed bool  // changed: something was, or may have been
}

func (w *ruleWork) run(ctx context.Context, next nextStep) (sendlimit.Rule, error) {
	for {
		row, found, err := w.rule(ctx, w.name)
		if err != nil {
			return sendlimit.Rule{}, w.ended(err)
		}
		step := next(row, found, w.senders)
		if step == settled {
			return row.told(w.made, w.writes > 0), nil
		}
		if err := w.take(ctx, step); err != nil {
			return sendlimit.Rule{}, w.ended(err)
		}
	}
}

// ended is the end of work that cannot go on. What says that nothing changed is
// only told as it is where nothing did.
func (w *ruleWork) ended(err error) error {
	if w.changed {
		return partly(err)
	}
	return err
}

// partly is an error of work of which some was done.
func partly(err error) error {
	if !outcome.Settled(err) || is(err, outcome.NotReady) {
		return err
	}
	return &outcome.Error{
		Kind: outcome.Unknown, Cause: call.CauseOf(err), Detail: "the mail platform's rules were changed in part",
	}
}

// take does a step, unless it was done already and takes a moment to show.
func (w *ruleWork) take(ctx context.Context, step ruleStep) error {
	p := w.platform.house.patience
	if step != w.last {
		w.last, w.looks, w.failed = step, 0, nil
	} else if w.looks++; w.looks >= p.Tries || !p.Pause(ctx, w.looks-1, w.failed) {
		return first(w.failed, call.NotReady("the mail platform does not show the rule yet as it was set"))
	} else if w.failed == nil {
		return nil
	}
	if w.writes++; w.writes > maxWrites {
		return call.NotReady("somebody else changes the rule at the same time")
	}
	w.failed = w.do(ctx, step)
	if w.failed == nil || is(w.failed, outcome.Unknown) || is(w.failed, outcome.Broken) {
		w.changed = true
	}
	switch {
	case exchange.Is(w.failed, exchange.Exists):
		w.failed = nil // somebody else made it, and it shows soon
		return nil
	case w.failed == nil || goesOn(w.failed):
		w.made = w.made || step == makeOn || step == makeOff
		return nil
	case exchange.Is(w.failed, exchange.NotFound):
		return w.missing(ctx, step)
	case exchange.Is(w.failed, exchange.Limit):
		return call.Refuse(fault.ProviderError, "the tenant has no room for the rule", call.CauseOf(w.failed))
	default:
		return w.failed
	}
}

// missing reads that something is not there: a sender, or the rule itself, which
// somebody may have removed meanwhile.
func (w *ruleWork) missing(ctx context.Context, step ruleStep) error {
	if step != makeOn && step != makeOff {
		if _, found, err := w.rule(ctx, w.name); err != nil || !found || step != list {
			return err
		}
	}
	return call.Refuse(fault.MailboxNotFound, "a mailbox that is to be blocked is not there", call.CauseOf(w.failed))
}

// goesOn reports whether a look and another try may help after a write: it may
// have been done all the same, or was not let in for a moment.
func goesOn(err error) bool {
	switch outcome.Of(err) {
	case outcome.Unknown, outcome.Broken, outcome.Down, outcome.Throttled:
		return true
	default:
		return false
	}
}

// first is the first error of two.
func first(one, other error) error {
	if one != nil {
		return one
	}
	return other
}
