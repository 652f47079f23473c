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

// limitedPlatform is a platform that throttles a list of accounts after pagesLeft pages. If wait is
// set, the platform instead calls wait, and its answer to the next page is lost.
type limitedPlatform struct {
	ports.SendingPlatform

	pagesLeft int
	wait      func(context.Context)
}

// untilTheDeadline is a wait of a limitedPlatform that ends with the context of the call.
func untilTheDeadline(ctx context.Context) { <-ctx.Done() }

func (p *limitedPlatform) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	if p.pagesLeft == 0 && p.wait != nil {
		p.wait(ctx)
		return integration.Page{}, &outcome.Error{Kind: outcome.Unknown}
	}
	if p.pagesLeft == 0 {
		return integration.Page{}, &outcome.Error{Kind: outcome.Throttled, RetryAfter: time.Minute}
	}
	p.pagesLeft--
	return p.SendingPlatform.Accounts(ctx, cursor)
}

func (fx *fixture) takeWakeup(t *testing.T) ports.Wakeup {
	t.Helper()
	wakeups := fx.wakeups.Take()
	if len(wakeups) != 1 {
		t.Fatalf("%d wake-ups, want 1: %+v", len(wakeups), wakeups)
	}
	return wakeups[0]
}

// newLimitedFixture returns a fixture whose platform has seven pages of accounts. A wake-up to
// refresh the integration is in the queue. The platform throttles each request for a page until the
// test sets pagesLeft. Anna's account is on the last page. Ben's account does not exist.
func newLimitedFixture(t *testing.T) (fx *fixture, id string, platform *limitedPlatform) {
	t.Helper()
	fx = newFixture(t)
	fx.Timeout = time.Second // too short for a pause
	id = fx.createIntegration(t, "instantly")
	fx.connect(t, id, fx.ben)
	fx.instantly.DropAccount(fx.ben.Address)
	for n := range 6 {
		fx.instantly.Put(integration.Account{Address: fmt.Sprintf("a%d@other.test", n), State: integration.AccountConnected})
	}
	fx.instantly.Put(integration.Account{Address: fx.anna.Address, State: integration.AccountConnected})
	fx.instantly.PageSize = 1
	platform = &limitedPlatform{SendingPlatform: fx.instantly}
	fx.platforms.AddWorkspace("instantly", "key", "ws-1", platform)
	fx.advance(7 * time.Hour)
	for _, p := range fx.Periodic(time.Minute, 6*time.Hour) {
		if p.Kind == refreshSweep {
			must(t, p.Do(t.Context()))
		}
	}
	return fx, id, platform
}

// TestScheduledRefreshesContinueAThrottledList checks that scheduled refreshes continue a throttled
// list until it is complete.
func TestScheduledRefreshesContinueAThrottledList(t *testing.T) { requireContinuedList(t, nil) }

// TestScheduledRefreshesContinueASlowList checks that scheduled refreshes continue a list that they
// cannot read before their deadline.
func TestScheduledRefreshesContinueASlowList(t *testing.T) { requireContinuedList(t, untilTheDeadline) }

// requireContinuedList requires that four scheduled refreshes of two pages each read a list of
// seven pages. wait is limitedPlatform.wait.
func requireContinuedList(t *testing.T, wait func(context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fx, id, platform := newLimitedFixture(t)
		platform.wait = wait
		for part := range 3 {
			wakeup := fx.takeWakeup(t)
			platform.pagesLeft = 2
			must(t, fx.Handlers()[wakeup.Kind](t.Context(), wakeup))
			fx.requireStatus(t, id, fx.ben, integration.ConnectionConnected)
			fx.advance(time.Minute)
			if i := fx.storedIntegration(t, id); i.HasError || !i.RefreshedAt.IsZero() {
				t.Errorf("after part %d the integration is %+v, want neither an error nor a completed refresh", part, i)
			}
		}
		wakeup := fx.takeWakeup(t)
		// The queue uses the clock of the machine.
		if pause := time.Until(wakeup.At); wakeup.ID != id || wakeup.Account != fx.ann.ID || pause <= 0 || pause > time.Minute {
			t.Errorf("the wake-up of the last part is %+v, due in %s; want the integration of ann within a minute", wakeup, pause)
		}
		platform.pagesLeft = 2
		must(t, fx.Handlers()[wakeup.Kind](t.Context(), wakeup))
		fx.requireStatus(t, id, fx.ben, integration.ConnectionDisconnected)
		fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
		if n := fx.instantly.Calls("Accounts"); n != 7 {
			t.Errorf("%d pages were read, want 7", n)
		}
		if wakeups := fx.wakeups.Take(); len(wakeups) != 0 || fx.storedIntegration(t, id).RefreshedAt.IsZero() {
			t.Errorf("the refresh has not ended: the wake-ups are %+v, want none and a completed refresh", wakeups)
		}
	})
}

// contextQueue is a queue that refuses a wake-up if the context has ended, as the real queues do.
type contextQueue struct{ ports.Queue }

func (q contextQueue) Wake(ctx context.Context, wakeups ...ports.Wakeup) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return q.Queue.Wake(ctx, wakeups...)
}

// TestScheduledRefreshIsContinuedAfterTheHandlersDeadline checks that a refresh that used all the
// time of its handler still queues its continuation.
func TestScheduledRefreshIsContinuedAfterTheHandlersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, _, platform := newLimitedFixture(t)
		fx.Queue = contextQueue{fx.wakeups}
		wakeup := fx.takeWakeup(t)
		platform.pagesLeft, platform.wait = 2, untilTheDeadline
		ctx, cancel := context.WithTimeout(t.Context(), fx.Timeout/2)
		defer cancel()
		must(t, fx.Handlers()[wakeup.Kind](ctx, wakeup))
		fx.takeWakeup(t)
	})
}

// TestScheduledRefreshEndsAtAPageWithoutAnAnswer checks that a refresh is not continued if its
// deadline ended it before it read a page, or if an answer was lost before the deadline. The
// integration is then marked as failing.
func TestScheduledRefreshEndsAtAPageWithoutAnAnswer(t *testing.T) {
	for _, tc := range []struct {
		name          string
		pagesInSecond int                   // pages that the second part reads
		wait          func(context.Context) // limitedPlatform.wait in the second part
	}{
		{"the deadline ends the second part before it reads a page", 0, untilTheDeadline},
		{"an answer is lost before the deadline", 1, func(context.Context) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx, id, platform := newLimitedFixture(t)
				platform.pagesLeft, platform.wait = 2, untilTheDeadline
				wakeupOfFirstPart := fx.takeWakeup(t)
				must(t, fx.Handlers()[wakeupOfFirstPart.Kind](t.Context(), wakeupOfFirstPart))
				wakeupOfSecondPart := fx.takeWakeup(t)
				platform.pagesLeft, platform.wait = tc.pagesInSecond, tc.wait
				must(t, fx.Handlers()[wakeupOfSecondPart.Kind](t.Context(), wakeupOfSecondPart))
				if wakeups := fx.wakeups.Take(); len(wakeups) != 0 || !fx.storedIntegration(t, id).HasError {
					t.Errorf("the wake-ups are %+v, want none and an error of the integration", wakeups)
				}
			})
		})
	}
}

// TestStoppedRefreshIsRepeatedByTheQueue checks that the handler fails if the worker stops during
// the second page. Without an error, the queue would not repeat the refresh.
func TestStoppedRefreshIsRepeatedByTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, id, platform := newLimitedFixture(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		platform.pagesLeft, platform.wait = 1, func(context.Context) { stop() }
		wakeup := fx.takeWakeup(t)
		if err := fx.Handlers()[wakeup.Kind](ctx, wakeup); err == nil {
			t.Error("the handler of a stopped refresh returned no error")
		}
		if wakeups := fx.wakeups.Take(); len(wakeups) != 0 || fx.storedIntegration(t, id).HasError {
			t.Errorf("the wake-ups are %+v, want none and no error of the integration", wakeups)
		}
	})
}

// TestRequestedRefreshEndsAtAThrottledPage checks that a requested refresh ends at a throttled
// page. It schedules no refresh that would continue the list.
func TestRequestedRefreshEndsAtAThrottledPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, id, platform := newLimitedFixture(t)
		fx.wakeups.Take()
		platform.pagesLeft = 2
		if got := fx.refresh(t, id); got.Status != integrations.RefreshPartial || !fx.storedIntegration(t, id).HasError || len(fx.wakeups.Take()) != 0 {
			t.Errorf("the refresh returned %+v, want a partial result, an error of the integration and no wake-up", got)
		}
	})
}

// TestScheduledRefreshStopsAfterFifteenParts checks that scheduled refreshes stop reading a list
// after 15 parts, because a part takes a minute and maxListingTime is 15 minutes. They then mark
// the integration as failing.
func TestScheduledRefreshStopsAfterFifteenParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, id, platform := newLimitedFixture(t)
		platform.pagesLeft = 1
		parts := 0
		for wakeups := fx.wakeups.Take(); len(wakeups) == 1 && parts < 100; wakeups = fx.wakeups.Take() {
			must(t, fx.Handlers()[wakeups[0].Kind](t.Context(), wakeups[0]))
			fx.advance(time.Minute)
			parts++
		}
		if parts != 15 || !fx.storedIntegration(t, id).HasError {
			t.Errorf("the refresh had %d parts, want 15 and a failing integration", parts)
		}
		fx.requireStatus(t, id, fx.ben, integration.ConnectionConnected)
	})
}
