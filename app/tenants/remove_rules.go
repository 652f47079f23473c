// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	// parallelTenants is the number of tenants whose rules RemoveAllRules removes in parallel.
	parallelTenants = 8
	// parallelRules is the number of rules that removeRules removes in parallel in one tenant. The
	// mail platform delays the commands of a tenant if more of them run in parallel.
	parallelRules = 3
	// closeLease is the duration of the leases with which RemoveAllRules pauses enforcement for the
	// tenants of an account. It exceeds the time of one round over the 100 tenants of the largest
	// plans.
	closeLease = time.Hour
	// removalRounds is the maximum number of rounds of RemoveAllRules. The rounds after the first
	// remove the rules of tenants whose lease was revoked.
	removalRounds = 3
	// intentsTimeout is the timeout of reconcileIntents.
	intentsTimeout = 5 * time.Second
)

// RuleRemoval is the result of removing the managed transport rules from a tenant.
type RuleRemoval struct {
	// RulesRemoved is true if the tenant may have had managed rules and tenantry removed all of
	// them.
	RulesRemoved bool
	// RemainingRules names the rules that may still exist. Err is the error that prevented their
	// removal.
	RemainingRules []string
	Err            error

	// pause is the lease that pauses enforcement. It is valid if paused is true.
	pause  ports.TenantClaim
	paused bool
}

var (
	// errNoPlatform means that no mail platform is configured.
	errNoPlatform = errors.New("no mail platform is configured")
	// errNotPaused means that enforcement could not be paused. An enforcement pass may then create
	// the rules again.
	errNotPaused = errors.New("the enforcement of the tenant could not be paused")
)

// removeManagedRules removes the managed rules from a tenant that may have some, and records the
// unblocks. While enforcement is paused, no pass can create the rules again. If rules may remain,
// the result names them and the reason. removeManagedRules fails with tenant_not_found if the
// tenant was deleted. It also fails if the store fails, if the context ends before enforcement is
// paused, or if a different request revokes the lease.
func (s *Service) removeManagedRules(ctx context.Context, owner access.AccountID, t tenant.Tenant, lease time.Duration) (result RuleRemoval, err error) {
	scopes, err := s.Policies.ScopesWithRules(ctx, owner, t.GUID)
	if err != nil || len(scopes) == 0 {
		return RuleRemoval{}, err
	}
	result.RemainingRules, result.Err = ruleNames(scopes), t.CheckConsent()
	if result.Err == nil && s.Platform == nil {
		result.Err = errNoPlatform
	}
	if result.Err == nil {
		pause := reconcile.EnforcementPause{Claims: s.Claims, Pause: s.Pause, PassWait: s.PassWait, CallWait: s.CallWait}
		if result.pause, result.paused, err = pause.Begin(ctx, owner, t.GUID, lease); err != nil {
			return RuleRemoval{}, err
		}
		if err := s.removeRulesAndRecord(ctx, t.GUID, scopes, lease, &result); err != nil {
			s.resumeEnforcement(ctx, result)
			return RuleRemoval{}, err
		}
	}
	result.RulesRemoved = result.Err == nil
	return result, nil
}

// removeRulesAndRecord removes the rules and records the unblocks. If a removal fails, it records
// no unblocks, but checks that enforcement is still paused. If the pause was lost, a removed rule
// may exist again, so removeRulesAndRecord fails. If enforcement could not be paused at all, a pass
// may create the rules again. All rules then count as remaining.
func (s *Service) removeRulesAndRecord(ctx context.Context, id tenant.GUID, scopes []string, lease time.Duration, result *RuleRemoval) error {
	if result.paused {
		s.reconcileIntents(ctx, result.pause)
	}
	result.RemainingRules, result.Err = s.removeRules(ctx, id, scopes)
	if !result.paused {
		result.RemainingRules, result.Err = ruleNames(scopes), cmp.Or(result.Err, errNotPaused)
		return nil
	}
	return reconcile.Store(ctx, func(ctx context.Context) error {
		if result.Err != nil {
			return reconcile.PauseError(s.Claims.RenewTenantLease(ctx, result.pause, lease))
		}
		return s.recordUnblocks(ctx, result.pause)
	})
}

// reconcileIntents records the blocks and unblocks that an interrupted pass applied but did not
// record. It runs before the rules are removed, because only the rules show which blocks were
// applied. It ignores errors, so that the rules are removed anyway.
func (s *Service) reconcileIntents(ctx context.Context, claim ports.TenantClaim) {
	ctx, cancel := context.WithTimeout(ctx, intentsTimeout)
	defer cancel()
	_, _, _, _ = reconcile.ReconcileIntents(ctx, s.Claims, claim, s.Now, func(ctx context.Context) (rules []sendlimit.Rule, err error) {
		err = reconcile.Call(ctx, func(ctx context.Context) (err error) {
			rules, err = s.Platform.For(claim.Tenant).Rules(ctx)
			return err
		})
		return rules, err
	})
}

func ruleNames(scopes []string) (names []string) {
	for _, scope := range scopes {
		names = append(names, sendlimit.RuleName(scope))
	}
	return names
}

// removeTries is the maximum number of tries for each platform call in removeRules.
const removeTries = 3

// removeRules first removes the managed rules that the platform lists. The list of a lagging
// replica can lack a new rule, so removeRules then removes the rule of each scope by its name.
// removeRules returns the names of the rules that may still exist, and the first error.
func (s *Service) removeRules(ctx context.Context, id tenant.GUID, scopes []string) (remaining []string, firstErr error) {
	platform, retry := s.Platform.For(id), reconcile.RetryPolicy{Tries: removeTries, Pause: s.Pause}
	if err := reconcile.Run(ctx, retry, platform.RemoveRules, nil); err != nil {
		return ruleNames(scopes), err
	}
	errs, slots := make([]error, len(scopes)), make(chan struct{}, parallelRules)
	var wg panics.Group
	for n, scope := range scopes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[n] = reconcile.Run(ctx, retry, func(ctx context.Context) error { return platform.RemoveRule(ctx, scope) }, nil)
		})
	}
	wg.Wait()
	for n, err := range errs {
		if err != nil {
			remaining = append(remaining, sendlimit.RuleName(scopes[n]))
		}
	}
	return remaining, cmp.Or(errs...)
}

// recordUnblocks stores that the blocked mailboxes are unblocked. The events of the unblocks are
// kept after the tenant is deleted. recordUnblocks fails with service_unavailable if the lease was
// lost, because a pass may have blocked mailboxes again since.
func (s *Service) recordUnblocks(ctx context.Context, claim ports.TenantClaim) error {
	location, err := sendlimit.TimeZone(claim.TimeZone)
	if err != nil {
		return err
	}
	now := s.Now()
	day := sendlimit.DayOf(now, location)
	policies, err := s.Policies.Policies(ctx, claim.Account, claim.Tenant)
	if err != nil {
		return err
	}
	mailboxes, err := s.Claims.CountedMailboxes(ctx, claim, day.Start)
	if err != nil {
		return err
	}
	changes := ports.SendChanges{At: now}
	for _, m := range mailboxes {
		if !m.BlockedAt.IsZero() {
			changes.Done = append(changes.Done, m.StateOn(day).ChangeTo(sendlimit.Unblocked, claim.Tenant, sendlimit.ByScope(policies), now))
		}
	}
	return reconcile.PauseError(s.Claims.SaveChanges(ctx, claim, changes))
}

// resumeEnforcement ends the pause of enforcement, after the deletion or withdrawal of the tenant
// or the closing of its account has failed.
func (s *Service) resumeEnforcement(ctx context.Context, r RuleRemoval) {
	if !r.paused {
		return
	}
	_ = reconcile.Store(ctx, func(ctx context.Context) error { // if the release fails, the lease expires
		_, err := s.Claims.ReleaseTenant(ctx, r.pause, s.Now())
		return err
	})
}

// TenantRuleRemoval is the result of removing the managed rules from one tenant of an account.
type TenantRuleRemoval struct {
	Tenant tenant.GUID
	RuleRemoval
}

// RemoveAllRules removes the managed rules from all tenants of an account that the operator is
// about to close. It returns the tenants that may have had rules. If the platform fails to remove
// rules, the result of the tenant names the remaining rules. If the store fails for one tenant,
// RemoveAllRules resumes enforcement in the other tenants and returns the joined errors.
//
// A different request can revoke the lease of a tenant while RemoveAllRules removes the rules of
// the other tenants. The rules of the tenant may then be created again, so RemoveAllRules removes
// them again. After removalRounds rounds it fails with service_unavailable.
func (s *Service) RemoveAllRules(ctx context.Context, owner access.AccountID) ([]TenantRuleRemoval, error) {
	owned, err := s.Tenants.Tenants(ctx, owner)
	if err != nil {
		return nil, err
	}
	results := make([]*DeleteResult, 0, len(owned))
	for _, t := range owned {
		results = append(results, &DeleteResult{Tenant: t})
	}
	pending := results
	for round := 0; len(pending) > 0 && err == nil; round++ {
		if round == removalRounds {
			err = reconcile.PauseLost()
		} else if err = s.removeRulesOfTenants(ctx, owner, pending); err == nil {
			pending, err = s.renewPauses(ctx, results)
		}
	}
	var removals []TenantRuleRemoval
	for _, r := range results {
		if r.RulesRemoved || len(r.RemainingRules) > 0 {
			removals = append(removals, TenantRuleRemoval{r.GUID, r.RuleRemoval})
		}
	}
	if err != nil {
		s.ResumeEnforcement(ctx, removals)
		return nil, err
	}
	return removals, nil
}

// removeRulesOfTenants removes the managed rules from the tenants in pending, and sets the
// RuleRemoval of each element. It ignores a tenant that a different request has deleted, because
// that request has removed the rules or named the remaining ones.
func (s *Service) removeRulesOfTenants(ctx context.Context, owner access.AccountID, pending []*DeleteResult) error {
	errs, slots := make([]error, len(pending)), make(chan struct{}, parallelTenants)
	var wg panics.Group
	for n, r := range pending {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
			defer cancel()
			r.RuleRemoval, errs[n] = s.removeManagedRules(ctx, owner, r.Tenant, closeLease)
			if errors.Is(errs[n], fault.TenantNotFound) {
				errs[n] = nil
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// renewPauses renews the leases that pause enforcement. It returns the tenants whose lease was
// revoked or that were deleted.
func (s *Service) renewPauses(ctx context.Context, results []*DeleteResult) (lost []*DeleteResult, err error) {
	for _, r := range results {
		if !r.paused {
			continue
		}
		leaseHeld, err := s.Claims.RenewTenantLease(ctx, r.pause, closeLease)
		if err != nil {
			return nil, err
		}
		if !leaseHeld {
			lost = append(lost, r)
		}
	}
	return lost, nil
}

// ResumeEnforcement resumes enforcement in the tenants of an account whose closing failed. The next
// passes create each rule again that must block a mailbox.
func (s *Service) ResumeEnforcement(ctx context.Context, removals []TenantRuleRemoval) {
	for _, removal := range removals {
		s.resumeEnforcement(ctx, removal.RuleRemoval)
	}
}
