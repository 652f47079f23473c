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

// TestScheduledRefreshesDetectChanges checks the scheduled refreshes of three integrations after
// six hours. One finds that an account is gone, and one finds that its credential is rejected.
func TestScheduledRefreshesDetectChanges(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	bobsIntegration := fx.createIntegrationOf(t, fx.bob, "instantly")
	fx.connect(t, instantlyID, fx.anna)
	fx.instantly.DropAccount(fx.anna.Address)
	fx.advance(6 * time.Hour)
	for _, p := range fx.Periodic(time.Minute, 6*time.Hour) {
		must(t, p.Do(t.Context()))
	}
	woken := fx.wakeups.Take()
	owners := map[string]access.AccountID{}
	for n, wakeup := range woken {
		owners[wakeup.ID] = wakeup.Account
		// The queue uses the clock of the machine, not that of the service.
		if wait := time.Until(wakeup.At); wait < -time.Minute || wait >= 5*time.Minute || n > 0 && !wakeup.At.After(woken[n-1].At) {
			t.Errorf("wake-up %d is due in %s, want less than 5 minutes, and later than the wake-up before it", n, wait)
		}
	}
	if diff := cmp.Diff(map[string]access.AccountID{instantlyID: fx.ann.ID, plusvibeID: fx.ann.ID, bobsIntegration: fx.bob.ID}, owners); diff != "" {
		t.Fatalf("the wake-ups have the wrong integrations or accounts (-want +got):\n%s", diff)
	}
	endFault := fx.plusvibe.Fail(fake.Fault{Kind: outcome.Refused, Code: fault.AccessDenied})
	for _, wakeup := range woken {
		must(t, fx.Handlers()[wakeup.Kind](t.Context(), wakeup))
	}
	fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnected)
	if i := fx.storedIntegration(t, plusvibeID); !i.HasError || i.Status != integration.Failed {
		t.Errorf("after a rejected credential the integration is %+v, want it failed", i)
	}
	if diff := cmp.Diff(map[integration.Drift]int{integration.DriftGone: 1, integration.DriftRefused: 1}, countDrifts(fx.drifts)); diff != "" {
		t.Errorf("the refreshes reported the wrong drifts (-want +got):\n%s", diff)
	}
	endFault()
	fx.advance(time.Hour)
	fx.sweep(t, refreshSweep)
	if n := fx.plusvibe.Calls("Accounts"); n != 1 {
		t.Errorf("plusvibe was asked for its accounts %d times, want once: a failed refresh is not repeated within an hour", n)
	}
	fx.advance(6 * time.Hour)
	fx.sweep(t, refreshSweep)
	if i := fx.storedIntegration(t, plusvibeID); i.HasError || i.Status != integration.Connected {
		t.Errorf("after the next refresh the integration is %+v, want it connected", i)
	}
}
