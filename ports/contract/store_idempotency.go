// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func newClaim(owner access.AccountID, key byte) ports.Claim {
	return ports.Claim{
		Key:         idempotency.KeyID{Account: owner, Key: [32]byte{key}},
		Fingerprint: []byte{'f', key}, Lease: longLease, Now: now,
	}
}

// mustClaim claims a free key and returns the attempt id.
func mustClaim(t testing.TB, s Stores, c ports.Claim) string {
	t.Helper()
	attempt, won, err := s.Claim(t.Context(), c)
	must(t, "claim", err)
	if !won || attempt == "" {
		t.Fatalf("a free key was not won: %q, %v", attempt, won)
	}
	return attempt
}

// requireRecord returns the record of a key. It fails the test if there is none.
func requireRecord(t testing.TB, s Stores, at idempotency.KeyID) idempotency.Record {
	t.Helper()
	r, found, err := s.Remembered(t.Context(), at)
	must(t, "look up", err)
	if !found {
		t.Fatal("the key is not remembered")
	}
	return r
}

func requireNoRecord(t testing.TB, what string, s Stores, at idempotency.KeyID) {
	t.Helper()
	if _, found, err := s.Remembered(t.Context(), at); err != nil || found {
		t.Fatalf("%s: found %v, %v", what, found, err)
	}
}

// requireHeld checks the result of a write that reports whether the caller still holds its lease.
func requireHeld(t testing.TB, what string, want bool) func(held bool, err error) {
	return func(held bool, err error) {
		t.Helper()
		must(t, what, err)
		if held != want {
			t.Fatalf("%s: held is %v", what, held)
		}
	}
}

var claimChecks = []storeCheck{
	{"a claim is stored as it was made", func(t testing.TB, s Stores) {
		c := newClaim(newAccount(t, s, "ann"), 1)
		requireNoRecord(t, "before", s, c.Key)
		attempt := mustClaim(t, s, c)
		r := requireRecord(t, s, c.Key)
		if r.Attempt != attempt || !bytes.Equal(r.Fingerprint, c.Fingerprint) || r.Answer != nil || !r.Leased ||
			!r.ExpiresAt.Equal(now.Truncate(time.Microsecond).Add(idempotency.Retention)) {
			t.Fatalf("got %+v", r)
		}
	}},
	{"of concurrent claims exactly one succeeds", func(t testing.TB, s Stores) {
		c := newClaim(newAccount(t, s, "ann"), 1)
		won := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(i int) (err error) {
			_, won[i], err = s.Claim(t.Context(), c)
			return err
		}) {
			must(t, "claim", err)
		}
		if n := countTrue(won); n != 1 {
			t.Fatalf("%d won", n)
		}
	}},
	{"accounts do not share keys", func(t testing.TB, s Stores) {
		ann, bob := newClaim(newAccount(t, s, "ann"), 1), newClaim(newAccount(t, s, "bob"), 1)
		attempt := mustClaim(t, s, ann)
		requireNoRecord(t, "bob's", s, bob.Key)
		requireHeld(t, "finish for bob", false)(s.Finish(t.Context(), bob.Key, attempt, []byte("x"), now))
		requireHeld(t, "leave for bob", false)(s.Leave(t.Context(), bob.Key, attempt, now))
		requireHeld(t, "release for bob", false)(s.Release(t.Context(), bob.Key, attempt))
		requireHeld(t, "hold for bob", false)(s.Hold(t.Context(), bob.Key, attempt, longLease))
		mustClaim(t, s, bob)
		if r := requireRecord(t, s, ann.Key); r.Attempt != attempt || r.Answer != nil {
			t.Fatalf("ann's became %+v", r)
		}
	}},
	{"an answer is stored unchanged and may be stored twice", func(t testing.TB, s Stores) {
		c := newClaim(newAccount(t, s, "ann"), 1)
		attempt := mustClaim(t, s, c)
		answer, until := bytes.Repeat([]byte{0, 255, '\'', '?'}, 64<<10), now.Add(time.Hour)
		for range 2 {
			requireHeld(t, "finish", true)(s.Finish(t.Context(), c.Key, attempt, answer, until))
		}
		r := requireRecord(t, s, c.Key)
		if !bytes.Equal(r.Answer, answer) || r.Leased || !r.ExpiresAt.Equal(until) {
			t.Fatalf("got %d bytes, leased %v, until %v", len(r.Answer), r.Leased, r.ExpiresAt)
		}
		_, won, err := s.Claim(t.Context(), c)
		must(t, "claim again", err)
		if won {
			t.Fatal("a finished key was claimed")
		}
		requireHeld(t, "release of an answer", false)(s.Release(t.Context(), c.Key, attempt))
		requireHeld(t, "leave of an answer", false)(s.Leave(t.Context(), c.Key, attempt, until))
	}},
	{"a released key is free", func(t testing.TB, s Stores) {
		c := newClaim(newAccount(t, s, "ann"), 1)
		first := mustClaim(t, s, c)
		requireHeld(t, "release", true)(s.Release(t.Context(), c.Key, first))
		requireNoRecord(t, "released", s, c.Key)
		if second := mustClaim(t, s, c); second == first {
			t.Fatal("two attempts have the same id")
		}
		requireHeld(t, "finish of the first", false)(s.Finish(t.Context(), c.Key, first, []byte("late"), now))
	}},
	{"expired keys are deleted in batches", func(t testing.TB, s Stores) {
		owner := newAccount(t, s, "ann")
		for i := range byte(5) {
			c := newClaim(owner, i)
			attempt := mustClaim(t, s, c)
			requireHeld(t, "finish", true)(s.Finish(t.Context(), c.Key, attempt, []byte("x"), now.Add(time.Duration(i)*time.Second)))
		}
		running := newClaim(owner, 9)
		running.Now = now.Add(-2 * idempotency.Retention)
		mustClaim(t, s, running)
		at := now.Add(2 * time.Second)
		for _, want := range []int{2, 1, 0} {
			if n, err := s.Reap(t.Context(), at, 2); err != nil || n != want {
				t.Fatalf("reaped %d, %v, want %d", n, err, want)
			}
		}
		for i := range byte(3) {
			requireNoRecord(t, "expired", s, newClaim(owner, i).Key)
		}
		for _, key := range []byte{3, 4, 9} {
			requireRecord(t, s, newClaim(owner, key).Key)
		}
	}},
	{"the keys of a closed account are deleted", func(t testing.TB, s Stores) {
		owner := newAccount(t, s, "ann")
		c := newClaim(owner, 1)
		mustClaim(t, s, c)
		_, err := s.CloseAccount(t.Context(), owner, now)
		must(t, "close", err)
		requireNoRecord(t, "of a closed account", s, c.Key)
	}},
}

func countTrue(all []bool) int {
	n := 0
	for _, one := range all {
		if one {
			n++
		}
	}
	return n
}

// expiredLease has expired when it begins. longLease outlasts every check.
const expiredLease, longLease = -time.Second, time.Hour

// retryUntilWon repeats a claim until it wins. Only a lease that never expires reaches the time
// limit.
func retryUntilWon(t testing.TB, claim func() (bool, error)) {
	t.Helper()
	for end := time.Now().Add(hangTimeout); ; {
		won, err := claim()
		must(t, "claim", err)
		if won {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the lease did not end in %s", hangTimeout)
		}
	}
}

var leaseChecks = []storeCheck{
	{"a key is taken over once, after its lease has expired", func(t testing.TB, s Stores) {
		c := newClaim(newAccount(t, s, "ann"), 1)
		first := mustClaim(t, s, c)
		_, won, err := s.TakeOver(t.Context(), first, c)
		must(t, "too early", err)
		if won {
			t.Fatal("a live lease was taken over")
		}
		requireHeld(t, "let the lease end", true)(s.Hold(t.Context(), c.Key, first, expiredLease))
		if requireRecord(t, s, c.Key).Leased {
			t.Fatal("a lease that is over counts")
		}
		wins := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(i int) (err error) {
			_, wins[i], err = s.TakeOver(t.Context(), first, c)
			return err
		}) {
			must(t, "take over", err)
		}
		if n := countTrue(wins); n != 1 {
			t.Fatalf("%d took it over", n)
		}
	}},
	{"an attempt that lost the key changes nothing", func(t testing.TB, s Stores) {
		c := newClaim(newAccount(t, s, "ann"), 1)
		c.Lease = expiredLease
		first := mustClaim(t, s, c)
		c.Lease, c.Fingerprint = longLease, []byte("other")
		second, won, err := s.TakeOver(t.Context(), first, c)
		must(t, "take over", err)
		if !won || second == first {
			t.Fatalf("won %v, %q after %q", won, second, first)
		}
		requireHeld(t, "hold", false)(s.Hold(t.Context(), c.Key, first, time.Hour))
		requireHeld(t, "finish", false)(s.Finish(t.Context(), c.Key, first, []byte("late"), now))
		requireHeld(t, "leave", false)(s.Leave(t.Context(), c.Key, first, now))
		requireHeld(t, "release", false)(s.Release(t.Context(), c.Key, first))
		if r := requireRecord(t, s, c.Key); r.Attempt != second || r.Answer != nil || !r.Leased || string(r.Fingerprint) != "other" {
			t.Fatalf("got %+v", r)
		}
		requireHeld(t, "the owner", true)(s.Finish(t.Context(), c.Key, second, []byte("right"), now.Add(time.Hour)))
	}},
	{"leases follow the database's clock", func(t testing.TB, s Stores) {
		c := newClaim(newAccount(t, s, "ann"), 1)
		first := mustClaim(t, s, c)
		c.Now = now.Add(1000 * time.Hour)
		if _, won, err := s.TakeOver(t.Context(), first, c); err != nil || won {
			t.Fatalf("the caller's clock ended the lease: %v, %v", won, err)
		}
		requireHeld(t, "shorten the lease", true)(s.Hold(t.Context(), c.Key, first, time.Millisecond))
		retryUntilWon(t, func() (bool, error) {
			_, won, err := s.TakeOver(t.Context(), first, c)
			return won, err
		})
	}},
	{"a key that was left can be taken over at once", func(t testing.TB, s Stores) {
		c := newClaim(newAccount(t, s, "ann"), 1)
		first := mustClaim(t, s, c)
		requireHeld(t, "leave", true)(s.Leave(t.Context(), c.Key, first, now.Add(time.Hour)))
		if r := requireRecord(t, s, c.Key); r.Leased || r.Answer != nil || !r.ExpiresAt.Equal(now.Add(time.Hour).Truncate(time.Microsecond)) {
			t.Fatalf("got %+v", r)
		}
		if _, won, err := s.TakeOver(t.Context(), first, c); err != nil || !won {
			t.Fatalf("not taken over: %v", err)
		}
	}},
	{"an answer is replaced only after it has expired", func(t testing.TB, s Stores) {
		c := newClaim(newAccount(t, s, "ann"), 1)
		first := mustClaim(t, s, c)
		until := now.Truncate(time.Microsecond).Add(time.Hour)
		requireHeld(t, "finish", true)(s.Finish(t.Context(), c.Key, first, []byte("answer"), until))
		c.Now = until.Add(-time.Microsecond)
		if _, won, err := s.TakeOver(t.Context(), first, c); err != nil || won {
			t.Fatalf("taken over a moment early: %v, %v", won, err)
		}
		c.Now = until
		if _, won, err := s.TakeOver(t.Context(), first, c); err != nil || !won {
			t.Fatalf("not taken over in time: %v", err)
		}
		if r := requireRecord(t, s, c.Key); r.Answer != nil || !r.ExpiresAt.Equal(until.Add(idempotency.Retention)) {
			t.Fatalf("got %+v", r)
		}
	}},
}

// storeEffectChecks cover what stores note in ports.Effects. Only a stored change is an effect.
var storeEffectChecks = []storeCheck{
	{"stored changes are noted as effects", func(t testing.TB, s Stores) {
		owner := newAccount(t, s, "ann")
		made := attachTenant(t, s, owner, 1)
		for name, act := range map[string]func(ctx context.Context) error{
			"one statement": func(ctx context.Context) error { return s.SaveTenant(ctx, owner, made) },
			"a transaction": func(ctx context.Context) error {
				_, err := s.ReserveDomain(ctx, owner, made.GUID, "a.example", 1, now)
				return err
			},
		} {
			ctx, seen := watchEffects(t)
			must(t, name, act(ctx))
			if !seen().Changed {
				t.Fatalf("%s is not noted", name)
			}
		}
	}},
	{"reads and refused changes are not noted as effects", func(t testing.TB, s Stores) {
		owner, other := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		made := attachTenant(t, s, owner, 1)
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
			ctx, seen := watchEffects(t)
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

// watchEffects returns a context and a function that returns the effects noted in it.
func watchEffects(t testing.TB) (context.Context, func() idempotency.Effects) {
	var e ports.Effects
	return ports.WithEffects(t.Context(), &e), e.Seen
}

// tenantFixture is a tenant with one domain and two mailboxes.
type tenantFixture struct {
	owner access.AccountID
	d     domain.Domain
	boxes []mailbox.Mailbox
}

func newTenantFixture(t testing.TB, s Stores) tenantFixture {
	t.Helper()
	h := tenantFixture{owner: newAccount(t, s, "ann")}
	h.d = addDomain(t, s, h.owner, attachTenant(t, s, h.owner, 1).GUID, "contoso.test")
	for _, local := range []string{"sales", "support"} {
		h.boxes = append(h.boxes, addMailbox(t, s, h.owner, h.d, local, mailbox.Created))
	}
	return h
}

// completingChange is a change that commits a completion. made reports whether the change is
// stored.
type completingChange struct {
	change func(completion *ports.Completion) error
	made   func(t testing.TB) bool
}

func (h tenantFixture) changes(t testing.TB, s Stores) map[string]completingChange {
	return map[string]completingChange{
		"a deletion": {
			func(completion *ports.Completion) error {
				return s.DeleteTenant(t.Context(), h.owner, h.d.TenantGUID, completion)
			},
			func(t testing.TB) bool {
				n, err := s.TenantCount(t.Context(), h.owner)
				must(t, "count tenants", err)
				return n == 0
			},
		},
		"a saved domain": {
			func(completion *ports.Completion) error {
				d := h.d
				d.Verified = true
				return s.SaveDomain(t.Context(), h.owner, d, completion)
			},
			func(t testing.TB) bool {
				d, err := s.DomainByID(t.Context(), h.owner, h.d.ID)
				must(t, "find domain", err)
				return d.Verified
			},
		},
		"concluded mailboxes": {
			func(completion *ports.Completion) error {
				return s.ConcludeMailboxes(t.Context(), h.owner, asReady(h.boxes), completion)
			},
			func(t testing.TB) bool { return h.countReady(t, s) == len(h.boxes) },
		},
	}
}

// countReady counts the mailboxes in stage ready.
func (h tenantFixture) countReady(t testing.TB, s Stores) (n int) {
	t.Helper()
	all, err := s.Mailboxes(t.Context(), h.owner, h.d.TenantGUID)
	must(t, "list mailboxes", err)
	for _, m := range all {
		if m.Stage == mailbox.Ready {
			n++
		}
	}
	return n
}

func asReady(boxes []mailbox.Mailbox) []mailbox.Mailbox {
	all := make([]mailbox.Mailbox, 0, len(boxes))
	for _, m := range boxes {
		m.Stage = mailbox.Ready
		all = append(all, m)
	}
	return all
}

// newCompletion returns the completion of this attempt with the answer "answer".
func newCompletion(c ports.Claim, attempt string) *ports.Completion {
	return &ports.Completion{Key: c.Key, Attempt: attempt, Answer: []byte("answer"), Until: now.Add(time.Hour)}
}

var completionChecks = []storeCheck{
	{"a change commits its completion", func(t testing.TB, s Stores) {
		h, key := newTenantFixture(t, s), byte(0)
		for _, what := range []string{"a saved domain", "concluded mailboxes", "a deletion"} {
			key++
			c := newClaim(h.owner, key)
			x := h.changes(t, s)[what]
			must(t, what, x.change(newCompletion(c, mustClaim(t, s, c))))
			r := requireRecord(t, s, c.Key)
			if !x.made(t) || string(r.Answer) != "answer" || r.Leased || !r.ExpiresAt.Equal(now.Add(time.Hour)) {
				t.Fatalf("%s: made %v, %+v", what, x.made(t), r)
			}
			// The owner of the key can still extend its lease: it has lost nothing.
			requireHeld(t, "hold after "+what, true)(s.Hold(t.Context(), c.Key, r.Attempt, longLease))
			requireHeld(t, "finish after "+what, true)(s.Finish(t.Context(), c.Key, r.Attempt, []byte("answer"), now))
		}
	}},
	{"an attempt that lost its key changes nothing", func(t testing.TB, s Stores) {
		h := newTenantFixture(t, s)
		c := newClaim(h.owner, 1)
		c.Lease = expiredLease
		first := mustClaim(t, s, c)
		second, won, err := s.TakeOver(t.Context(), first, c)
		must(t, "take over", err)
		if !won {
			t.Fatal("a dead owner's key was not taken over")
		}
		for what, x := range h.changes(t, s) {
			requireRefusal(t, what, x.change(newCompletion(c, first)), fault.KeyInProgress)
			if r := requireRecord(t, s, c.Key); x.made(t) || r.Answer != nil || r.Attempt != second {
				t.Fatalf("%s: made %v, %+v", what, x.made(t), r)
			}
		}
	}},
	{"a change that is refused completes nothing", func(t testing.TB, s Stores) {
		h, bob := newTenantFixture(t, s), newAccount(t, s, "bob")
		gone := append(asReady(h.boxes), mailbox.Mailbox{ID: string(unknownGUID), Address: "gone@contoso.test", Stage: mailbox.Ready})
		c := newClaim(h.owner, 1)
		completion := newCompletion(c, mustClaim(t, s, c))
		requireRefusal(t, "delete", s.DeleteTenant(t.Context(), bob, h.d.TenantGUID, completion), fault.TenantNotFound)
		requireRefusal(t, "save domain", s.SaveDomain(t.Context(), bob, h.d, completion), fault.DomainNotFound)
		requireRefusal(t, "conclude for another", s.ConcludeMailboxes(t.Context(), bob, asReady(h.boxes), completion), fault.MailboxNotFound)
		requireRefusal(t, "conclude", s.ConcludeMailboxes(t.Context(), h.owner, gone, completion), fault.MailboxNotFound)
		if r := requireRecord(t, s, c.Key); r.Answer != nil || !r.Leased || h.countReady(t, s) != 0 {
			t.Fatalf("%d are concluded, %+v", h.countReady(t, s), r)
		}
	}},
}
