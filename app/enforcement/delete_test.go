// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// deletionService returns a service that deletes the tenant. It waits only a millisecond for a pass
// in progress.
func (fx *fixture) deletionService() *tenants.Service {
	return &tenants.Service{Tenants: fx.store, Policies: fx.store, Claims: fx.store, Platform: fx.fake, Now: fx.Now,
		Pause: time.Millisecond, PassWait: time.Millisecond, CallWait: time.Millisecond}
}

// deleteTenant deletes the tenant, and requires that no rule remains.
func (fx *fixture) deleteTenant(t *testing.T, service *tenants.Service) {
	t.Helper()
	deleted, err := service.Delete(t.Context(), fx.owner, fx.id, nil)
	if err != nil || !deleted.RulesRemoved || len(fx.fake.SnapshotOf(fx.id).Rules) != 0 {
		t.Errorf("got %+v, %v, want all rules removed; the platform has the rules %v", deleted.RuleRemoval, err, fx.fake.SnapshotOf(fx.id).Rules)
	}
}

// seizingClaims closes seized when a tenant is seized. Its SeizeTenant returns only after the test
// has closed passEnded.
type seizingClaims struct {
	ports.TenantClaims
	seized, passEnded chan struct{}
}

func (s seizingClaims) SeizeTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (ports.TenantClaim, bool, error) {
	claim, won, err := s.TenantClaims.SeizeTenant(ctx, owner, id, lease)
	close(s.seized)
	<-s.passEnded
	return claim, won, err
}

// TestDeleteDuringCallLeavesNoRule deletes a tenant during a long call of a pass. The deletion
// revokes the lease of the pass. No rule remains, whether the call takes effect before or after the
// revocation. The block and the unblock have one event each.
func TestDeleteDuringCallLeavesNoRule(t *testing.T) {
	for name, lateEffect := range map[string]bool{"the call takes effect before the revocation": false, "the call takes effect after the revocation": true} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.limit(t, sendlimit.TenantWide, 5)
			must(t, fx.run(t))
			fx.fake.Send(fx.id, fx.mailboxes[0].Address, 6)
			fx.advance(sendlimit.MaxInterval)
			service, claims := fx.deletionService(), seizingClaims{fx.store, make(chan struct{}), make(chan struct{})}
			service.Claims = claims
			deletionEnded := make(chan struct{})
			plan := &crashPlan{stepName: "Block", afterEffect: !lateEffect, pause: func() bool {
				go func() { defer close(deletionEnded); fx.deleteTenant(t, service) }()
				select {
				case <-claims.seized:
				case <-deletionEnded: // the deletion ended early, and deleteTenant has reported the error
				}
				return false // the call still reaches the platform
			}}
			must(t, fx.runWithPlan(t, plan))
			close(claims.passEnded)
			<-deletionEnded
			if eventChanges := fx.eventTransitions(t)[fx.mailboxes[0].Address]; len(eventChanges) != 2 || !eventChanges[0] || eventChanges[1] {
				t.Fatalf("the events are %+v, want a block and an unblock", fx.events(t))
			}
			fx.checkEvents(t)
		})
	}
}

// checkEvents fails the test unless the store has one event for each block and each unblock of an
// address by the rules.
func (fx *fixture) checkEvents(t *testing.T) {
	t.Helper()
	ruleChanges, eventChanges := fx.ruleTransitions(), fx.eventTransitions(t)
	for address, changes := range ruleChanges {
		if len(eventChanges[address]) != len(changes) {
			t.Errorf("the rules blocked (true) and unblocked (false) %s as %v, want one event for each; the events are %v", address, changes, eventChanges[address])
		}
	}
}

// TestDeleteUnblocksMailboxes checks that the deletion of a tenant unblocks its mailboxes and
// records the unblocks, even if the bootstrap of the tenant is pending again.
func TestDeleteUnblocksMailboxes(t *testing.T) {
	for _, bootstrap := range []tenant.Bootstrap{tenant.BootstrapReady, tenant.BootstrapPending} {
		t.Run(string(bootstrap), func(t *testing.T) {
			fx := newFixture(t)
			fx.limit(t, domainOne, 5)
			ada := fx.mailboxes[0].Address
			fx.fake.Send(fx.id, ada, 6)
			must(t, fx.run(t))
			apptest.ChangeTenant(t, fx.store, fx.owner, fx.id, func(changed *tenant.Tenant) { changed.Bootstrap = bootstrap })
			fx.deleteTenant(t, fx.deletionService())
			events := fx.events(t)
			if len(events) != 1 || len(events[ada]) != 2 || events[ada][1].Message() != "Mailbox unblocked: sent 6, limit 5" || events[ada][1].Tenant != fx.id {
				t.Fatalf("the events are %+v, want a block and an unblock of ada", events)
			}
			fx.checkEvents(t)
		})
	}
}

// TestDeleteWithoutItsPauseCanBeRepeated ends a limit while the tenant is being deleted, after the
// rules were removed. The end of the limit revokes the lease of the deletion, and moves a block to
// the tenant-wide rule. The deletion must fail. Otherwise it would delete the tenant and leave the
// tenant-wide rule.
func TestDeleteWithoutItsPauseCanBeRepeated(t *testing.T) {
	fx := newFixture(t)
	fx.sendUnderLimits(t, map[string]int{sendlimit.TenantWide: 10, domainOne: 5}, 11)
	service := fx.deletionService()
	service.Claims = crashingClaims{fx.store, &crashPlan{stepName: "SaveChanges", pause: func() (lost bool) {
		_, err := fx.endPolicy(t, domainOne)
		must(t, err)
		return true
	}}}
	if _, err := service.Delete(t.Context(), fx.owner, fx.id, nil); !errors.Is(err, fault.ServiceUnavailable) {
		t.Errorf("got %v, want service_unavailable; the rules block %q", err, fx.blockedByRules(t))
	}
	fx.deleteTenant(t, fx.deletionService())
}

// TestDeleteThatLeavesARuleAndLosesItsPauseCanBeRepeated ends a limit while the tenant is being
// deleted and the removal of the domain's rule fails. The end of the limit moves a block to the
// tenant-wide rule, which the deletion has already removed. The deletion must fail. Otherwise it
// would not name the tenant-wide rule as remaining.
func TestDeleteThatLeavesARuleAndLosesItsPauseCanBeRepeated(t *testing.T) {
	fx := newFixture(t)
	fx.sendUnderLimits(t, map[string]int{sendlimit.TenantWide: 10, domainOne: 5}, 11)
	service := fx.deletionService()
	service.Platform = failingRemovalPlatform{fx.fake, func() {
		_, err := fx.endPolicy(t, domainOne)
		must(t, err)
	}}
	if _, err := service.Delete(t.Context(), fx.owner, fx.id, nil); !errors.Is(err, fault.ServiceUnavailable) {
		t.Errorf("got %v, want service_unavailable; the rules block %q", err, fx.blockedByRules(t))
	}
	fx.deleteTenant(t, fx.deletionService())
}

// failingRemovalPlatform is a platform that calls onRemoval and then fails when it is asked to
// remove the rule of domainOne.
type failingRemovalPlatform struct {
	ports.MailPlatform

	onRemoval func()
}

func (p failingRemovalPlatform) For(id tenant.GUID) ports.MailTenant {
	return failingRemovalTenant{p.MailPlatform.For(id), p.onRemoval}
}

type failingRemovalTenant struct {
	ports.MailTenant

	onRemoval func()
}

func (t failingRemovalTenant) RemoveRule(ctx context.Context, scope string) error {
	if scope != domainOne {
		return t.MailTenant.RemoveRule(ctx, scope)
	}
	t.onRemoval()
	return &outcome.Error{Kind: outcome.Down}
}

// failingTenants is a store that fails to delete tenants.
type failingTenants struct{ *bunstore.Store }

var errStore = errors.New("the tenant cannot be deleted")

func (failingTenants) DeleteTenant(context.Context, access.AccountID, tenant.GUID, *ports.StoredAnswer) error {
	return errStore
}

// TestFailedDeleteResumesEnforcement checks a deletion that fails after it has removed the rules.
// Enforcement then resumes at once.
func TestFailedDeleteResumesEnforcement(t *testing.T) {
	for name, hadPass := range map[string]bool{"after a pass": true, "before the first pass": false} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.limit(t, domainOne, 5)
			ada := fx.mailboxes[0].Address
			fx.fake.Send(fx.id, ada, 6)
			if fx.advance(time.Hour); hadPass {
				must(t, fx.Run(t.Context(), fx.owner, fx.id))
			}
			service := fx.deletionService()
			service.Tenants = failingTenants{fx.store}
			if _, err := service.Delete(t.Context(), fx.owner, fx.id, nil); !errors.Is(err, errStore) || len(fx.blockedByRules(t)) != 0 || len(fx.storedBlocked(t)) != 0 {
				t.Fatalf("got the error %v and the blocked mailboxes %q, want the error of the store and none", err, fx.storedBlocked(t))
			}
			if due, err := fx.store.DueTenants(t.Context(), fx.now, 9); err != nil || len(due) != 1 {
				t.Fatalf("the due tenants are %v, %v, want one", due, err)
			}
			fx.advance(sendlimit.MinInterval)
			must(t, fx.Run(t.Context(), fx.owner, fx.id))
			if fx.checkConsistent(t); len(fx.storedBlocked(t)) != 1 {
				t.Fatalf("the blocked mailboxes are %q, want one", fx.storedBlocked(t))
			}
		})
	}
}
