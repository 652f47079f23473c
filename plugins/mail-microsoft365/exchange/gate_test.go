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

func TestAtMostThreeInFlight(t *testing.T) {
	g := new(Gates).Of("c", "t", 0)
	var leave []func()
	for range inFlight {
		l, err := g.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := g.Enter(ctx); outcome.Of(err) != outcome.Throttled {
		t.Fatalf("a fourth call: %v", err)
	}
	leave[0]()
	if _, err := g.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestPacing checks that a call beyond the burst is throttled at once when its
// deadline comes before its turn.
func TestPacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := new(Gates).Of("c", "t", 1)
		for range burst {
			leave, err := g.Enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leave()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := g.Enter(ctx); outcome.Of(err) != outcome.Throttled || time.Since(began) != 0 {
			t.Fatalf("a call beyond the burst ends with %v after %s, want throttled at once", err, time.Since(began))
		}
		if len(g.slots) != 0 {
			t.Fatal("the throttled call still holds a slot")
		}
	})
}

func TestTenantsDoNotWaitForEachOther(t *testing.T) {
	var gs Gates
	one := gs.Of("c", "t1", 1)
	if one == gs.Of("c", "t2", 1) || one != gs.Of("c", "t1", 1) {
		t.Fatal("each tenant has one gate")
	}
}

func TestWhoGivesUpWaitingIsNotThrottled(t *testing.T) {
	g := new(Gates).Of("c", "t", 0)
	for range inFlight {
		if _, err := g.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Enter(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestIdleGatesAreSwept(t *testing.T) {
	var gs Gates
	busy := gs.Of("c", "busy", 1)
	if _, err := busy.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range sweepAt {
		gs.Of("c", tenant.GUID(strconv.Itoa(n)), 1)
	}
	if len(gs.gates) > 10 || gs.Of("c", "busy", 1) != busy {
		t.Fatalf("%d gates are kept", len(gs.gates))
	}
}
