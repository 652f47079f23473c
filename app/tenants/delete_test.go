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

// newFixtureWithRule returns a fixture whose tenant has a managed rule that blocks a mailbox, and a
// foreign rule.
func newFixtureWithRule(t *testing.T) *fixture {
	t.Helper()
	fx := newFixture(t)
	fx.connect(t, fx.ann, admin)
	fx.addRule(t)
	return fx
}

// addRule adds a managed rule that blocks a mailbox, and a foreign rule.
func (fx *fixture) addRule(t *testing.T) {
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
	t.Fatal("the mail server does not become ready")
}

func (fx *fixture) ruleNames() (names []string) {
	for _, r := range fx.platform.SnapshotOf(guid).Rules {
		names = append(names, r.Name)
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
	fx := newFixtureWithRule(t)
	if deleted := fx.deleteTenant(t); !deleted.RulesRemoved || len(deleted.RemainingRules) != 0 {
		t.Fatalf("got %+v, want all managed rules removed", deleted)
	}
	if names := fx.ruleNames(); !slices.Equal(names, []string{foreignRule}) {
		t.Fatalf("the remaining rules are %q", names)
	}
}

// TestDeleteRemovesRulesThatTheListLacks deletes a tenant whose list of rules lacks a managed rule,
// because a replica lags. Delete removes this rule too. Otherwise the rule would block mailboxes
// forever.
func TestDeleteRemovesRulesThatTheListLacks(t *testing.T) {
	fx := newFixtureWithRule(t)
	fx.platform.DropRule(guid, sendlimit.RuleName(sendlimit.TenantWide))
	fx.platform.FreezeRuleList(guid)
	fx.platform.SetRule(guid, sendlimit.Rule{Name: sendlimit.RuleName(sendlimit.TenantWide), Enabled: true, Lists: []string{"ada@a.test"}})
	if deleted := fx.deleteTenant(t); !deleted.RulesRemoved || len(deleted.RemainingRules) != 0 {
		t.Fatalf("got %+v, want all managed rules removed", deleted)
	}
	if names := fx.ruleNames(); !slices.Equal(names, []string{foreignRule}) {
		t.Fatalf("the remaining rules are %q", names)
	}
}

func TestDeleteWithoutRulesMakesNoCall(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.ann, admin)
	if deleted := fx.deleteTenant(t); deleted.RulesRemoved || len(deleted.RemainingRules) != 0 || fx.platform.Calls("RemoveRules") != 0 {
		t.Fatalf("got %+v after %d calls, want no rules and no call", deleted, fx.platform.Calls("RemoveRules"))
	}
}

// TestDeleteNamesRemainingRules checks that a rule that may remain does not prevent the deletion.
// The result names the rule.
func TestDeleteNamesRemainingRules(t *testing.T) {
	remaining := []string{sendlimit.RuleName(sendlimit.TenantWide)}
	for name, breakRemoval := range map[string]func(*fixture){
		"the platform is down":      func(fx *fixture) { fx.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Down}) },
		"the answer is lost":        func(fx *fixture) { fx.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Unknown}) },
		"the removal by name fails": func(fx *fixture) { fx.platform.Fail(fake.Fault{Method: "RemoveRule", Kind: outcome.Down}) },
		"the consent was withdrawn": func(fx *fixture) { fx.platform.Revoke(guid, "consent") },
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixtureWithRule(t)
			breakRemoval(fx)
			if deleted := fx.deleteTenant(t); deleted.RulesRemoved || !slices.Equal(deleted.RemainingRules, remaining) {
				t.Fatalf("got %+v, want the remaining rules %q", deleted, remaining)
			}
		})
	}
}

// TestRuleRemovalIsRetried checks that Delete repeats a removal that may be incomplete.
func TestRuleRemovalIsRetried(t *testing.T) {
	fx := newFixtureWithRule(t)
	fx.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.NotReady, Times: 1})
	fx.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Unknown, Times: 1})
	if deleted := fx.deleteTenant(t); !deleted.RulesRemoved || fx.platform.Calls("RemoveRules") != 3 {
		t.Fatalf("got %+v after %d calls, want all managed rules removed after 3", deleted, fx.platform.Calls("RemoveRules"))
	}
}

// TestEnforcementCannotBePaused checks that rules are not reported as removed if an enforcement
// pass may create them again.
func TestEnforcementCannotBePaused(t *testing.T) {
	fx := newFixtureWithRule(t)
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
// could create the rules again. A pass may have begun before the mail server of its tenant became
// unprepared.
func TestDeleteWaitsForPass(t *testing.T) {
	for _, bootstrap := range []tenant.Bootstrap{tenant.BootstrapReady, tenant.BootstrapPending} {
		t.Run(string(bootstrap), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := newFixtureWithRule(t)
				r, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now.Add(time.Hour))
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
				if held, err := fx.store.ReleaseTenant(t.Context(), r, fx.now.Add(time.Hour)); err != nil || !held {
					t.Errorf("the pass lost its tenant: %v", err)
				}
				if deleted := <-done; !deleted.RulesRemoved || !slices.Equal(fx.ruleNames(), []string{foreignRule}) {
					t.Fatalf("got %+v, the remaining rules are %q", deleted, fx.ruleNames())
				}
			})
		})
	}
}

func TestNoPassClaimsATenantDuringDelete(t *testing.T) {
	fx := newFixtureWithRule(t)
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
	fx := newManagedFixtureWithRule(t)
	deleted, err := fx.Withdraw(t.Context(), guid)
	if err != nil || !deleted.RulesRemoved || deleted.Account != fx.ann.ID || len(deleted.RemainingRules) != 0 {
		t.Fatalf("got %+v, %v, want all managed rules removed", deleted, err)
	}
	if names := fx.ruleNames(); !slices.Equal(names, []string{foreignRule}) {
		t.Fatalf("the remaining rules are %q", names)
	}
}

// newManagedFixtureWithRule returns the same as newFixtureWithRule, with a tenant that the operator
// assigned.
func newManagedFixtureWithRule(t *testing.T) *fixture {
	t.Helper()
	fx, _ := newManagedFixture(t)
	fx.addRule(t)
	return fx
}

// TestAConnectedTenantCannotBeWithdrawn checks that a tenant which an account connected itself
// cannot be withdrawn, and keeps its rules.
func TestAConnectedTenantCannotBeWithdrawn(t *testing.T) {
	fx := newFixtureWithRule(t)
	if _, err := fx.Withdraw(t.Context(), guid); !errors.Is(err, fault.TenantNotFound) {
		t.Fatalf("withdrawn: %v", err)
	}
	if n := len(fx.ruleNames()); n != 2 || fx.platform.Calls("RemoveRules") != 0 {
		t.Fatalf("%d rules after %d calls", n, fx.platform.Calls("RemoveRules"))
	}
}

// TestWithdrawWithoutPlatformNamesTheRemainingRules checks that Withdraw succeeds without a mail
// platform, and names the rules that remain.
func TestWithdrawWithoutPlatformNamesTheRemainingRules(t *testing.T) {
	fx := newManagedFixtureWithRule(t)
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
// removal of the rules uses up its time. The result names the rules that remain.
func TestWithdrawSucceedsWhileThePlatformHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newManagedFixtureWithRule(t)
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

// TestRemoveAllRules checks that RemoveAllRules removes the managed rules of the tenants of an
// account and pauses enforcement. It reports the rules of a tenant without consent as remaining.
// ResumeEnforcement ends the pause.
func TestRemoveAllRules(t *testing.T) {
	fx := newFixtureWithRule(t)
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
			t.Errorf("the result of a tenant is wrong: %+v", removal)
		}
	}
	if names := fx.ruleNames(); !slices.Equal(names, []string{foreignRule}) {
		t.Fatalf("the remaining rules are %q", names)
	}
	if _, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now.Add(time.Hour)); err != nil || won {
		t.Errorf("a pass that would restore the rules claimed the tenant: %v", err)
	}
	fx.ResumeEnforcement(t.Context(), removals) // the account is not closed
	if _, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now); err != nil || !won {
		t.Errorf("no pass can restore the rules: %v", err)
	}
}

// TestRemoveAllRulesKeepsItsPauses changes the first tenant of an account while the rules of the
// second one are removed. RemoveAllRules must still leave no rule, and keep enforcement paused.
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
				fx := newFixtureWithRule(t)
				fx.connect(t, fx.ann, otherAdmin)
				if _, err := fx.store.ReservePolicy(t.Context(), fx.ann.ID, otherGUID, sendlimit.TenantWide, fx.now); err != nil {
					t.Fatal(err)
				}
				fx.Platform = slowTenant{fx.platform, otherGUID}
				done := make(chan error)
				go func() {
					_, err := fx.RemoveAllRules(t.Context(), fx.ann.ID)
					done <- err
				}()
				time.Sleep(slowness / 2) // the rules of the first tenant are removed
				change(t, fx)
				if err := <-done; err != nil || !slices.Equal(fx.ruleNames(), []string{foreignRule}) {
					t.Errorf("%v; the remaining rules are %q", err, fx.ruleNames())
				}
				if _, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now.Add(time.Hour)); err != nil || won {
					t.Errorf("a pass that would restore the rules claimed the tenant: %v", err)
				}
			})
		})
	}
}

// TestRemoveAllRulesGivesUp checks that RemoveAllRules fails if other requests revoke the lease of
// a tenant again and again.
func TestRemoveAllRulesGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixtureWithRule(t)
		claims := &revokedClaims{TenantClaims: fx.Claims}
		fx.Claims = claims
		if _, err := fx.RemoveAllRules(t.Context(), fx.ann.ID); !errors.Is(err, fault.ServiceUnavailable) || claims.renewals != 3 {
			t.Errorf("got %v after %d rounds, want service_unavailable after 3", err, claims.renewals)
		}
	})
}

// revokedClaims is a store in which other requests have revoked each lease before it is renewed.
// The tenth renewal fails.
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

// slowTenant is a platform that takes the time slowness to remove the rules of one tenant.
type slowTenant struct {
	ports.MailPlatform
	slow tenant.GUID
}

const slowness = 10 * time.Second

func (p slowTenant) For(id tenant.GUID) ports.MailTenant {
	if id == p.slow {
		return slowRemoval{p.MailPlatform.For(id)}
	}
	return p.MailPlatform.For(id)
}

type slowRemoval struct{ ports.MailTenant }

func (r slowRemoval) RemoveRules(ctx context.Context) error {
	time.Sleep(slowness)
	return r.MailTenant.RemoveRules(ctx)
}
