// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// rationed is a platform that allows a limited number of pages at a time.
type rationed struct {
	ports.SendingPlatform

	left int
}

func (r *rationed) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	if r.left == 0 {
		return integration.Page{}, &outcome.Error{Kind: outcome.Throttled, RetryAfter: time.Minute}
	}
	r.left--
	return r.SendingPlatform.Accounts(ctx, cursor)
}

// due returns the only waiting wake-up.
func (w *fixture) due(t *testing.T) ports.Wakeup {
	t.Helper()
	all := w.wakeups.Take()
	if len(all) != 1 {
		t.Fatalf("%d wait: %+v", len(all), all)
	}
	return all[0]
}

// newRationed returns a fixture whose platform lists accounts on seven pages, of which two can be
// read at a time. Anna's account is on the last page. Ben's account does not exist.
func newRationed(t *testing.T) (w *fixture, id string, r *rationed) {
	w = newFixture(t)
	w.Limit = time.Second // less than a pause needs
	id = w.integrate(t, "instantly")
	w.connect(t, id, w.ben)
	w.instantly.Drop(w.ben.Address)
	for n := range 6 {
		w.instantly.Put(integration.Account{Address: fmt.Sprintf("a%d@other.test", n), State: integration.AccountConnected})
	}
	w.instantly.Put(integration.Account{Address: w.anna.Address, State: integration.AccountConnected})
	w.instantly.PageSize = 1
	r = &rationed{SendingPlatform: w.instantly}
	w.platforms.Hold("instantly", "key", "ws-1", r)
	w.wait(7 * time.Hour)
	for _, p := range w.Periodic(time.Minute, 6*time.Hour) {
		if p.Kind == refreshes {
			must(t, p.Do(t.Context()))
		}
	}
	return w, id, r
}

// TestScheduledRefreshReadsOn checks that scheduled refreshes continue a throttled list until it is
// complete.
func TestScheduledRefreshReadsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, id, r := newRationed(t)
		for part := range 3 {
			wakeup := w.due(t)
			r.left = 2
			must(t, w.Handlers()[wakeup.Kind](t.Context(), wakeup))
			w.requireStatus(t, id, w.ben, integration.ConnectionConnected)
			w.wait(time.Minute)
			if i := w.integration(t, id); i.HasError || !i.RefreshedAt.IsZero() {
				t.Errorf("after part %d: %+v", part, i)
			}
		}
		wakeup := w.due(t)
		// The queue uses the clock of the machine.
		if in := time.Until(wakeup.At); wakeup.ID != id || wakeup.Account != w.acc.ID || in <= 0 || in > time.Minute {
			t.Errorf("the next part is %+v", wakeup)
		}
		r.left = 2
		must(t, w.Handlers()[wakeup.Kind](t.Context(), wakeup))
		w.requireStatus(t, id, w.ben, integration.ConnectionDisconnected)
		w.requireStatus(t, id, w.anna, integration.ConnectionConnected)
		if n := w.instantly.Calls("Accounts"); n != 7 {
			t.Errorf("%d pages were read", n)
		}
		if all := w.wakeups.Take(); len(all) != 0 || w.integration(t, id).RefreshedAt.IsZero() {
			t.Errorf("it has not ended: %+v", all)
		}
	})
}

// TestRefreshOnRequestDoesNotReadOn checks that pages read by a requested refresh are not kept.
func TestRefreshOnRequestDoesNotReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, id, r := newRationed(t)
		w.wakeups.Take()
		r.left = 2
		if got := w.refresh(t, id); got.Status != integrations.RefreshPartial || !w.integration(t, id).HasError || len(w.wakeups.Take()) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestScheduledRefreshThatTakesTooLong checks that a list that takes too long is an error and is
// read anew.
func TestScheduledRefreshThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, id, r := newRationed(t)
		r.left = 1
		parts := 0
		for all := w.wakeups.Take(); len(all) == 1 && parts < 100; all = w.wakeups.Take() {
			must(t, w.Handlers()[all[0].Kind](t.Context(), all[0]))
			w.wait(time.Minute)
			parts++
		}
		if parts != 15 || !w.integration(t, id).HasError {
			t.Errorf("%d parts, of a minute each", parts)
		}
		w.requireStatus(t, id, w.ben, integration.ConnectionConnected)
	})
}
