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
	return c.changeRule(ctx, scope, mailboxes, ensureStep, false)
}

// Block implements sdk.MailTenant.
func (c *tenantClient) Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	return c.changeRule(ctx, scope, mailboxes, blockStep, true)
}

func (c *tenantClient) changeRule(ctx context.Context, scope string, mailboxes []string, next nextStep, confirm bool) (sendlimit.Rule, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	name := sendlimit.RuleName(scope)
	senders, err := ruleSenders(name, mailboxes)
	if err != nil {
		return sendlimit.Rule{}, err
	}
	u := ruleUpdate{tenantClient: c, name: name, scope: scope, senders: senders, mustConfirm: confirm}
	return u.run(ctx, next)
}

// Rules implements sdk.MailTenant.
func (c *tenantClient) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	rows, err := c.rules(ctx, nil)
	if err != nil {
		return nil, err
	}
	var rules []sendlimit.Rule
	for _, r := range rows {
		if !sendlimit.IsRuleName(string(r.Name)) {
			continue
		}
		if err := r.checkState(); err != nil {
			return nil, err
		}
		rule := r.toRule(false, false)
		rule.Altered = rule.Altered || r.isEnabled() && r.isPreceded(rows)
		rules = append(rules, rule)
	}
	return rules, nil
}

// RemoveRule implements sdk.MailTenant.
func (c *tenantClient) RemoveRule(ctx context.Context, scope string) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	return c.removeRulesNamed(ctx, []string{sendlimit.RuleName(scope)})
}

// RemoveRules implements sdk.MailTenant. After it has removed the listed rules, it lists the rules
// again, because new rules may have been created meanwhile. It removes enabled rules first, because
// only they block mail and the deadline may pass before all rules are removed.
func (c *tenantClient) RemoveRules(ctx context.Context) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	// A lagging replica may still list removed rules, so they are skipped. A new rule with an old
	// name has a different key and is removed.
	removed := map[ruleKey]bool{}
	for n := 0; ; n++ {
		rows, err := c.rules(ctx, nil)
		if err != nil && n > 0 {
			return asPartlyDone(err)
		}
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(r ruleRow) bool { return !sendlimit.IsRuleName(string(r.Name)) || removed[r.key()] })
		if len(rows) == 0 {
			return nil
		}
		if n >= c.platform.state.retry.MaxAttempts {
			return call.NotReady("new rules are created while the existing rules are removed")
		}
		slices.SortStableFunc(rows, func(a, b ruleRow) int { return cmp.Compare(a.removalOrder(), b.removalOrder()) })
		var names []string
		for _, r := range rows {
			names, removed[r.key()] = append(names, string(r.Name)), true
		}
		if err := c.removeRulesNamed(ctx, names); err != nil && n > 0 {
			return asPartlyDone(err)
		} else if err != nil {
			return err
		}
	}
}

// removeRulesNamed removes the rules with these names. A rule counts as removed when the platform
// has acknowledged its removal, or answers that there is no such rule. A read cannot confirm a
// removal: a lagging replica may still show the rule, and may not show a new rule yet. The platform
// executes a removal on the newest state.
func (c *tenantClient) removeRulesNamed(ctx context.Context, names []string) error {
	p, changed := c.platform.state.retry, false
	for n := 0; ; n++ {
		var remaining []string
		var lastError error
		for _, name := range names {
			err := c.removeRule(ctx, name)
			changed = changed || mayHaveChanged(err)
			if err != nil && !exchange.Is(err, exchange.NotFound) {
				remaining, lastError = append(remaining, name), err
			}
		}
		if names = remaining; len(names) == 0 {
			return nil
		}
		if !mayRetry(lastError) || n >= p.MaxAttempts || !p.Pause(ctx, n, lastError) {
			if changed {
				lastError = asPartlyDone(lastError)
			}
			return lastError
		}
	}
}

// maxWrites is the maximum number of writes of one ruleUpdate. An update needs so many only if
// another client changes the rule at the same time.
const maxWrites = 10

// ruleUpdate changes one rule step by step until it has the requested state. It reads the rule
// before each step and after the last step. Only the writes of confirmState have no read between
// them or after them. The error of a failed write only determines whether the update continues. A
// successful update returns the rule as it was last read.
type ruleUpdate struct {
	*tenantClient

	name, scope string
	senders     []string
	mustConfirm bool // write the state even if the first read already shows it
	lastStep    ruleStep
	writeError  error // error of the last write, nil if it succeeded
	reads       int   // how often the rule was read after the last new step
	writes      int
	placed      bool // a write of this update has put the rule to the front
	created     bool // this update created the rule, or may have created it
	changed     bool // a write has changed the rule, or may have changed it
}

func (u *ruleUpdate) run(ctx context.Context, next nextStep) (sendlimit.Rule, error) {
	for {
		row, found, err := u.rule(ctx, u.name)
		if err != nil {
			return sendlimit.Rule{}, u.finalError(err)
		}
		if u.placed {
			// The update moves the rule only once. If the read shows a priority other than 0, it
			// is old, or another client has put a different rule before this rule.
			row.Priority = 0
		}
		step := next(row, found, u.senders)
		if step == stepDone && u.writes == 0 && u.mustConfirm {
			if err := u.confirmState(ctx); err != nil {
				return sendlimit.Rule{}, u.finalError(err)
			}
		}
		if step == stepDone {
			// The writes of confirmState do not count, and neither does a write that changed
			// nothing.
			return row.toRule(u.created, u.writes > 0 && u.changed), nil
		}
		if err := u.applyStep(ctx, step); err != nil {
			return sendlimit.Rule{}, u.finalError(err)
		}
	}
}

// confirmState writes the requested state of a rule that already has this state according to the
// first read. A lagging replica may have answered that read, and the rule may have a newer state.
// The writes change nothing if the read was right, so they do not count in u.writes.
func (u *ruleUpdate) confirmState(ctx context.Context) error {
	if len(u.senders) == 0 {
		err := u.write(ctx, stepDisable)
		if exchange.Is(err, exchange.NotFound) {
			return nil
		}
		return err
	}
	for _, step := range []ruleStep{stepSetSenders, stepEnable} { // the senders first, so that no other sender is blocked
		err := u.write(ctx, step)
		if exchange.Is(err, exchange.NotFound) { // the rule was removed, or a mailbox does not exist
			if err = u.write(ctx, stepCreateEnabled); exchange.Is(err, exchange.NotFound, exchange.Exists) {
				err = call.Refuse(fault.MailboxNotFound, "a mailbox to block does not exist", call.CauseOf(err))
			}
			return err
		}
		if err != nil {
			return err
		}
		u.changed = true
	}
	return nil
}

// finalError returns the error of an update that cannot go on. If a write may have changed the
// rule, the error must not say that nothing changed.
func (u *ruleUpdate) finalError(err error) error {
	if u.changed {
		return asPartlyDone(err)
	}
	return err
}

// asPartlyDone replaces an error that means "nothing changed" by Unknown, because a rule was
// already changed. It does not replace NotReady.
func asPartlyDone(err error) error {
	if !outcome.ChangedNothing(err) || hasKind(err, outcome.NotReady) {
		return err
	}
	return &outcome.Error{
		Kind: outcome.Unknown, Cause: call.CauseOf(err), Detail: "the mail platform's rules were changed in part",
	}
}

// applyStep executes a step. If the last write was the same step and succeeded, applyStep does not
// repeat it, but pauses before the next read of the rule.
func (u *ruleUpdate) applyStep(ctx context.Context, step ruleStep) error {
	p := u.platform.state.retry
	if step != u.lastStep {
		u.lastStep, u.reads, u.writeError = step, 0, nil
	} else if u.reads++; u.reads >= p.MaxAttempts || !p.Pause(ctx, u.reads-1, u.writeError) {
		return cmp.Or[error](u.writeError, call.NotReady("the mail platform does not show the change of the rule yet"))
	} else if u.writeError == nil {
		return nil
	}
	if u.writes++; u.writes > maxWrites {
		return call.NotReady("another client changes the rule at the same time")
	}
	u.writeError = u.write(ctx, step)
	u.changed = u.changed || mayHaveChanged(u.writeError)
	switch {
	case exchange.Is(u.writeError, exchange.Exists):
		u.writeError = nil // another client created the rule, and the platform shows it soon
		return nil
	case u.writeError == nil || mayRetry(u.writeError):
		u.created = u.created || step == stepCreateEnabled || step == stepCreateDisabled
		return nil
	case exchange.Is(u.writeError, exchange.NotFound):
		return u.notFoundError(ctx, step)
	case exchange.Is(u.writeError, exchange.LimitReached):
		return call.Refuse(fault.ProviderError, "the tenant has no room for the rule", call.CauseOf(u.writeError))
	default:
		return u.writeError
	}
}

// notFoundError handles a write that failed with NotFound. If a sender does not exist, it returns a
// MailboxNotFound refusal. If the rule cannot be read, it returns the error of the read. Otherwise
// it returns nil, so that the update reads the rule again.
func (u *ruleUpdate) notFoundError(ctx context.Context, step ruleStep) error {
	if step != stepCreateEnabled && step != stepCreateDisabled {
		if _, found, err := u.rule(ctx, u.name); err != nil || !found || step != stepSetSenders {
			return err
		}
	}
	return call.Refuse(fault.MailboxNotFound, "a mailbox to block does not exist", call.CauseOf(u.writeError))
}

// mayRetry reports whether it can help to read the rule and try again after a failed write. It can
// help if the write may have had its effect, or if the platform was unavailable or throttled the
// write.
func mayRetry(err error) bool {
	switch outcome.KindOf(err) {
	case outcome.Unknown, outcome.Broken, outcome.Down, outcome.Throttled:
		return true
	default:
		return false
	}
}

// mayHaveChanged reports whether a write with this error may have changed a rule.
func mayHaveChanged(err error) bool {
	return err == nil || hasKind(err, outcome.Unknown) || hasKind(err, outcome.Broken)
}
