// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/app/lease"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	// endLease is the duration of the lease with which End pauses enforcement for the tenant. It is
	// longer than workTimeout, so that the pause lasts until End has finished.
	endLease = time.Minute
	// endTries is the maximum number of tries of each call that lists, sets or removes rules.
	endTries = 3
)

// EndResult is a limit as it was before End, and the number of mailboxes that End unblocked.
type EndResult struct {
	Limit

	// HadRule is true if the platform had the rule of the policy. Policy.RuleID can be empty even
	// then, because the policy does not store the id of a rule that the first block created.
	HadRule   bool
	Unblocked int
}

// End ends a policy: it unblocks the mailboxes that only this policy blocks, and removes its rule
// at the platform. If a blocked mailbox also exceeds the limit of another policy, the rule of that
// policy blocks it instead.
//
// The policy is deleted last, while enforcement is paused. If End stops before the deletion, the
// next enforcement pass restores the blocks, and the caller can repeat End. After End, a different
// limit can apply to some mailboxes. The next pass is due at once and blocks the mailboxes that
// exceed their new limit.
//
// End fails with tenant_not_found, policy_not_found, access_denied or exchange_bootstrap_not_ready,
// and with the errors of the platform and the store. If enforcement cannot be paused for long
// enough, End fails with service_unavailable.
func (s *Service) End(ctx context.Context, owner access.AccountID, id tenant.GUID, domainScope *string, encoder ports.AnswerEncoder[EndResult]) (EndResult, error) {
	limit, err := s.Get(ctx, owner, id, domainScope)
	if err != nil {
		return EndResult{}, err
	}
	t, err := s.Tenants.Tenant(ctx, owner, id)
	if err == nil {
		err = t.CheckConsentAndMailServer()
	}
	if err != nil {
		return EndResult{}, err
	}
	ctx, cancel := reconcile.Detach(ctx, cmp.Or(s.Timeout, workTimeout))
	defer cancel()
	claimBegan := time.Now()
	pause := reconcile.EnforcementPause{Claims: s.Claims, Pause: s.Pause, PassWait: s.PassWait, CallWait: s.CallWait}
	claim, paused, err := pause.Begin(ctx, owner, id, endLease)
	if err := reconcile.PauseError(paused, err); err != nil {
		return EndResult{}, err
	}
	claimLease := lease.New(claimBegan, endLease, func(ctx context.Context, duration time.Duration) (bool, error) {
		return s.Claims.RenewTenantLease(ctx, claim, duration)
	})
	e := &policyEnding{Service: s, claim: claim, lease: claimLease, platform: s.Platform.For(id), result: EndResult{Limit: limit}, encoder: encoder}
	err = e.endPolicy(ctx)
	_ = reconcile.Store(ctx, func(ctx context.Context) error { // if the release fails, the lease expires
		_, err := s.Claims.ReleaseTenant(ctx, claim, s.Now())
		return err
	})
	if err != nil {
		return EndResult{}, reconcile.Consent{Tenants: s.Tenants, Platform: s.Platform, Now: s.Now}.RecordIfRevoked(ctx, owner, id, err)
	}
	return e.result, nil
}

// policyEnding ends one policy while enforcement is paused.
type policyEnding struct {
	*Service
	claim    ports.TenantClaim
	lease    *lease.Lease
	platform ports.MailTenant
	result   EndResult
	encoder  ports.AnswerEncoder[EndResult]
}

func (e *policyEnding) endPolicy(ctx context.Context) error {
	rules, err := e.listRules(ctx)
	if err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	intents, _, leaseHeld, err := reconcile.ReconcileIntents(ctx, e.Claims, e.claim, e.Now, func(context.Context) ([]sendlimit.Rule, error) { return rules, nil })
	if err := reconcile.PauseError(leaseHeld, err); err != nil {
		return err
	}
	now := e.Now()
	unblocks, blockLists, err := e.decide(ctx, now, rules)
	if err != nil {
		return err
	}
	intents = e.unresolvedIntents(intents, unblocks, blockLists)
	if len(unblocks)+len(intents) > 0 {
		if err := reconcile.PauseError(e.Claims.SaveIntents(ctx, e.claim, slices.Concat(unblocks, intents))); err != nil {
			return err
		}
	}
	if err := e.setRules(ctx, blockLists); err != nil {
		return err
	}
	if len(unblocks) > 0 {
		changes := ports.SendChanges{At: e.Now(), Done: unblocks}
		for _, c := range intents {
			changes.Unresolved = append(changes.Unresolved, c.MailboxID)
		}
		if err := reconcile.PauseError(e.Claims.SaveChanges(ctx, e.claim, changes)); err != nil {
			return err
		}
	}
	e.result.Unblocked = len(unblocks)
	// rules can come from a lagging replica and lack a new rule. A block that ends or moves also
	// shows that the policy had a rule.
	e.result.HadRule = e.result.Policy.RuleID != "" || sendlimit.RuleOf(e.result.Policy.Scope, rules).Name != "" || len(unblocks) > 0 || len(blockLists) > 0
	storedAnswer, err := e.encoder.Encode(e.result)
	if err != nil {
		return err
	}
	return reconcile.Store(ctx, func(ctx context.Context) error {
		return reconcile.PauseError(e.Removals.RemovePolicy(ctx, e.claim, e.result.Policy.ID, storedAnswer))
	})
}

func (e *policyEnding) listRules(ctx context.Context) (rules []sendlimit.Rule, err error) {
	err = reconcile.Run(ctx, reconcile.RetryPolicy{Tries: endTries, Pause: e.Pause}, func(ctx context.Context) (err error) {
		rules, err = e.platform.Rules(ctx)
		return err
	}, nil)
	return rules, err
}

// decide returns the unblocks of the mailboxes that only this policy blocks. blockLists has an
// entry for each scope to whose rule a blocked mailbox moves from this policy's rule. The entry
// lists all blocked mailboxes that the rule of the scope must block.
func (e *policyEnding) decide(ctx context.Context, now time.Time, rules []sendlimit.Rule) (unblocks []sendlimit.Change, blockLists map[string][]string, err error) {
	location, err := sendlimit.TimeZone(e.claim.TimeZone)
	if err != nil {
		return nil, nil, err
	}
	day := sendlimit.DayOf(now, location)
	policies, err := e.Policies.Policies(ctx, e.claim.Account, e.claim.Tenant)
	if err != nil {
		return nil, nil, err
	}
	stored, err := e.Claims.CountedMailboxes(ctx, e.claim, day.Start)
	if err != nil {
		return nil, nil, err
	}
	limits := sendlimit.ByScope(policies)
	remaining := maps.Clone(limits)
	delete(remaining, e.result.Policy.Scope)
	var mailboxes []sendlimit.MailboxState
	for _, m := range stored {
		mailboxes = append(mailboxes, m.StateOn(day))
	}
	decision := sendlimit.Decide(e.claim.Tenant, remaining, mailboxes, day, now)
	blocks, moves := map[string][]string{}, map[string]bool{}
	endedRule := sendlimit.RuleOf(e.result.Policy.Scope, rules)
	for _, m := range mailboxes {
		scope, covered := limits.Covering(m.Domain)
		// The ended rule can still block a mailbox of another scope, if that scope has a new policy
		// that no pass has applied.
		address, inScope := strings.ToLower(m.Address), covered && scope == e.result.Policy.Scope
		ends := inScope || slices.Contains(endedRule.Blocks(), address)
		// If the rule of the mailbox's own scope blocks it too, the next pass unblocks the mailbox.
		staysBlocked := !inScope && slices.Contains(sendlimit.RuleOf(scope, rules).Blocks(), address)
		if i := slices.IndexFunc(decision.Changes, func(c sendlimit.Change) bool { return c.MailboxID == m.ID && c.Action == sendlimit.Unblocked }); i >= 0 && ends && !staysBlocked {
			unblocks = append(unblocks, decision.Changes[i])
		}
		newScope, _ := remaining.Covering(m.Domain)
		if !m.BlockedAt.IsZero() && slices.Contains(decision.BlockLists[newScope], m.Address) {
			blocks[newScope], moves[newScope] = append(blocks[newScope], m.Address), moves[newScope] || ends
		}
	}
	maps.DeleteFunc(blocks, func(scope string, _ []string) bool { return !moves[scope] })
	for _, list := range blocks {
		slices.Sort(list)
	}
	return unblocks, blocks, nil
}

// unresolvedIntents returns the intents of earlier passes that End keeps. They may concern rules
// that End does not set, so the next pass must set these rules (see reconcile.ReconcileIntents).
func (e *policyEnding) unresolvedIntents(intents, unblocks []sendlimit.Change, blockLists map[string][]string) []sendlimit.Change {
	setsRule := func(scope string) bool {
		_, moves := blockLists[scope]
		return moves || scope == e.result.Policy.Scope
	}
	return slices.DeleteFunc(intents, func(intent sendlimit.Change) bool {
		return intent.Action == sendlimit.Blocked && setsRule(intent.Scope) ||
			slices.ContainsFunc(unblocks, func(c sendlimit.Change) bool { return c.MailboxID == intent.MailboxID })
	})
}

// setRules makes the rule of each scope in blockLists block exactly the mailboxes of its list.
// After that, it removes the rule of the policy. In this order, a mailbox that moves between the
// rules stays blocked. All calls can be repeated.
func (e *policyEnding) setRules(ctx context.Context, blockLists map[string][]string) error {
	for _, scope := range slices.Sorted(maps.Keys(blockLists)) {
		if err := e.block(ctx, scope, blockLists[scope]); err != nil {
			return fmt.Errorf("block: %w", err)
		}
	}
	return e.callWithRenewedLease(ctx, func(ctx context.Context) error { return e.platform.RemoveRule(ctx, e.result.Policy.Scope) })
}

// callWithRenewedLease makes a call that changes a rule, and repeats the call if necessary. It
// renews the lease before each try. Without the renewal, a late try could change a rule after a
// different request has revoked the lease, for example to delete the tenant.
func (e *policyEnding) callWithRenewedLease(ctx context.Context, call func(context.Context) error) error {
	err := reconcile.Run(ctx, reconcile.RetryPolicy{Tries: endTries, Pause: e.Pause}, func(ctx context.Context) error {
		return e.lease.GuardWrite(ctx, call)
	}, nil)
	if errors.Is(err, lease.ErrLost) {
		return reconcile.PauseLost()
	}
	return err
}

// block makes the rule of a scope block these mailboxes. The platform refuses a list with a missing
// mailbox. If it does, block leaves out the missing mailboxes. The next pass unblocks them.
func (e *policyEnding) block(ctx context.Context, scope string, list []string) error {
	set := func(list []string) error {
		return e.callWithRenewedLease(ctx, func(ctx context.Context) error {
			_, err := e.platform.Block(ctx, scope, list)
			return err
		})
	}
	err := set(list)
	if !errors.Is(err, fault.MailboxNotFound) {
		return err
	}
	known, err := e.knownAddresses(ctx, e.platform, list)
	if err != nil {
		return err
	}
	return set(known)
}
