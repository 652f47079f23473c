// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	// endLease is the longest time for which End pauses enforcement for the tenant. It is longer
	// than workTimeout, so that the pause lasts until End has finished.
	endLease = time.Minute
	// passWait is the default of Service.PassWait.
	passWait = 5 * time.Second
	// callWait is the default of Service.CallWait.
	callWait = 20 * time.Second
)

// EndResult is a limit as it was before End, and the number of mailboxes that End unblocked.
type EndResult struct {
	Limit

	Unblocked int
}

// End ends a policy: it unblocks the mailboxes that only this policy blocks, and removes its rule
// at the platform. If a blocked mailbox also exceeds the tenant-wide limit, the tenant-wide rule
// blocks it instead.
//
// The policy is deleted last, while enforcement is paused. If End stops before the deletion, the
// next enforcement pass restores the rule, and the caller can repeat End. After End, a different
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
	claim, paused, err := reconcile.EnforcementPause{
		Claims: s.Claims, Now: s.Now, Pause: s.Pause, PassWait: cmp.Or(s.PassWait, passWait), CallWait: cmp.Or(s.CallWait, callWait),
	}.Begin(ctx, owner, id, endLease)
	if err == nil && !paused {
		err = pauseLost()
	}
	if err != nil {
		return EndResult{}, err
	}
	e := &policyEnding{Service: s, claim: claim, platform: s.Platform.For(id), result: EndResult{Limit: limit}, encoder: encoder}
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

// pauseLost is the error for a tenant whose enforcement could not be paused for long enough.
func pauseLost() error {
	return fault.ServiceUnavailable.RetryIn(5*time.Second, "the enforcement of the tenant could not be paused; try again")
}

// policyEnding ends one policy while enforcement is paused.
type policyEnding struct {
	*Service
	claim    ports.TenantClaim
	platform ports.MailTenant
	result   EndResult
	encoder  ports.AnswerEncoder[EndResult]
}

func (e *policyEnding) endPolicy(ctx context.Context) error {
	if _, _, leaseHeld, err := reconcile.ReconcileIntents(ctx, e.Claims, e.claim, e.Now, e.listRules); err != nil || !leaseHeld {
		return orPauseLost(leaseHeld, err)
	}
	now := e.Now()
	unblocks, tenantWideList, err := e.decide(ctx, now)
	if err != nil {
		return err
	}
	if len(unblocks) > 0 {
		if leaseHeld, err := e.Claims.SaveIntents(ctx, e.claim, unblocks); err != nil || !leaseHeld {
			return orPauseLost(leaseHeld, err)
		}
	}
	if err := e.setRules(ctx, tenantWideList); err != nil {
		return err
	}
	if len(unblocks) > 0 {
		if leaseHeld, err := e.Claims.SaveChanges(ctx, e.claim, ports.SendChanges{At: e.Now(), Done: unblocks}); err != nil || !leaseHeld {
			return orPauseLost(leaseHeld, err)
		}
	}
	e.result.Unblocked = len(unblocks)
	storedAnswer, err := e.encoder.Encode(e.result)
	if err != nil {
		return err
	}
	leaseHeld := false
	err = reconcile.Store(ctx, func(ctx context.Context) (err error) {
		leaseHeld, err = e.Removals.RemovePolicy(ctx, e.claim, e.result.Policy.ID, storedAnswer)
		return err
	})
	return orPauseLost(leaseHeld, err)
}

// orPauseLost returns err, or the error of pauseLost when the lease is not held.
func orPauseLost(leaseHeld bool, err error) error {
	if err == nil && !leaseHeld {
		return pauseLost()
	}
	return err
}

func (e *policyEnding) listRules(ctx context.Context) (rules []sendlimit.Rule, err error) {
	err = reconcile.Call(ctx, func(ctx context.Context) (err error) {
		rules, err = e.platform.Rules(ctx)
		return err
	})
	return rules, err
}

// decide returns the unblocks of the mailboxes that only this policy blocks. If a blocked mailbox
// moves from this policy's rule to the tenant-wide rule, tenantWideList holds all addresses that
// the tenant-wide rule must block. Otherwise tenantWideList is nil.
func (e *policyEnding) decide(ctx context.Context, now time.Time) (unblocks []sendlimit.Change, tenantWideList []string, err error) {
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
	anyMoves := false
	for _, m := range mailboxes {
		scope, covered := limits.Covering(m.Domain)
		inScope := covered && scope == e.result.Policy.Scope
		if i := slices.IndexFunc(decision.Changes, func(c sendlimit.Change) bool { return c.MailboxID == m.ID && c.Action == sendlimit.Unblocked }); i >= 0 && inScope {
			unblocks = append(unblocks, decision.Changes[i])
		}
		if !m.BlockedAt.IsZero() && slices.Contains(decision.BlockLists[sendlimit.TenantWide], m.Address) {
			tenantWideList, anyMoves = append(tenantWideList, m.Address), anyMoves || inScope
		}
	}
	slices.Sort(tenantWideList)
	if !anyMoves {
		tenantWideList = nil
	}
	return unblocks, tenantWideList, nil
}

// setRules makes the tenant-wide rule block exactly the mailboxes of tenantWideList, unless the
// list is empty. After that, it removes the rule of the policy. In this order, a mailbox that moves
// between the rules stays blocked. Both calls can be repeated.
func (e *policyEnding) setRules(ctx context.Context, tenantWideList []string) error {
	if len(tenantWideList) > 0 {
		err := reconcile.Run(ctx, reconcile.RetryPolicy{Tries: endTries, Pause: e.Pause}, func(ctx context.Context) error {
			_, err := e.platform.Block(ctx, sendlimit.TenantWide, tenantWideList)
			return err
		}, nil)
		if err != nil {
			return fmt.Errorf("block tenant-wide: %w", err)
		}
	}
	return reconcile.Run(ctx, reconcile.RetryPolicy{Tries: endTries, Pause: e.Pause}, func(ctx context.Context) error {
		return e.platform.RemoveRule(ctx, e.result.Policy.Scope)
	}, nil)
}

// endTries is the maximum number of tries of each call that sets or removes a rule.
const endTries = 3
