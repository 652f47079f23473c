// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/ports"
)

func claimOf(owner access.AccountID, key byte) ports.Claim {
	return ports.Claim{
		Place:       idempotency.Place{Account: owner, Key: [32]byte{key}},
		Fingerprint: []byte{'f', key}, Lease: leased, Now: now,
	}
}

// claimed claims a key that is free.
func claimed(t testing.TB, s Stores, c ports.Claim) string {
	t.Helper()
	attempt, won, err := s.Claim(t.Context(), c)
	must(t, "claim", err)
	if !won || attempt == "" {
		t.Fatalf("a free key was not won: %q, %v", attempt, won)
	}
	return attempt
}

// remembered is the record of a key that is there.
func remembered(t testing.TB, s Stores, at idempotency.Place) idempotency.Record {
	t.Helper()
	r, found, err := s.Remembered(t.Context(), at)
	must(t, "look up", err)
	if !found {
		t.Fatal("the key is not remembered")
	}
	return r
}

func unknown(t testing.TB, what string, s Stores, at idempotency.Place) {
	t.Helper()
	if _, found, err := s.Remembered(t.Context(), at); err != nil || found {
		t.Fatalf("%s: found %v, %v", what, found, err)
	}
}

// holds checks what a change of a key says about who has it.
func holds(t testing.TB, what string, want bool) func(held bool, err error) {
	return func(held bool, err error) {
		t.Helper()
		must(t, what, err)
		if held != want {
			t.Fatalf("%s: held is %v", what, held)
		}
	}
}

var claimChecks = []storeCheck{
	{"a claim is remembered as it was made", func(t testing.TB, s Stores) {
		c := claimOf(newAccount(t, s, "ann"), 1)
		unknown(t, "before", s, c.Place)
		attempt := claimed(t, s, c)
		r := remembered(t, s, c.Place)
		if r.Attempt != attempt || !bytes.Equal(r.Fingerprint, c.Fingerprint) || r.Answer != nil || !r.Leased ||
			!r.ExpiresAt.Equal(now.Truncate(time.Microsecond).Add(idempotency.Kept)) {
			t.Fatalf("got %+v", r)
		}
	}},
	{"of many claims at once one wins", func(t testing.TB, s Stores) {
		c := claimOf(newAccount(t, s, "ann"), 1)
		won := make([]bool, crowd)
		for _, err := range atOnce(crowd, func(i int) (err error) {
			_, won[i], err = s.Claim(t.Context(), c)
			return err
		}) {
			must(t, "claim", err)
		}
		if n := count(won); n != 1 {
			t.Fatalf("%d won", n)
		}
	}},
	{"accounts do not share keys", func(t testing.TB, s Stores) {
		ann, bob := claimOf(newAccount(t, s, "ann"), 1), claimOf(newAccount(t, s, "bob"), 1)
		attempt := claimed(t, s, ann)
		unknown(t, "bob's", s, bob.Place)
		holds(t, "finish for bob", false)(s.Finish(t.Context(), bob.Place, attempt, []byte("x"), now))
		holds(t, "leave for bob", false)(s.Leave(t.Context(), bob.Place, attempt, now))
		holds(t, "release for bob", false)(s.Release(t.Context(), bob.Place, attempt))
		holds(t, "hold for bob", false)(s.Hold(t.Context(), bob.Place, attempt, leased))
		claimed(t, s, bob)
		if r := remembered(t, s, ann.Place); r.Attempt != attempt || r.Answer != nil {
			t.Fatalf("ann's became %+v", r)
		}
	}},
	{"an answer is kept as it is, and may be stored twice", func(t testing.TB, s Stores) {
		c := claimOf(newAccount(t, s, "ann"), 1)
		attempt := claimed(t, s, c)
		answer, until := bytes.Repeat([]byte{0, 255, '\'', '?'}, 64<<10), now.Add(time.Hour)
		for range 2 {
			holds(t, "finish", true)(s.Finish(t.Context(), c.Place, attempt, answer, until))
		}
		r := remembered(t, s, c.Place)
		if !bytes.Equal(r.Answer, answer) || r.Leased || !r.ExpiresAt.Equal(until) {
			t.Fatalf("got %d bytes, leased %v, until %v", len(r.Answer), r.Leased, r.ExpiresAt)
		}
		_, won, err := s.Claim(t.Context(), c)
		must(t, "claim again", err)
		if won {
			t.Fatal("a finished key was claimed")
		}
		holds(t, "release of an answer", false)(s.Release(t.Context(), c.Place, attempt))
		holds(t, "leave of an answer", false)(s.Leave(t.Context(), c.Place, attempt, until))
	}},
	{"a released key is free", func(t testing.TB, s Stores) {
		c := claimOf(newAccount(t, s, "ann"), 1)
		first := claimed(t, s, c)
		holds(t, "release", true)(s.Release(t.Context(), c.Place, first))
		unknown(t, "released", s, c.Place)
		if second := claimed(t, s, c); second == first {
			t.Fatal("two attempts have one name")
		}
		holds(t, "finish of the first", false)(s.Finish(t.Context(), c.Place, first, []byte("late"), now))
	}},
	{"keys whose time is over are reaped in batches", func(t testing.TB, s Stores) {
		owner := newAccount(t, s, "ann")
		for i := range byte(5) {
			c := claimOf(owner, i)
			attempt := claimed(t, s, c)
			holds(t, "finish", true)(s.Finish(t.Context(), c.Place, attempt, []byte("x"), now.Add(time.Duration(i)*time.Second)))
		}
		running := claimOf(owner, 9)
		running.Now = now.Add(-2 * idempotency.Kept)
		claimed(t, s, running)
		at := now.Add(2 * time.Second)
		for _, want := range []int{2, 1, 0} {
			if n, err := s.Reap(t.Context(), at, 2); err != nil || n != want {
				t.Fatalf("reaped %d, %v, want %d", n, err, want)
			}
		}
		for i := range byte(3) {
			unknown(t, "expired", s, claimOf(owner, i).Place)
		}
		for _, key := range []byte{3, 4, 9} {
			remembered(t, s, claimOf(owner, key).Place)
		}
	}},
	{"a closed account's keys are forgotten", func(t testing.TB, s Stores) {
		owner := newAccount(t, s, "ann")
		c := claimOf(owner, 1)
		claimed(t, s, c)
		_, err := s.CloseAccount(t.Context(), owner, now)
		must(t, "close", err)
		unknown(t, "of a closed account", s, c.Place)
	}},
}

func count(all []bool) int {
	n := 0
	for _, one := range all {
		if one {
			n++
		}
	}
	return n
}
