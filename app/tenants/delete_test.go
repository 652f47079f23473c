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
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const someones = "somebody's own rule"

// ruled is a tenant of ann's with a rule that blocks a mailbox, and one that is
// none of ours.
func ruled(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.connect(t, w.ann, admin)
	w.rule(t)
	return w
}

func (w *world) rule(t *testing.T) {
	t.Helper()
	w.synced(t)
	if _, err := w.store.ReservePolicy(t.Context(), w.ann.ID, guid, sendlimit.TenantWide, w.now); err != nil {
		t.Fatal(err)
	}
	if _, err := w.platform.For(guid).Block(t.Context(), sendlimit.TenantWide, []string{"ada@a.test"}); err != nil {
		t.Fatal(err)
	}
	w.platform.SetRule(guid, sendlimit.Rule{Name: someones, Enabled: true, Lists: []string{"bob@a.test"}})
}

func (w *world) synced(t *testing.T) {
	t.Helper()
	for range 10 {
		if _, err := w.Sync(t.Context(), w.ann.ID, guid); err != nil {
			t.Fatal(err)
		}
		held, err := w.store.Tenant(t.Context(), w.ann.ID, guid)
		if err != nil {
			t.Fatal(err)
		}
		if held.Bootstrap == tenant.BootstrapReady {
			return
		}
		w.platform.Advance(time.Hour)
	}
	t.Fatal("the mail server does not get ready")
}

func (w *world) ruleNames() (names []string) {
	for _, r := range w.platform.Holds(guid).Rules {
		names = append(names, r.Name)
	}
	return names
}

func (w *world) gone(t *testing.T) tenants.Deleted {
	t.Helper()
	gone, err := w.Delete(t.Context(), w.ann.ID, guid)
	if err != nil {
		t.Fatal(err)
	}
	if held := w.holds(t, w.ann); len(held) != 0 {
		t.Fatalf("still held: %+v", held)
	}
	return gone
}

func TestDeletingTakesOurRulesOutFirst(t *testing.T) {
	w := ruled(t)
	if gone := w.gone(t); !gone.Removed || len(gone.Left) != 0 {
		t.Fatalf("got %+v", gone)
	}
	if names := w.ruleNames(); !slices.Equal(names, []string{someones}) {
		t.Fatalf("left are %q", names)
	}
}

func TestATenantThatNeverHadARuleIsNotAsked(t *testing.T) {
	w := newWorld(t)
	w.connect(t, w.ann, admin)
	if gone := w.gone(t); gone.Removed || len(gone.Left) != 0 || w.platform.Calls("RemoveRules") != 0 {
		t.Fatalf("got %+v after %d calls", gone, w.platform.Calls("RemoveRules"))
	}
}

// What cannot be taken out does not keep a tenant from being deleted, and is
// named.
func TestRulesThatAreLeft(t *testing.T) {
	left := []string{sendlimit.RuleName(sendlimit.TenantWide)}
	for name, spoil := range map[string]func(*world){
		"the platform is down": func(w *world) { w.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Down}) },
		"the answer is lost":   func(w *world) { w.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Unknown}) },
		"the consent is gone":  func(w *world) { w.platform.Revoke(guid, "consent") },
	} {
		t.Run(name, func(t *testing.T) {
			w := ruled(t)
			spoil(w)
			if gone := w.gone(t); gone.Removed || !slices.Equal(gone.Left, left) {
				t.Fatalf("got %+v", gone)
			}
		})
	}
}

// What may have been done in part is asked for again.
func TestRulesThatAreRemovedAtLast(t *testing.T) {
	w := ruled(t)
	w.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.NotReady, Times: 1})
	w.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Unknown, Times: 1})
	if gone := w.gone(t); !gone.Removed || w.platform.Calls("RemoveRules") != 3 {
		t.Fatalf("got %+v after %d calls", gone, w.platform.Calls("RemoveRules"))
	}
}

// Rules are not said to be removed that a run may put back.
func TestARunThatCannotBeKeptAway(t *testing.T) {
	w := ruled(t)
	w.Runs = unyielding{w.store}
	w.RunTurn = time.Millisecond
	if gone := w.gone(t); gone.Removed || len(gone.Left) != 1 || gone.Why == nil {
		t.Fatalf("got %+v", gone)
	}
}

type unyielding struct{ *bunstore.Store }

func (unyielding) ClaimTenant(context.Context, access.AccountID, tenant.GUID, time.Duration, time.Time) (r ports.SendRun, won bool, err error) {
	return r, false, nil
}

func (unyielding) SeizeTenant(context.Context, access.AccountID, tenant.GUID, time.Duration) (r ports.SendRun, won bool, err error) {
	return r, false, nil
}

// A run of enforcement that is under way would put the rules back.
func TestDeletingWaitsForARun(t *testing.T) {
	w := ruled(t)
	r, won, err := w.store.ClaimTenant(t.Context(), w.ann.ID, guid, time.Minute, w.now.Add(time.Hour))
	if err != nil || !won {
		t.Fatalf("not claimed: %v", err)
	}
	done := make(chan tenants.Deleted)
	go func() {
		gone, _ := w.Delete(t.Context(), w.ann.ID, guid)
		done <- gone
	}()
	if _, err := w.platform.For(guid).Block(t.Context(), "a.test", []string{"ada@a.test"}); err != nil {
		t.Error(err)
	}
	if held, err := w.store.ReleaseTenant(t.Context(), r, w.now.Add(time.Hour)); err != nil || !held {
		t.Errorf("the run lost the tenant: %v", err)
	}
	if gone := <-done; !gone.Removed || !slices.Equal(w.ruleNames(), []string{someones}) {
		t.Fatalf("got %+v, left are %q", gone, w.ruleNames())
	}
}

// From the deletion's look on no run begins.
func TestNoRunBeginsWhileATenantIsDeleted(t *testing.T) {
	w := ruled(t)
	gate := w.platform.Hold("RemoveRules")
	done := make(chan error)
	go func() {
		_, err := w.Delete(t.Context(), w.ann.ID, guid)
		done <- err
	}()
	<-gate.Arrived()
	if _, won, err := w.store.ClaimTenant(t.Context(), w.ann.ID, guid, time.Minute, w.now.Add(time.Hour)); err != nil || won {
		t.Errorf("a run began: %v", err)
	}
	gate.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestWithdrawingTakesOurRulesOutFirst(t *testing.T) {
	w := assignedWithRule(t)
	gone, err := w.Withdraw(t.Context(), guid)
	if err != nil || !gone.Removed || gone.Account != w.ann.ID || len(gone.Left) != 0 {
		t.Fatalf("got %+v, %v", gone, err)
	}
	if names := w.ruleNames(); !slices.Equal(names, []string{someones}) {
		t.Fatalf("left are %q", names)
	}
}

// assignedWithRule is ruled with a tenant that the operator manages.
func assignedWithRule(t *testing.T) *world {
	t.Helper()
	w, _ := managed(t)
	w.rule(t)
	return w
}

// Whoever connected a tenant himself keeps it, and its rules.
func TestRulesOfOthersTenantsStay(t *testing.T) {
	w := ruled(t)
	if _, err := w.Withdraw(t.Context(), guid); !errors.Is(err, fault.TenantNotFound) {
		t.Fatalf("withdrawn: %v", err)
	}
	if n := len(w.ruleNames()); n != 2 || w.platform.Calls("RemoveRules") != 0 {
		t.Fatalf("%d rules after %d calls", n, w.platform.Calls("RemoveRules"))
	}
}

// An operator's command that finds no mail platform still ends, and names what
// it leaves.
func TestWithdrawingWithoutAPlatform(t *testing.T) {
	w := assignedWithRule(t)
	w.Platform = nil
	gone, err := w.Withdraw(t.Context(), guid)
	if err != nil || gone.Removed || !slices.Equal(gone.Left, []string{sendlimit.RuleName(sendlimit.TenantWide)}) || gone.Why == nil {
		t.Fatalf("got %+v, %v", gone, err)
	}
	if held := w.holds(t, w.ann); len(held) != 0 {
		t.Fatalf("still held: %v", held)
	}
}

// Before an account is closed its tenants lose our rules, each by itself.
func TestRulesOfAllTenantsOfAnAccount(t *testing.T) {
	w := ruled(t)
	w.connect(t, w.ann, otherAdmin)
	if _, err := w.store.ReservePolicy(t.Context(), w.ann.ID, other, sendlimit.TenantWide, w.now); err != nil {
		t.Fatal(err)
	}
	w.platform.Revoke(other, "consent")
	all, err := w.Unrule(t.Context(), w.ann.ID)
	if err != nil || len(all) != 2 {
		t.Fatalf("got %+v, %v", all, err)
	}
	for _, u := range all {
		if u.Removed != (u.Tenant == guid) || (len(u.Left) == 0) != u.Removed || (u.Why == nil) != u.Removed {
			t.Errorf("got %+v", u)
		}
	}
	if names := w.ruleNames(); !slices.Equal(names, []string{someones}) {
		t.Fatalf("left are %q", names)
	}
	if _, won, err := w.store.ClaimTenant(t.Context(), w.ann.ID, guid, time.Minute, w.now.Add(time.Hour)); err != nil || won {
		t.Errorf("a run began that puts them back: %v", err)
	}
	w.Resume(t.Context(), all) // as the account is not closed after all
	if _, won, err := w.store.ClaimTenant(t.Context(), w.ann.ID, guid, time.Minute, w.now); err != nil || !won {
		t.Errorf("no run puts them back: %v", err)
	}
}
