// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestLimiterAllowsThreeCallsAtOnce(t *testing.T) {
	limiter := new(Limiters).For("c", "t", 0)
	var releases []func()
	for range maxInFlight {
		release, err := limiter.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := limiter.Acquire(ctx); outcome.KindOf(err) != outcome.Throttled {
		t.Fatalf("a fourth concurrent call: got %v, want throttled", err)
	}
	releases[0]()
	if _, err := limiter.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestLimiterThrottlesACallThatCannotMeetItsDeadline checks a call after the burst is used up. The
// pace allows the call after a second, which is later than its deadline.
func TestLimiterThrottlesACallThatCannotMeetItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := new(Limiters).For("c", "t", 1)
		for range burst {
			release, err := limiter.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := limiter.Acquire(ctx); outcome.KindOf(err) != outcome.Throttled || time.Since(began) != 0 {
			t.Fatalf("a call beyond the burst returned %v after %s, want throttled at once", err, time.Since(began))
		}
		if len(limiter.slots) != 0 {
			t.Fatalf("%d slots are in use after the throttled call, want 0", len(limiter.slots))
		}
	})
}

func TestEachTenantHasItsOwnLimiter(t *testing.T) {
	var limiters Limiters
	limiter := limiters.For("c", "t1", 1)
	if limiter == limiters.For("c", "t2", 1) || limiter != limiters.For("c", "t1", 1) {
		t.Fatal("two tenants share a limiter, or one tenant has two limiters")
	}
}

func TestACancelledWaitIsNotThrottled(t *testing.T) {
	limiter := new(Limiters).For("c", "t", 0)
	for range maxInFlight {
		if _, err := limiter.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := limiter.Acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
}

func TestIdleLimitersAreRemoved(t *testing.T) {
	var limiters Limiters
	busy := limiters.For("c", "busy", 1)
	if _, err := busy.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range sweepThreshold {
		limiters.For("c", tenant.GUID(strconv.Itoa(n)), 1)
	}
	if len(limiters.byKey) != 2 || limiters.For("c", "busy", 1) != busy {
		t.Fatalf("%d limiters are kept, want the busy limiter and the newest limiter", len(limiters.byKey))
	}
}
