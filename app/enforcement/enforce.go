// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tenantry/tenantry/app/lease"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// enforce decides which mailboxes to block, stores the changes as intents, sets the transport
// rules, and stores which changes were applied. It returns the time at which the tenant is due
// again.
//
// A change is stored as done only after the platform has applied it. Until then, the store has only
// the intent of the change. If a pass stops before it stores the change as done, the next pass
// reconciles the intent.
func (p *pass) enforce(ctx context.Context) (due time.Time, err error) {
	if err := p.reconcileIntents(ctx); err != nil {
		return due, err
	}
	a := &applier{pass: p}
	policies, err := p.Policies.Policies(ctx, p.Account, p.Tenant)
	if err != nil {
		return due, err
	}
	if a.scopes, err = p.scopesWithRules(ctx); err != nil {
		return due, err
	}
	if a.mailboxes, err = p.countedMailboxes(ctx); err != nil {
		return due, err
	}
	a.mailboxes = p.missing.exclude(p.Tenant, a.mailboxes, p.now)
	a.policies = sendlimit.ByScope(policies)
	a.Decision = sendlimit.Decide(p.Tenant, a.policies, a.mailboxes, p.day, p.now)
	if err := a.saveIntents(ctx); err != nil {
		return due, err
	}
	err = a.applyRules(ctx)
	if errors.Is(err, lease.ErrLost) {
		return due, err
	}
	if err := a.saveChanges(ctx); err != nil {
		return due, err
	}
	return sendlimit.NextEvaluation(p.Tenant, a.policies, a.mailboxes, p.day, p.now), err
}

// reconcileIntents finds out which intents of an interrupted pass took effect, and records them. It
// runs before the decision. Otherwise a block or an unblock that took effect would get no event
// when this pass decides differently.
func (p *pass) reconcileIntents(ctx context.Context) error {
	intents, done, leaseHeld, err := reconcile.ReconcileIntents(ctx, p.Claims, p.TenantClaim, p.Now, p.listRules)
	if err := leaseError(leaseHeld, err); err != nil {
		return err
	}
	p.intents = intents
	p.reportChanges(ctx, done)
	return nil
}

// countedMailboxes returns the tenant's mailboxes with their counts of the current day.
func (p *pass) countedMailboxes(ctx context.Context) ([]sendlimit.MailboxState, error) {
	counted, err := p.Claims.CountedMailboxes(ctx, p.TenantClaim, p.day.Start)
	mailboxes := make([]sendlimit.MailboxState, 0, len(counted))
	for _, m := range counted {
		mailboxes = append(mailboxes, m.StateOn(p.day))
	}
	return mailboxes, err
}

func (a *applier) saveIntents(ctx context.Context) error {
	if len(a.Changes) == 0 {
		return nil
	}
	return leaseError(a.Claims.SaveIntents(ctx, a.TenantClaim, a.Changes))
}

// saveChanges stores the changes that the platform has applied, with their events. It also stores
// which rules without a policy are now empty.
func (a *applier) saveChanges(ctx context.Context) error {
	var changes ports.SendChanges
	for _, change := range a.Changes {
		switch {
		case a.unknownOutcome(change):
			changes.Unresolved = append(changes.Unresolved, change.MailboxID)
		case change.Action == sendlimit.Unblocked || a.isListed(change):
			changes.Done = append(changes.Done, change)
		}
	}
	for _, scope := range a.scopes {
		if !a.HasPolicy(scope) && !slices.Contains(a.failedScopes, scope) {
			changes.EmptyScopes = append(changes.EmptyScopes, scope)
		}
	}
	if len(a.Changes) == 0 && len(changes.EmptyScopes) == 0 {
		return nil
	}
	changes.At = a.Now()
	err := leaseError(a.Claims.SaveChanges(ctx, a.TenantClaim, changes))
	if err == nil {
		a.reportChanges(ctx, changes.Done)
		a.reportBlockDelays(ctx, changes.Done)
	}
	return err
}

// unknownOutcome reports whether the outcome of a change is unknown. A call that failed may still
// have changed its rule. The outcome of an unblock is unknown after any failed call, because an
// unblock does not name the rule that blocks the mailbox.
func (a *applier) unknownOutcome(c sendlimit.Change) bool {
	if c.Action == sendlimit.Unblocked {
		return len(a.failedScopes) > 0
	}
	return slices.Contains(a.failedScopes, c.Scope)
}

// isListed reports whether the pass put the mailbox on the block list of its scope's rule. A
// mailbox that no longer exists at the platform is on no block list. isListed also returns false
// for a scope that is not in scopes, because this pass did not set its rule.
func (a *applier) isListed(c sendlimit.Change) bool {
	return slices.Contains(a.scopes, c.Scope) && slices.Contains(a.BlockLists[c.Scope], c.Event.Address)
}

func (p *pass) reportChanges(ctx context.Context, changes []sendlimit.Change) {
	if p.OnChange == nil {
		return
	}
	for _, c := range changes {
		p.OnChange(ctx, c.Action)
	}
}

// reportBlockDelays calls OnBlockDelay with the delay of each block, if the time at which the
// mailbox exceeded its limit is known.
func (p *pass) reportBlockDelays(ctx context.Context, changes []sendlimit.Change) {
	if p.OnBlockDelay == nil {
		return
	}
	for _, c := range changes {
		if c.Action != sendlimit.Blocked {
			continue
		}
		if at, known := p.todayReading.ExceededAt(c.Event.Address, c.Event.Limit, p.day); known {
			p.OnBlockDelay(ctx, max(0, p.Now().Sub(at)))
		}
	}
}
