// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// syncAt has a tenant's mailboxes be those that a sync found, which ended then.
func syncAt(t testing.TB, s Stores, owner access.AccountID, id tenant.GUID, at time.Time, there ...string) {
	t.Helper()
	must(t, "discover", s.SaveDiscovery(t.Context(), owner, id, ports.Found{Began: at.Add(-time.Second), At: at, Mailboxes: listing(there...)}))
}

// letGo is what is on record of a mailbox that goes while it is blocked.
func (w counting) letGo(box, sent, limit int) sendlimit.Event {
	e := w.changed(box, sent, sendlimit.Unblocked).Event
	e.Limit = limit
	return e
}

// free checks that a mailbox is there and not blocked.
func (w counting) free(t testing.TB, s Stores, address string) {
	t.Helper()
	all, err := s.Mailboxes(t.Context(), w.owner, w.guid)
	must(t, "list mailboxes", err)
	for _, m := range all {
		if m.Address == address && m.BlockedAt.IsZero() {
			return
		}
	}
	t.Fatalf("%s is not there and free: %+v", address, all)
}

var sendGoneChecks = []storeCheck{
	{"a blocked mailbox that a sync drops is let go, once, and free when it is found again", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		setPolicy(t, s, w.owner, w.guid, "a.test", 6)
		w.count(t, s, r, 7)
		block := w.blocked(0, 8)
		holds(t, "block", true)(s.SaveChanges(t.Context(), r, done(block)))
		for range 2 { // by a clock that is behind that of the block
			syncAt(t, s, w.owner, w.guid, storedAt.Add(-time.Minute), w.boxes[1].Address)
		}
		events := w.log(t, s, w.letGo(0, 7, 6), block.Event)
		if !events[0].At.After(events[1].At) {
			t.Fatalf("let go at %s, after %s", events[0].At, events[1].At)
		}
		for action, n := range map[sendlimit.Action]int{sendlimit.Blocked: 1, sendlimit.Unblocked: 1, "": 2} {
			if page := eventPage(t, s, w.owner, ports.EventQuery{Tenant: w.guid, Action: action, Limit: 9}); page.Total != n || len(page.Events) != n {
				t.Fatalf("%q: %d of %d events", action, len(page.Events), page.Total)
			}
		}
		syncAt(t, s, w.owner, w.guid, storedAt, w.boxes[0].Address, w.boxes[1].Address)
		w.free(t, s, w.boxes[0].Address)
		holds(t, "late", true)(s.SaveChanges(t.Context(), r, done(w.changed(0, 9, sendlimit.Unblocked))))
		w.log(t, s, w.letGo(0, 7, 6), block.Event)
	}},
	{"a mailbox that is let go by a sync tells the limit of its block where no other is enforced, and what it sent today", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		setPolicy(t, s, w.owner, w.guid, "a.test", 6)
		w.count(t, s, r, 7)
		one, two := w.blocked(0, 8), w.blocked(1, 9)
		holds(t, "block", true)(s.SaveChanges(t.Context(), r, done(one)))
		holds(t, "block", true)(s.SaveChanges(t.Context(), r, done(two)))
		dropDomains(t, s, w.owner, w.guid)
		syncAt(t, s, w.owner, w.guid, storedAt, w.boxes[1].Address)
		w.log(t, s, w.letGo(0, 7, 25), two.Event, one.Event)
		syncAt(t, s, w.owner, w.guid, storedAt.Add(24*time.Hour))
		w.log(t, s, w.letGo(1, 0, 25), w.letGo(0, 7, 25), two.Event, one.Event)
		ruled(t, s, w.owner, w.guid, "a.test") // until a look has emptied it
	}},
	{"a mailbox that a run was about to block stays until it is known what became of that", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		one, two := w.blocked(0, 8), w.blocked(1, 9)
		w.intends(t, s, r, one, two)
		syncAt(t, s, w.owner, w.guid, storedAt)
		w.intended(t, s, r, one, two)
		holds(t, "one of them was blocked", true)(s.SaveChanges(t.Context(), r, done(one)))
		syncAt(t, s, w.owner, w.guid, storedAt)
		w.log(t, s, w.letGo(0, 0, 25), one.Event)
		if left := w.list(t, s, r); len(left) != 0 {
			t.Fatalf("left are %+v", left)
		}
	}},
	{"a tenant whose blocked mailbox a sync dropped is due at once", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		holds(t, "block", true)(s.SaveChanges(t.Context(), r, done(w.blocked(0, 8))))
		holds(t, "release", true)(s.ReleaseTenant(t.Context(), r, storedAt.Add(time.Minute)))
		syncAt(t, s, w.owner, w.guid, storedAt, w.boxes[0].Address)
		inOrder(t, "nobody was let go", dueTenants(t, s, storedAt, 9))
		syncAt(t, s, w.owner, w.guid, storedAt)
		inOrder(t, "somebody was", dueTenants(t, s, storedAt, 9), w.id())
	}},
	{"a mailbox goes with its block of an account alone", func(t testing.TB, s Stores) {
		w, other := newCounting(t, s, "ann", 1), newCounting(t, s, "bob", 2)
		block := other.blocked(0, 8)
		holds(t, "block", true)(s.SaveChanges(t.Context(), other.claim(t, s), done(block)))
		must(t, "discover", s.SaveDiscovery(t.Context(), w.owner, w.guid, ports.Found{Began: storedAt, At: storedAt, Mailboxes: []mailbox.Platform{}}))
		other.log(t, s, block.Event)
		w.log(t, s)
	}},
}
