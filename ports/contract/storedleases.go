// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// over is a lease that has ended when it begins, leased is one that outlasts every check.
const over, leased = -time.Second, time.Hour

// untilWon repeats a claim until it wins. Only a lease that never ends reaches the time limit.
func untilWon(t testing.TB, claim func() (bool, error)) {
	t.Helper()
	for end := time.Now().Add(onlyAHang); ; {
		won, err := claim()
		must(t, "claim", err)
		if won {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the lease did not end in %s", onlyAHang)
		}
	}
}

var leaseChecks = []storeCheck{
	{"a key is taken over only when its lease is over, once", func(t testing.TB, s Stores) {
		c := claimOf(newAccount(t, s, "ann"), 1)
		first := claimed(t, s, c)
		_, won, err := s.TakeOver(t.Context(), first, c)
		must(t, "too early", err)
		if won {
			t.Fatal("a live lease was taken over")
		}
		holds(t, "let the lease end", true)(s.Hold(t.Context(), c.Place, first, over))
		if remembered(t, s, c.Place).Leased {
			t.Fatal("a lease that is over counts")
		}
		wins := make([]bool, crowd)
		for _, err := range atOnce(crowd, func(i int) (err error) {
			_, wins[i], err = s.TakeOver(t.Context(), first, c)
			return err
		}) {
			must(t, "take over", err)
		}
		if n := count(wins); n != 1 {
			t.Fatalf("%d took it over", n)
		}
	}},
	{"whoever lost the key changes nothing", func(t testing.TB, s Stores) {
		c := claimOf(newAccount(t, s, "ann"), 1)
		c.Lease = over
		first := claimed(t, s, c)
		c.Lease, c.Fingerprint = leased, []byte("other")
		second, won, err := s.TakeOver(t.Context(), first, c)
		must(t, "take over", err)
		if !won || second == first {
			t.Fatalf("won %v, %q after %q", won, second, first)
		}
		holds(t, "hold", false)(s.Hold(t.Context(), c.Place, first, time.Hour))
		holds(t, "finish", false)(s.Finish(t.Context(), c.Place, first, []byte("late"), now))
		holds(t, "leave", false)(s.Leave(t.Context(), c.Place, first, now))
		holds(t, "release", false)(s.Release(t.Context(), c.Place, first))
		if r := remembered(t, s, c.Place); r.Attempt != second || r.Answer != nil || !r.Leased || string(r.Fingerprint) != "other" {
			t.Fatalf("got %+v", r)
		}
		holds(t, "the owner", true)(s.Finish(t.Context(), c.Place, second, []byte("right"), now.Add(time.Hour)))
	}},
	{"leases follow the database's clock", func(t testing.TB, s Stores) {
		c := claimOf(newAccount(t, s, "ann"), 1)
		first := claimed(t, s, c)
		c.Now = now.Add(1000 * time.Hour)
		if _, won, err := s.TakeOver(t.Context(), first, c); err != nil || won {
			t.Fatalf("the caller's clock ended the lease: %v, %v", won, err)
		}
		holds(t, "shorten the lease", true)(s.Hold(t.Context(), c.Place, first, time.Millisecond))
		untilWon(t, func() (bool, error) {
			_, won, err := s.TakeOver(t.Context(), first, c)
			return won, err
		})
	}},
	{"a left key is free for a take-over at once", func(t testing.TB, s Stores) {
		c := claimOf(newAccount(t, s, "ann"), 1)
		first := claimed(t, s, c)
		holds(t, "leave", true)(s.Leave(t.Context(), c.Place, first, now.Add(time.Hour)))
		if r := remembered(t, s, c.Place); r.Leased || r.Answer != nil || !r.ExpiresAt.Equal(now.Add(time.Hour).Truncate(time.Microsecond)) {
			t.Fatalf("got %+v", r)
		}
		if _, won, err := s.TakeOver(t.Context(), first, c); err != nil || !won {
			t.Fatalf("not taken over: %v", err)
		}
	}},
	{"an answer is taken over only when its time is over", func(t testing.TB, s Stores) {
		c := claimOf(newAccount(t, s, "ann"), 1)
		first := claimed(t, s, c)
		until := now.Truncate(time.Microsecond).Add(time.Hour)
		holds(t, "finish", true)(s.Finish(t.Context(), c.Place, first, []byte("answer"), until))
		c.Now = until.Add(-time.Microsecond)
		if _, won, err := s.TakeOver(t.Context(), first, c); err != nil || won {
			t.Fatalf("taken over a moment early: %v, %v", won, err)
		}
		c.Now = until
		if _, won, err := s.TakeOver(t.Context(), first, c); err != nil || !won {
			t.Fatalf("not taken over in time: %v", err)
		}
		if r := remembered(t, s, c.Place); r.Answer != nil || !r.ExpiresAt.Equal(until.Add(idempotency.Kept)) {
			t.Fatalf("got %+v", r)
		}
	}},
}

// storeEffectChecks look at what a store notes. What was refused or found has
// changed nothing.
var storeEffectChecks = []storeCheck{
	{"what is stored is noted", func(t testing.TB, s Stores) {
		owner := newAccount(t, s, "ann")
		made := attach(t, s, owner, 1)
		for name, act := range map[string]func(ctx context.Context) error{
			"one statement": func(ctx context.Context) error { return s.SaveTenant(ctx, owner, made) },
			"a transaction": func(ctx context.Context) error {
				_, err := s.ReserveDomain(ctx, owner, made.GUID, "a.example", 1, now)
				return err
			},
		} {
			ctx, seen := watched(t)
			must(t, name, act(ctx))
			if !seen().Changed {
				t.Fatalf("%s is not noted", name)
			}
		}
	}},
	{"what is read or refused is not", func(t testing.TB, s Stores) {
		owner, other := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		made := attach(t, s, owner, 1)
		addDomain(t, s, owner, made.GUID, "a.example")
		for name, act := range map[string]func(ctx context.Context) error{
			"a read":                func(ctx context.Context) error { _, err := s.Tenants(ctx, owner); return err },
			"a foreign row":         func(ctx context.Context) error { return s.SaveTenant(ctx, other, made) },
			"a refused transaction": func(ctx context.Context) error { return reserveOneMore(ctx, s, owner, made.GUID) },
			"a refused attachment": func(ctx context.Context) error {
				_, err := s.Attach(ctx, other, tenant.Tenant{GUID: made.GUID, ConsentedAt: now}, 100)
				return err
			},
		} {
			ctx, seen := watched(t)
			if err := act(ctx); err != nil && fault.Of(err).Code == fault.InternalError {
				t.Fatalf("%s: %v", name, err)
			}
			if seen().Changed {
				t.Fatalf("%s counts as a change", name)
			}
		}
	}},
}

func reserveOneMore(ctx context.Context, s Stores, owner access.AccountID, id tenant.GUID) error {
	_, err := s.ReserveDomain(ctx, owner, id, "b.example", 1, now)
	return err
}

// watched is a context that tells what was done in it.
func watched(t testing.TB) (context.Context, func() idempotency.Effects) {
	var e ports.Effects
	return ports.WithEffects(t.Context(), &e), e.Seen
}
