// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
)

// TestScheduledRefreshesDetectChanges checks that background refreshes detect changes without a
// request.
func TestScheduledRefreshesDetectChanges(t *testing.T) {
	fx := newFixture(t)
	id, second := fx.integrate(t, "instantly"), fx.integrate(t, "plusvibe")
	foreign := fx.integrateFor(t, fx.bob, "instantly")
	fx.connect(t, id, fx.anna)
	fx.instantly.DropAccount(fx.anna.Address)
	fx.wait(6 * time.Hour)
	for _, p := range fx.Periodic(time.Minute, 6*time.Hour) {
		must(t, p.Do(t.Context()))
	}
	woken := fx.wakeups.Take()
	owners := map[string]access.AccountID{}
	for n, wakeup := range woken {
		owners[wakeup.ID] = wakeup.Account
		// The queue uses the clock of the machine, not the service's.
		if late := time.Until(wakeup.At); late < -time.Minute || late >= 5*time.Minute || n > 0 && !wakeup.At.After(woken[n-1].At) {
			t.Errorf("number %d begins after %s", n, late)
		}
	}
	if diff := cmp.Diff(map[string]access.AccountID{id: fx.acc.ID, second: fx.acc.ID, foreign: fx.bob.ID}, owners); diff != "" {
		t.Fatal(diff)
	}
	lift := fx.plusvibe.Fail(fake.Fault{Kind: outcome.Refused, Code: fault.AccessDenied})
	for _, wakeup := range woken {
		must(t, fx.Handlers()[wakeup.Kind](t.Context(), wakeup))
	}
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
	if i := fx.integration(t, second); !i.HasError || i.Status != integration.Failed {
		t.Errorf("%+v", i)
	}
	if diff := cmp.Diff(map[integration.Drift]int{integration.DriftGone: 1, integration.DriftRefused: 1}, counted(fx.drifts)); diff != "" {
		t.Error(diff)
	}
	lift()
	fx.wait(time.Hour)
	fx.sweep(t, refreshes)
	if n := fx.plusvibe.Calls("Accounts"); n != 1 {
		t.Errorf("refreshed %d times in an hour", n)
	}
	fx.wait(6 * time.Hour)
	fx.sweep(t, refreshes)
	if i := fx.integration(t, second); i.HasError || i.Status != integration.Connected {
		t.Errorf("%+v", i)
	}
}
