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
func (fx *fixture) due(t *testing.T) ports.Wakeup {
	t.Helper()
	all := fx.wakeups.Take()
	if len(all) != 1 {
		t.Fatalf("%d wait: %+v", len(all), all)
	}
	return all[0]
}

// newRationed returns a fixture whose platform lists accounts on seven pages, of which two can be
// read at a time. Anna's account is on the last page. Ben's account does not exist.
func newRationed(t *testing.T) (fx *fixture, id string, r *rationed) {
	fx = newFixture(t)
	fx.Limit = time.Second // less than a pause needs
	id = fx.integrate(t, "instantly")
	fx.connect(t, id, fx.ben)
	fx.instantly.DropAccount(fx.ben.Address)
	for n := range 6 {
		fx.instantly.Put(integration.Account{Address: fmt.Sprintf("a%d@other.test", n), State: integration.AccountConnected})
	}
	fx.instantly.Put(integration.Account{Address: fx.anna.Address, State: integration.AccountConnected})
	fx.instantly.PageSize = 1
	r = &rationed{SendingPlatform: fx.instantly}
	fx.platforms.AddWorkspace("instantly", "key", "ws-1", r)
	fx.wait(7 * time.Hour)
	for _, p := range fx.Periodic(time.Minute, 6*time.Hour) {
		if p.Kind == refreshes {
			must(t, p.Do(t.Context()))
		}
	}
	return fx, id, r
}

// TestScheduledRefreshReadsOn checks that scheduled refreshes continue a throttled list until it is
// complete.
func TestScheduledRefreshReadsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, id, r := newRationed(t)
		for part := range 3 {
			wakeup := fx.due(t)
			r.left = 2
			must(t, fx.Handlers()[wakeup.Kind](t.Context(), wakeup))
			fx.requireStatus(t, id, fx.ben, integration.ConnectionConnected)
			fx.wait(time.Minute)
			if i := fx.integration(t, id); i.HasError || !i.RefreshedAt.IsZero() {
				t.Errorf("after part %d: %+v", part, i)
			}
		}
		wakeup := fx.due(t)
		// The queue uses the clock of the machine.
		if in := time.Until(wakeup.At); wakeup.ID != id || wakeup.Account != fx.acc.ID || in <= 0 || in > time.Minute {
			t.Errorf("the next part is %+v", wakeup)
		}
		r.left = 2
		must(t, fx.Handlers()[wakeup.Kind](t.Context(), wakeup))
		fx.requireStatus(t, id, fx.ben, integration.ConnectionDisconnected)
		fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
		if n := fx.instantly.Calls("Accounts"); n != 7 {
			t.Errorf("%d pages were read", n)
		}
		if all := fx.wakeups.Take(); len(all) != 0 || fx.integration(t, id).RefreshedAt.IsZero() {
			t.Errorf("it has not ended: %+v", all)
		}
	})
}

// TestRefreshOnRequestDoesNotReadOn checks that pages read by a requested refresh are not kept.
func TestRefreshOnRequestDoesNotReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, id, r := newRationed(t)
		fx.wakeups.Take()
		r.left = 2
		if got := fx.refresh(t, id); got.Status != integrations.RefreshPartial || !fx.integration(t, id).HasError || len(fx.wakeups.Take()) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestScheduledRefreshThatTakesTooLong checks that a list that takes too long is an error and is
// read again.
func TestScheduledRefreshThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, id, r := newRationed(t)
		r.left = 1
		parts := 0
		for all := fx.wakeups.Take(); len(all) == 1 && parts < 100; all = fx.wakeups.Take() {
			must(t, fx.Handlers()[all[0].Kind](t.Context(), all[0]))
			fx.wait(time.Minute)
			parts++
		}
		if parts != 15 || !fx.integration(t, id).HasError {
			t.Errorf("%d parts, of a minute each", parts)
		}
		fx.requireStatus(t, id, fx.ben, integration.ConnectionConnected)
	})
}
