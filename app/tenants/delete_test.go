// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const someones = "somebody's own rule"

// withRule returns a fixture whose tenant has a managed rule that blocks a mailbox, and a foreign
// rule.
func withRule(t *testing.T) *fixture {
	t.Helper()
	fx := newFixture(t)
	fx.connect(t, fx.ann, admin)
	fx.addRule(t)
	return fx
}

func (fx *fixture) addRule(t *testing.T) {
	t.Helper()
	fx.syncMailboxes(t)
	if _, err := fx.store.ReservePolicy(t.Context(), fx.ann.ID, guid, sendlimit.TenantWide, fx.now); err != nil {
		t.Fatal(err)
	}
	if _, err := fx.platform.For(guid).Block(t.Context(), sendlimit.TenantWide, []string{"ada@a.test"}); err != nil {
		t.Fatal(err)
	}
	fx.platform.SetRule(guid, sendlimit.Rule{Name: someones, Enabled: true, Lists: []string{"bob@a.test"}})
}

func (fx *fixture) syncMailboxes(t *testing.T) {
	t.Helper()
	for range 10 {
		if _, err := fx.Sync(t.Context(), fx.ann.ID, guid); err != nil {
			t.Fatal(err)
		}
		held, err := fx.store.Tenant(t.Context(), fx.ann.ID, guid)
		apptest.Must(t, err)
		if held.Bootstrap == tenant.BootstrapReady {
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

func (fx *fixture) deleteTenant(t *testing.T) tenants.DeleteResult {
	t.Helper()
	deleted, err := fx.Delete(t.Context(), fx.ann.ID, guid, nil)
	apptest.Must(t, err)
	if held := fx.heldTenants(t, fx.ann); len(held) != 0 {
		t.Fatalf("still held: %+v", held)
	}
	return deleted
}

func TestDeleteRemovesManagedRules(t *testing.T) {
	fx := withRule(t)
	if deleted := fx.deleteTenant(t); !deleted.RulesRemoved || len(deleted.RemainingRules) != 0 {
		t.Fatalf("got %+v", deleted)
	}
	if names := fx.ruleNames(); !slices.Equal(names, []string{someones}) {
		t.Fatalf("the rest is %q", names)
	}
}

// A lagging replica may not list the rule yet. The rule would then block mailboxes forever.
func TestDeleteRemovesRulesThatTheListLacks(t *testing.T) {
	fx := withRule(t)
	fx.platform.DropRule(guid, sendlimit.RuleName(sendlimit.TenantWide))
	fx.platform.FreezeRuleList(guid)
	fx.platform.SetRule(guid, sendlimit.Rule{Name: sendlimit.RuleName(sendlimit.TenantWide), Enabled: true, Lists: []string{"ada@a.test"}})
	if deleted := fx.deleteTenant(t); !deleted.RulesRemoved || len(deleted.RemainingRules) != 0 {
		t.Fatalf("got %+v", deleted)
	}
	if names := fx.ruleNames(); !slices.Equal(names, []string{someones}) {
		t.Fatalf("the rest is %q", names)
	}
}

// A rule that may exist because the platform did not answer its removal is named in the result.
func TestDeleteNamesRuleThatTheListLacks(t *testing.T) {
	fx := withRule(t)
	fx.platform.Fail(fake.Fault{Method: "RemoveRule", Kind: outcome.Down})
	left := []string{sendlimit.RuleName(sendlimit.TenantWide)}
	if deleted := fx.deleteTenant(t); deleted.RulesRemoved || !slices.Equal(deleted.RemainingRules, left) {
		t.Fatalf("got %+v", deleted)
	}
}

func TestDeleteWithoutRulesMakesNoCall(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.ann, admin)
	if deleted := fx.deleteTenant(t); deleted.RulesRemoved || len(deleted.RemainingRules) != 0 || fx.platform.Calls("RemoveRules") != 0 {
		t.Fatalf("got %+v after %d calls", deleted, fx.platform.Calls("RemoveRules"))
	}
}

// A rule that cannot be removed does not prevent the deletion, and is named in the result.
func TestDeleteNamesRemainingRules(t *testing.T) {
	left := []string{sendlimit.RuleName(sendlimit.TenantWide)}
	for name, spoil := range map[string]func(*fixture){
		"the platform is down": func(fx *fixture) { fx.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Down}) },
		"the answer is lost":   func(fx *fixture) { fx.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Unknown}) },
		"the consent is gone":  func(fx *fixture) { fx.platform.Revoke(guid, "consent") },
	} {
		t.Run(name, func(t *testing.T) {
			fx := withRule(t)
			spoil(fx)
			if deleted := fx.deleteTenant(t); deleted.RulesRemoved || !slices.Equal(deleted.RemainingRules, left) {
				t.Fatalf("got %+v", deleted)
			}
		})
	}
}

// A removal that may be incomplete is requested again.
func TestRuleRemovalIsRetried(t *testing.T) {
	fx := withRule(t)
	fx.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.NotReady, Times: 1})
	fx.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Unknown, Times: 1})
	if deleted := fx.deleteTenant(t); !deleted.RulesRemoved || fx.platform.Calls("RemoveRules") != 3 {
		t.Fatalf("got %+v after %d calls", deleted, fx.platform.Calls("RemoveRules"))
	}
}

// Rules are not reported as removed if an enforcement pass may create them again.
func TestEnforcementCannotBePaused(t *testing.T) {
	fx := withRule(t)
	fx.Runs = heldRuns{fx.store}
	fx.PassWait = time.Millisecond
	if deleted := fx.deleteTenant(t); deleted.RulesRemoved || len(deleted.RemainingRules) != 1 || deleted.Err == nil {
		t.Fatalf("got %+v", deleted)
	}
}

type heldRuns struct{ *bunstore.Store }

func (heldRuns) ClaimTenant(context.Context, access.AccountID, tenant.GUID, time.Duration, time.Time) (r ports.SendRun, won bool, err error) {
	return r, false, nil
}

func (heldRuns) SeizeTenant(context.Context, access.AccountID, tenant.GUID, time.Duration) (r ports.SendRun, won bool, err error) {
	return r, false, nil
}

// A deletion waits for an enforcement pass in progress, which would create the rules again.
func TestDeleteWaitsForPass(t *testing.T) {
	fx := withRule(t)
	r, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now.Add(time.Hour))
	if err != nil || !won {
		t.Fatalf("not claimed: %v", err)
	}
	done := make(chan tenants.DeleteResult)
	go func() {
		deleted, _ := fx.Delete(t.Context(), fx.ann.ID, guid, nil)
		done <- deleted
	}()
	if _, err := fx.platform.For(guid).Block(t.Context(), "a.test", []string{"ada@a.test"}); err != nil {
		t.Error(err)
	}
	if held, err := fx.store.ReleaseTenant(t.Context(), r, fx.now.Add(time.Hour)); err != nil || !held {
		t.Errorf("the pass lost its tenant: %v", err)
	}
	if deleted := <-done; !deleted.RulesRemoved || !slices.Equal(fx.ruleNames(), []string{someones}) {
		t.Fatalf("got %+v, left are %q", deleted, fx.ruleNames())
	}
}

// No enforcement pass starts during a deletion.
func TestNoPassDuringDelete(t *testing.T) {
	fx := withRule(t)
	gate := fx.platform.Hold("RemoveRules")
	done := make(chan error)
	go func() {
		_, err := fx.Delete(t.Context(), fx.ann.ID, guid, nil)
		done <- err
	}()
	<-gate.Arrived()
	if _, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now.Add(time.Hour)); err != nil || won {
		t.Errorf("a run began: %v", err)
	}
	gate.Release()
	apptest.Must(t, <-done)
}

func TestWithdrawRemovesManagedRules(t *testing.T) {
	fx := assignedWithRule(t)
	deleted, err := fx.Withdraw(t.Context(), guid)
	if err != nil || !deleted.RulesRemoved || deleted.Account != fx.ann.ID || len(deleted.RemainingRules) != 0 {
		t.Fatalf("got %+v, %v", deleted, err)
	}
	if names := fx.ruleNames(); !slices.Equal(names, []string{someones}) {
		t.Fatalf("the rest is %q", names)
	}
}

// assignedWithRule is withRule with a tenant that the operator manages.
func assignedWithRule(t *testing.T) *fixture {
	t.Helper()
	fx, _ := managed(t)
	fx.addRule(t)
	return fx
}

// A tenant that an account connected itself cannot be withdrawn, and keeps its rules.
func TestWithdrawConnectedTenant(t *testing.T) {
	fx := withRule(t)
	if _, err := fx.Withdraw(t.Context(), guid); !errors.Is(err, fault.TenantNotFound) {
		t.Fatalf("withdrawn: %v", err)
	}
	if n := len(fx.ruleNames()); n != 2 || fx.platform.Calls("RemoveRules") != 0 {
		t.Fatalf("%d rules after %d calls", n, fx.platform.Calls("RemoveRules"))
	}
}

// Without a mail platform, Withdraw still succeeds and names the rules that remain.
func TestWithdrawWithoutPlatform(t *testing.T) {
	fx := assignedWithRule(t)
	fx.Platform = nil
	deleted, err := fx.Withdraw(t.Context(), guid)
	if err != nil || deleted.RulesRemoved || !slices.Equal(deleted.RemainingRules, []string{sendlimit.RuleName(sendlimit.TenantWide)}) || deleted.Err == nil {
		t.Fatalf("got %+v, %v", deleted, err)
	}
	if held := fx.heldTenants(t, fx.ann); len(held) != 0 {
		t.Fatalf("still held: %v", held)
	}
}

// TestRemoveAllRules checks that the managed rules are removed from every tenant of an account.
func TestRemoveAllRules(t *testing.T) {
	fx := withRule(t)
	fx.connect(t, fx.ann, otherAdmin)
	if _, err := fx.store.ReservePolicy(t.Context(), fx.ann.ID, other, sendlimit.TenantWide, fx.now); err != nil {
		t.Fatal(err)
	}
	fx.platform.Revoke(other, "consent")
	all, err := fx.RemoveAllRules(t.Context(), fx.ann.ID)
	if err != nil || len(all) != 2 {
		t.Fatalf("got %+v, %v", all, err)
	}
	for _, u := range all {
		if u.RulesRemoved != (u.Tenant == guid) || (len(u.RemainingRules) == 0) != u.RulesRemoved || (u.Err == nil) != u.RulesRemoved {
			t.Errorf("got %+v", u)
		}
	}
	if names := fx.ruleNames(); !slices.Equal(names, []string{someones}) {
		t.Fatalf("the rest is %q", names)
	}
	if _, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now.Add(time.Hour)); err != nil || won {
		t.Errorf("a pass began that restores the rules: %v", err)
	}
	fx.ResumeEnforcement(t.Context(), all) // the account is not closed
	if _, won, err := fx.store.ClaimTenant(t.Context(), fx.ann.ID, guid, time.Minute, fx.now); err != nil || !won {
		t.Errorf("no pass can restore the rules: %v", err)
	}
}
