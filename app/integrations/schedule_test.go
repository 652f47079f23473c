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

// TestScheduledRefresh checks that background refreshes detect changes without a request.
func TestScheduledRefresh(t *testing.T) {
	w := newFixture(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	theirs := w.integrateFor(t, w.bob, "instantly")
	w.connect(t, id, w.anna)
	w.instantly.Drop(w.anna.Address)
	w.wait(6 * time.Hour)
	for _, p := range w.Periodic(time.Minute, 6*time.Hour) {
		must(t, p.Do(t.Context()))
	}
	woken := w.wakeups.Take()
	owners := map[string]access.AccountID{}
	for n, wakeup := range woken {
		owners[wakeup.ID] = wakeup.Account
		// The queue uses the clock of the machine, not the service's.
		if late := time.Until(wakeup.At); late < -time.Minute || late >= 5*time.Minute || n > 0 && !wakeup.At.After(woken[n-1].At) {
			t.Errorf("number %d begins after %s", n, late)
		}
	}
	if diff := cmp.Diff(map[string]access.AccountID{id: w.acc.ID, second: w.acc.ID, theirs: w.bob.ID}, owners); diff != "" {
		t.Fatal(diff)
	}
	lift := w.plusvibe.Fail(fake.Fault{Kind: outcome.Refused, Code: fault.AccessDenied})
	for _, wakeup := range woken {
		must(t, w.Handlers()[wakeup.Kind](t.Context(), wakeup))
	}
	w.requireStatus(t, id, w.anna, integration.ConnectionDisconnected)
	if i := w.integration(t, second); !i.HasError || i.Status != integration.Failed {
		t.Errorf("%+v", i)
	}
	if diff := cmp.Diff(map[integration.Drift]int{integration.DriftGone: 1, integration.DriftRefused: 1}, counted(w.drifts)); diff != "" {
		t.Error(diff)
	}
	lift()
	w.wait(time.Hour)
	w.sweep(t, refreshes)
	if n := w.plusvibe.Calls("Accounts"); n != 1 {
		t.Errorf("refreshed %d times in an hour", n)
	}
	w.wait(6 * time.Hour)
	w.sweep(t, refreshes)
	if i := w.integration(t, second); i.HasError || i.Status != integration.Connected {
		t.Errorf("%+v", i)
	}
}
