// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/app/lease"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// applier applies one decision to the managed rules of a tenant.
type applier struct {
	*pass
	sendlimit.Decision

	policies  sendlimit.Policies
	mailboxes []sendlimit.MailboxState
	// scopes are the scopes that may have a managed rule.
	scopes []string
	// failedScopes are the scopes whose rule could not be set. A failed call may still have changed
	// the rule.
	failedScopes []string
}

// listRules returns the managed rules of the tenant. After the first successful call of a pass, it
// returns the same rules without a call to the platform.
func (p *pass) listRules(ctx context.Context) ([]sendlimit.Rule, error) {
	if p.rulesListed {
		return p.foundRules, nil
	}
	err := p.callReadOnly(ctx, func(ctx context.Context) (err error) {
		p.foundRules, err = p.platform.Rules(ctx)
		return err
	})
	p.rulesListed = err == nil
	return p.foundRules, err
}

// applyRules updates each managed transport rule to block exactly the mailboxes of the decision. A
// rule whose scope has no policy is set to block no mailbox. applyRules skips a rule that is
// already correct, unless a change or an intent may concern the rule. It returns the joined errors
// of the rules that it could not set, or lease.ErrLost.
func (a *applier) applyRules(ctx context.Context) (err error) {
	for _, scope := range a.WriteOrder(a.scopes) {
		setErr := a.setRule(ctx, scope)
		if errors.Is(setErr, lease.ErrLost) {
			return setErr
		}
		if setErr != nil {
			a.failedScopes, err = append(a.failedScopes, scope), errors.Join(err, fmt.Errorf("set rule: %w", setErr))
		}
	}
	return err
}

// scopesWithRules returns the scopes that may have a managed rule. It lists the tenant's rules if
// the store has a scope with a rule, or if TenantClaim.Mark is zero: before the first pass, and
// after a change of the time zone. A listed rule of an unknown scope is an orphan: it remains from
// an earlier connection of the tenant, or was created while its policy was being deleted.
// scopesWithRules stores orphan rules before it returns their scopes. Later passes then know the
// scope even if this pass fails to empty the rule.
func (p *pass) scopesWithRules(ctx context.Context) (scopes []string, err error) {
	scopes, err = p.Policies.ScopesWithRules(ctx, p.Account, p.Tenant)
	if err != nil || len(scopes) == 0 && !p.Mark.IsZero() {
		return scopes, err
	}
	rules, err := p.listRules(ctx)
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	var orphans []string
	for _, r := range rules {
		if !slices.ContainsFunc(scopes, func(scope string) bool { return strings.EqualFold(sendlimit.RuleName(scope), r.Name) }) {
			orphans = append(orphans, strings.ToLower(r.Name))
		}
	}
	if len(orphans) == 0 {
		return scopes, nil
	}
	if err := leaseError(p.Claims.SaveOrphanRules(ctx, p.TenantClaim, orphans)); err != nil {
		return nil, err
	}
	return p.Policies.ScopesWithRules(ctx, p.Account, p.Tenant)
}

// setRule sets the rule of one scope. If a mailbox moves from this rule to a rule that this pass
// failed to set, this rule keeps blocking the mailbox.
func (a *applier) setRule(ctx context.Context, scope string) error {
	if a.CanCoverFailedScopes(scope, a.failedScopes) {
		if list := a.AddressesWithFailedScopes(scope, a.failedScopes, a.foundRules); len(list) > 0 {
			a.BlockLists[scope] = list
		}
	}
	if !a.changesRule(scope) && sendlimit.RuleOf(scope, a.foundRules).Matches(a.BlockLists[scope]) {
		return nil
	}
	err := a.block(ctx, scope)
	if errors.Is(err, fault.MailboxNotFound) || outcome.KindOf(err) == outcome.NotReady {
		return a.blockExisting(ctx, scope, err)
	}
	return err
}

// changesRule reports whether a change of the decision, or an intent of an earlier pass, may change
// the rule of a scope. Such a rule must be set even if the listed rule already has the requested
// state. The listed rules can come from a lagging replica and show an old state. An unblock may
// change the rule of its own scope, the tenant-wide rule, and each rule whose scope has no policy.
// Each of these rules can list the mailbox.
func (a *applier) changesRule(scope string) bool {
	return slices.ContainsFunc(slices.Concat(a.Changes, a.intents), func(c sendlimit.Change) bool {
		return c.Scope == scope || c.Action == sendlimit.Unblocked && (scope == sendlimit.TenantWide || !a.HasPolicy(scope))
	})
}

// block makes the rule of a scope block exactly the mailboxes in its list. It fails when the rule
// that the platform returns has a different list.
func (a *applier) block(ctx context.Context, scope string) error {
	list := a.BlockLists[scope]
	return a.callWithRenewedLease(ctx, func(ctx context.Context) error {
		r, err := a.platform.Block(ctx, scope, list)
		if err == nil && !slices.Equal(r.Blocks(), list) && len(r.Blocks())+len(list) > 0 {
			err = errors.New("the platform's rule blocks other mailboxes than requested")
		}
		return err
	})
}

// blockExisting removes missing mailboxes from the list of a scope and sets the rule again. The
// platform refuses a list with a missing mailbox, so one missing mailbox would prevent the blocks
// of all others. A mailbox is missing if the platform does not list its address, for example
// because the address was changed. If no mailbox is missing, blockExisting returns cause.
func (a *applier) blockExisting(ctx context.Context, scope string, cause error) error {
	existing := map[string]bool{}
	if err := a.callReadOnly(ctx, func(ctx context.Context) error {
		listed, err := a.platform.Mailboxes(ctx)
		for _, m := range listed {
			existing[strings.ToLower(m.Address)] = true
		}
		return err
	}); err != nil {
		return err
	}
	requested := a.BlockLists[scope]
	found := slices.DeleteFunc(slices.Clone(requested), func(address string) bool { return !existing[strings.ToLower(address)] })
	if len(found) == len(requested) {
		return cause // the platform lists every mailbox but refuses the rule
	}
	a.rememberMissing(requested, found)
	a.BlockLists[scope] = found
	if err := a.unblockMissing(ctx, requested, found); err != nil {
		return err
	}
	return a.block(ctx, scope)
}

// rememberMissing excludes the missing mailboxes from the next passes. A mailbox is missing if its
// address is in requested but not in found.
func (a *applier) rememberMissing(requested, found []string) {
	var ids []string
	for _, m := range a.mailboxes {
		if slices.Contains(requested, m.Address) && !slices.Contains(found, m.Address) {
			ids = append(ids, m.ID)
		}
	}
	a.missing.add(a.Tenant, ids, a.now)
}

// unblockMissing adds an unblock for each missing mailbox that was blocked. It stores the unblock
// as an intent before the rule is set without the mailbox.
func (a *applier) unblockMissing(ctx context.Context, requested, found []string) error {
	countBefore := len(a.Changes)
	for _, m := range a.mailboxes {
		if !m.BlockedAt.IsZero() && slices.Contains(requested, m.Address) && !slices.Contains(found, m.Address) {
			a.Changes = append(a.Changes, m.ChangeTo(sendlimit.Unblocked, a.Tenant, a.policies, a.now))
		}
	}
	if len(a.Changes) == countBefore {
		return nil
	}
	return a.saveIntents(ctx)
}

// missingMailboxes holds, for each tenant, the mailboxes that a rule should block but that the
// platform did not list. Passes do not try to block a missing mailbox until its id expires,
// sendlimit.MaxInterval after it was last added.
type missingMailboxes struct {
	mu       sync.Mutex
	byTenant map[tenant.GUID]map[string]time.Time // when each id expires
}

// add records missing mailboxes of a tenant and deletes the expired ids of all tenants.
func (missing *missingMailboxes) add(tenantID tenant.GUID, mailboxIDs []string, now time.Time) {
	missing.mu.Lock()
	defer missing.mu.Unlock()
	if missing.byTenant == nil {
		missing.byTenant = map[tenant.GUID]map[string]time.Time{}
	}
	maps.DeleteFunc(missing.byTenant, func(_ tenant.GUID, expiry map[string]time.Time) bool {
		maps.DeleteFunc(expiry, func(_ string, until time.Time) bool { return !now.Before(until) })
		return len(expiry) == 0
	})
	if missing.byTenant[tenantID] == nil {
		missing.byTenant[tenantID] = map[string]time.Time{}
	}
	for _, mailboxID := range mailboxIDs {
		missing.byTenant[tenantID][mailboxID] = now.Add(sendlimit.MaxInterval)
	}
}

// exclude returns the mailboxes without the missing mailboxes. It keeps a missing mailbox that is
// blocked, because that mailbox still needs an unblock. It also keeps a mailbox whose id expires
// later than sendlimit.MaxInterval from now. Such an expiry can only come from clock skew.
func (missing *missingMailboxes) exclude(tenantID tenant.GUID, mailboxes []sendlimit.MailboxState, now time.Time) []sendlimit.MailboxState {
	missing.mu.Lock()
	defer missing.mu.Unlock()
	return slices.DeleteFunc(mailboxes, func(m sendlimit.MailboxState) bool {
		until := missing.byTenant[tenantID][m.ID]
		return m.BlockedAt.IsZero() && now.Before(until) && until.Sub(now) <= sendlimit.MaxInterval
	})
}
