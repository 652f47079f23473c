// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// foreignRule is the name of a rule that the service does not manage.
const foreignRule = "a foreign rule"

// newFixtureWithRules returns a fixture whose tenant has a managed rule that blocks a mailbox, and
// a foreign rule.
func newFixtureWithRules(t *testing.T) *fixture {
	t.Helper()
	fx := newFixture(t)
	fx.connect(t, fx.ann, admin)
	fx.addRules(t)
	return fx
}

// addRules adds a managed rule that blocks a mailbox, and a foreign rule.
func (fx *fixture) addRules(t *testing.T) {
	t.Helper()
	fx.syncUntilReady(t)
	if _, err := fx.store.ReservePolicy(t.Context(), fx.ann.ID, guid, sendlimit.TenantWide, fx.now); err != nil {
		t.Fatal(err)
	}
	if _, err := fx.platform.For(guid).Block(t.Context(), sendlimit.TenantWide, []string{"ada@a.test"}); err != nil {
		t.Fatal(err)
	}
	fx.platform.SetRule(guid, sendlimit.Rule{Name: foreignRule, Enabled: true, Lists: []string{"bob@a.test"}})
}

// syncUntilReady syncs the tenant of ann until its mail server is ready.
func (fx *fixture) syncUntilReady(t *testing.T) {
	t.Helper()
	for range 10 {
		if _, err := fx.Sync(t.Context(), fx.ann.ID, guid); err != nil {
			t.Fatal(err)
		}
		stored, err := fx.store.Tenant(t.Context(), fx.ann.ID, guid)
		must(t, err)
		if stored.Bootstrap == tenant.BootstrapReady {
			return
		}
		fx.platform.Advance(time.Hour)
	}
	t.Fatal("the mail server is not ready after 10 syncs")
}

func (fx *fixture) ruleNames() (names []string) {
	for _, rule := range fx.platform.SnapshotOf(guid).Rules {
		names = append(names, rule.Name)
	}
	return names
}

// deleteTenant deletes the tenant and requires that ann has no tenant any more.
func (fx *fixture) deleteTenant(t *testing.T) tenants.DeleteResult {
	t.Helper()
	deleted, err := fx.Delete(t.Context(), fx.ann.ID, guid, nil)
	must(t, err)
	if guids := fx.listedTenants(t, fx.ann); len(guids) != 0 {
		t.Fatalf("ann still has %v", guids)
	}
	return deleted
}

func TestDeleteRemovesManagedRules(t *testing.T) {
	fx := newFixtureWithRules(t)
	if deleted := fx.deleteTenant(t); !deleted.RulesRemoved || len(deleted.RemainingRules) != 0 {
		t.Fatalf("got %+v, want all managed rules removed", deleted)
	}
	if names := fx.ruleNames(); !slices.Equal(names, []string{foreignRule}) {
		t.Fatalf("the remaining rules are %q, want only the foreign rule", names)
	}
}

// TestDeleteRemovesRulesThatTheListLacks deletes a tenant whose list of rules lacks a managed rule,
// because a replica lags. Delete must remove this rule too, because the rule would block mailboxes
// forever.
func TestDeleteRemovesRulesThatTheListLacks(t *testing.T) {
	fx := newFixtureWithRules(t)
	fx.platform.DropRule(guid, sendlimit.RuleName(sendlimit.TenantWide))
	fx.platform.FreezeRuleList(guid)
	fx.platform.SetRule(guid, sendlimit.Rule{Name: sendlimit.RuleName(sendlimit.TenantWide), Enabled: true, Lists: []string{"ada@a.test"}})
	if deleted := fx.deleteTenant(t); !deleted.RulesRemoved || len(deleted.RemainingRules) != 0 {
		t.Fatalf("got %+v, want all managed rules removed", deleted)
	}
	if names := fx.ruleNames(); !slices.Equal(names, []string{foreignRule}) {
		t.Fatalf("the remaining rules are %q, want only the foreign rule", names)
	}
}

func TestDeleteWithoutRulesMakesNoCall(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.ann, admin)
	if deleted := fx.deleteTenant(t); deleted.RulesRemoved || len(deleted.RemainingRules) != 0 || fx.platform.Calls("RemoveRules") != 0 {
		t.Fatalf("got %+v after %d calls, want no rules and no call", deleted, fx.platform.Calls("RemoveRules"))
	}
}

// TestDeleteNamesRemainingRules checks that Delete deletes a tenant although a managed rule may
// remain at the platform. The result names the rule.
func TestDeleteNamesRemainingRules(t *testing.T) {
	remaining := []string{sendlimit.RuleName(sendlimit.TenantWide)}
	for name, breakRemoval := range map[string]func(*fixture){
		"the platform is down":      func(fx *fixture) { fx.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Down}) },
		"the answer is lost":        func(fx *fixture) { fx.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Unknown}) },
		"the removal by name fails": func(fx *fixture) { fx.platform.Fail(fake.Fault{Method: "RemoveRule", Kind: outcome.Down}) },
		"the consent was withdrawn": func(fx *fixture) { fx.platform.Revoke(guid, "consent") },
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixtureWithRules(t)
			breakRemoval(fx)
			if deleted := fx.deleteTenant(t); deleted.RulesRemoved || !slices.Equal(deleted.RemainingRules, remaining) {
				t.Fatalf("got %+v, want the remaining rules %q", deleted, remaining)
			}
		})
	}
}

// TestRuleRemovalIsRetried checks that Delete repeats a removal that failed or whose answer was
// lost.
func TestRuleRemovalIsRetried(t *testing.T) {
	fx := newFixtureWithRules(t)
	fx.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.NotReady, Times: 1})
	fx.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Unknown, Times: 1})
	if deleted := fx.deleteTenant(t); !deleted.RulesRemoved || fx.platform.Calls("RemoveRules") != 3 {
		t.Fatalf("got %+v after %d calls, want all managed rules removed after 3", deleted, fx.platform.Calls("RemoveRules"))
	}
}

// TestRulesCountAsRemainingIfEnforcementCannotBePaused checks that Delete does not report rules as
// removed if an enforcement pass may create them again.
func TestRulesCountAsRemainingIfEnforcementCannotBePaused(t *testing.T) {
	fx := newFixtureWithRules(t)
	fx.Claims = refusedClaims{fx.store}
	fx.PassWait = time.Millisecond
	if deleted := fx.deleteTenant(t); deleted.RulesRemoved || len(deleted.RemainingRules) != 1 || deleted.Err == nil {
		t.Fatalf("got %+v, want one remaining rule and an error", deleted)
	}
}

// refusedClaims is a store in which no request can pause the enforcement of a tenant.
type refusedClaims struct{ *bunstore.Store }

func (refusedClaims) ClaimUnleasedTenant(context.Context, access.AccountID, tenant.GUID, time.Duration) (claim ports.TenantClaim, won bool, err error) {
	return claim, false, nil
}

func (refusedClaims) SeizeTenant(context.Context, access.AccountID, tenant.GUID, time.Duration) (claim ports.TenantClaim, won bool, err error) {
	return claim, false, nil
}

// TestDeleteWaitsForPass checks that a deletion waits for an enforcement pass in progress, which
// could create the rules again. A pass can be in progress although the mail server is not ready,
// because it may have begun when the mail server was ready.
func TestDeleteWaitsForPass(t *testing.T) {
	for _, bootstrap := range []tenant.Bootstrap{tenant.BootstrapReady, tenant.BootstrapPending} {
		t.Run(string(bootstrap), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := newFixtureWithRules(t)
				passClaim, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now.Add(time.Hour))
				if err != nil || !won {
					t.Fatalf("the tenant cannot be claimed: %v", err)
				}
				stored, err := fx.store.Tenant(t.Context(), fx.ann.ID, guid)
				must(t, err)
				stored.Bootstrap, stored.Observed.Bootstrap = bootstrap, fx.now
				must(t, fx.store.SaveTenant(t.Context(), fx.ann.ID, stored))
				done := make(chan tenants.DeleteResult)
				go func() {
					deleted, _ := fx.Delete(t.Context(), fx.ann.ID, guid, nil)
					done <- deleted
				}()
				time.Sleep(time.Second) // the deletion has begun
				if _, err := fx.platform.For(guid).Block(t.Context(), "a.test", []string{"ada@a.test"}); err != nil {
					t.Error(err)
				}
				if held, err := fx.store.ReleaseTenant(t.Context(), passClaim, fx.now.Add(time.Hour)); err != nil || !held {
					t.Errorf("the pass lost its tenant: %v", err)
				}
				if deleted := <-done; !deleted.RulesRemoved || !slices.Equal(fx.ruleNames(), []string{foreignRule}) {
					t.Fatalf("got %+v, the remaining rules are %q, want only the foreign rule", deleted, fx.ruleNames())
				}
			})
		})
	}
}

func TestNoPassClaimsATenantDuringDelete(t *testing.T) {
	fx := newFixtureWithRules(t)
	gate := fx.platform.Hold("RemoveRules")
	done := make(chan error)
	go func() {
		_, err := fx.Delete(t.Context(), fx.ann.ID, guid, nil)
		done <- err
	}()
	<-gate.Arrived()
	if _, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now.Add(time.Hour)); err != nil || won {
		t.Errorf("a pass claimed the tenant: %v", err)
	}
	gate.Release()
	must(t, <-done)
}

func TestWithdrawRemovesManagedRules(t *testing.T) {
	fx := newManagedFixtureWithRules(t)
	deleted, err := fx.Withdraw(t.Context(), guid)
	if err != nil || !deleted.RulesRemoved || deleted.Account != fx.ann.ID || len(deleted.RemainingRules) != 0 {
		t.Fatalf("got %+v, %v, want all managed rules removed", deleted, err)
	}
	if names := fx.ruleNames(); !slices.Equal(names, []string{foreignRule}) {
		t.Fatalf("the remaining rules are %q, want only the foreign rule", names)
	}
}

// newManagedFixtureWithRules returns the same as newFixtureWithRules, with a tenant that the
// operator assigned.
func newManagedFixtureWithRules(t *testing.T) *fixture {
	t.Helper()
	fx, _ := newManagedFixture(t)
	fx.addRules(t)
	return fx
}

// TestAConnectedTenantCannotBeWithdrawn checks that a tenant which an account connected itself
// cannot be withdrawn, and keeps its rules.
func TestAConnectedTenantCannotBeWithdrawn(t *testing.T) {
	fx := newFixtureWithRules(t)
	if _, err := fx.Withdraw(t.Context(), guid); !errors.Is(err, fault.TenantNotFound) {
		t.Fatalf("got %v, want tenant_not_found", err)
	}
	if names := fx.ruleNames(); len(names) != 2 || fx.platform.Calls("RemoveRules") != 0 {
		t.Fatalf("the rules after %d calls are %q, want both rules and no call", fx.platform.Calls("RemoveRules"), names)
	}
}

// TestWithdrawWithoutPlatformNamesTheRemainingRules checks that Withdraw succeeds without a mail
// platform, and names the rules that remain.
func TestWithdrawWithoutPlatformNamesTheRemainingRules(t *testing.T) {
	fx := newManagedFixtureWithRules(t)
	fx.Platform = nil
	deleted, err := fx.Withdraw(t.Context(), guid)
	if err != nil || deleted.RulesRemoved || !slices.Equal(deleted.RemainingRules, []string{sendlimit.RuleName(sendlimit.TenantWide)}) || deleted.Err == nil {
		t.Fatalf("got %+v, %v, want a remaining rule and no error of Withdraw", deleted, err)
	}
	if guids := fx.listedTenants(t, fx.ann); len(guids) != 0 {
		t.Fatalf("ann still has %v", guids)
	}
}

// TestWithdrawSucceedsWhileThePlatformHangs checks that Withdraw ends the assignment although the
// removal of the rules uses up the time of Withdraw. The result names the rules that remain.
func TestWithdrawSucceedsWhileThePlatformHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newManagedFixtureWithRules(t)
		fx.platform.Hold("RemoveRules")
		deleted, err := fx.Withdraw(t.Context(), guid)
		if err != nil || deleted.RulesRemoved || !slices.Equal(deleted.RemainingRules, []string{sendlimit.RuleName(sendlimit.TenantWide)}) {
			t.Fatalf("got %+v, %v, want a remaining rule and no error of Withdraw", deleted, err)
		}
		if guids := fx.listedTenants(t, fx.ann); len(guids) != 0 {
			t.Fatalf("ann still has %v", guids)
		}
	})
}

// TestRemoveAllRulesPausesEnforcement checks that RemoveAllRules removes the managed rules of the
// tenants of an account and pauses enforcement. RemoveAllRules reports the rules of a tenant
// without consent as remaining. ResumeEnforcement ends the pause.
func TestRemoveAllRulesPausesEnforcement(t *testing.T) {
	fx := newFixtureWithRules(t)
	fx.connect(t, fx.ann, otherAdmin)
	if _, err := fx.store.ReservePolicy(t.Context(), fx.ann.ID, otherGUID, sendlimit.TenantWide, fx.now); err != nil {
		t.Fatal(err)
	}
	fx.platform.Revoke(otherGUID, "consent")
	removals, err := fx.RemoveAllRules(t.Context(), fx.ann.ID)
	if err != nil || len(removals) != 2 {
		t.Fatalf("got %+v, %v, want the results of two tenants", removals, err)
	}
	for _, removal := range removals {
		if removal.RulesRemoved != (removal.Tenant == guid) || (len(removal.RemainingRules) == 0) != removal.RulesRemoved || (removal.Err == nil) != removal.RulesRemoved {
			t.Errorf("got %+v, want the rules of %s removed, and the rules of %s remaining with an error", removal, guid, otherGUID)
		}
	}
	if names := fx.ruleNames(); !slices.Equal(names, []string{foreignRule}) {
		t.Fatalf("the remaining rules are %q, want only the foreign rule", names)
	}
	if _, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now.Add(time.Hour)); err != nil || won {
		t.Errorf("a pass that would restore the rules claimed the tenant: %v", err)
	}
	fx.ResumeEnforcement(t.Context(), removals) // the account is not closed
	if _, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now); err != nil || !won {
		t.Errorf("no pass can restore the rules: %v", err)
	}
}

// TestRemoveAllRulesKeepsItsPauses changes the first tenant of an account while RemoveAllRules
// removes the rules of the second tenant. In the end, the first tenant must have no managed rule,
// and no enforcement pass can claim the tenant.
func TestRemoveAllRulesKeepsItsPauses(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *fixture){
		"a request revokes the lease, and a pass creates a rule": func(t *testing.T, fx *fixture) {
			claim, won, err := fx.store.SeizeTenant(t.Context(), fx.ann.ID, guid, time.Minute)
			if err != nil || !won {
				t.Errorf("the tenant was not seized: %v", err)
			}
			_, err = fx.platform.For(guid).Block(t.Context(), sendlimit.TenantWide, []string{"ada@a.test"})
			must(t, err)
			_, err = fx.store.ReleaseTenant(t.Context(), claim, fx.now)
			must(t, err)
		},
		"a request deletes the tenant": func(t *testing.T, fx *fixture) {
			must(t, fx.store.DeleteTenant(t.Context(), fx.ann.ID, guid, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := newFixtureWithRules(t)
				fx.connect(t, fx.ann, otherAdmin)
				if _, err := fx.store.ReservePolicy(t.Context(), fx.ann.ID, otherGUID, sendlimit.TenantWide, fx.now); err != nil {
					t.Fatal(err)
				}
				fx.Platform = platformWithSlowTenant{fx.platform, otherGUID}
				done := make(chan error)
				go func() {
					_, err := fx.RemoveAllRules(t.Context(), fx.ann.ID)
					done <- err
				}()
				time.Sleep(removalTime / 2) // the rules of the first tenant are removed
				change(t, fx)
				if err := <-done; err != nil || !slices.Equal(fx.ruleNames(), []string{foreignRule}) {
					t.Errorf("got %v and the remaining rules %q, want only the foreign rule", err, fx.ruleNames())
				}
				if _, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now.Add(time.Hour)); err != nil || won {
					t.Errorf("a pass that would restore the rules claimed the tenant: %v", err)
				}
			})
		})
	}
}

// TestRemoveAllRulesFailsIfItsLeasesAreRevoked checks that RemoveAllRules fails after three rounds,
// in each of which a different request has revoked the lease of a tenant.
func TestRemoveAllRulesFailsIfItsLeasesAreRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixtureWithRules(t)
		claims := &revokedClaims{TenantClaims: fx.Claims}
		fx.Claims = claims
		if _, err := fx.RemoveAllRules(t.Context(), fx.ann.ID); !errors.Is(err, fault.ServiceUnavailable) || claims.renewals != 3 {
			t.Errorf("got %v after %d rounds, want service_unavailable after 3", err, claims.renewals)
		}
	})
}

// revokedClaims is a store in which other requests have revoked each lease before its renewal. The
// tenth renewal fails, so that the test ends even if RemoveAllRules never gives up.
type revokedClaims struct {
	ports.TenantClaims
	renewals int
}

func (c *revokedClaims) RenewTenantLease(context.Context, ports.TenantClaim, time.Duration) (bool, error) {
	if c.renewals++; c.renewals == 10 {
		return false, errors.New("the lease was renewed too often")
	}
	return false, nil
}

// platformWithSlowTenant is a platform that takes removalTime to remove the rules of one tenant.
type platformWithSlowTenant struct {
	ports.MailPlatform
	slow tenant.GUID
}

const removalTime = 10 * time.Second // in fake time

func (p platformWithSlowTenant) For(id tenant.GUID) ports.MailTenant {
	if id == p.slow {
		return slowTenant{p.MailPlatform.For(id)}
	}
	return p.MailPlatform.For(id)
}

type slowTenant struct{ ports.MailTenant }

func (m slowTenant) RemoveRules(ctx context.Context) error {
	time.Sleep(removalTime)
	return m.MailTenant.RemoveRules(ctx)
}
