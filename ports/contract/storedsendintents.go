// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"slices"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// intended checks the tenant's intents, whatever their order in want.
func (w counting) intended(t testing.TB, s Stores, r ports.SendRun, want ...sendlimit.Change) {
	t.Helper()
	got, err := s.Intents(t.Context(), r)
	must(t, "list intents", err)
	slices.SortFunc(want, func(a, b sendlimit.Change) int { return cmp.Compare(a.Event.Address, b.Event.Address) })
	if diff := compare.Diff(append([]sendlimit.Change{}, want...), got); diff != "" {
		t.Fatalf("intents (-want +got):\n%s", diff)
	}
}

func (w counting) intends(t testing.TB, s Stores, r ports.SendRun, all ...sendlimit.Change) {
	t.Helper()
	holds(t, "save intents", true)(s.SaveIntents(t.Context(), r, all))
}

// dropMailboxes has a tenant's mailboxes be gone, as a sync finds it.
func dropMailboxes(t testing.TB, s Stores, owner access.AccountID, id tenant.GUID) {
	t.Helper()
	must(t, "discover", s.SaveDiscovery(t.Context(), owner, id, ports.Found{Began: now.Add(time.Hour), Mailboxes: []mailbox.Platform{}}))
}

var sendIntentChecks = []storeCheck{
	{"a run's intents are kept until another says what it intends", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		w.intended(t, s, r)
		one, two := w.blocked(1, 1), w.changed(0, 2, sendlimit.Unblocked)
		for range 2 {
			w.intends(t, s, r, one, two)
			w.intended(t, s, r, one, two)
		}
		next := w.lost(t, s, r)
		w.intended(t, s, next, one, two)
		if at := w.blockedAt(t, s, 1); !at.IsZero() {
			t.Fatalf("what is only intended is so, at %s", at)
		}
		if page := eventPage(t, s, w.owner, ports.EventQuery{Limit: 9}); page.Total != 0 {
			t.Fatalf("%d events of what is only intended", page.Total)
		}
		three := w.blocked(0, 3)
		w.intends(t, s, next, three)
		w.intended(t, s, next, three)
		w.intends(t, s, next)
		w.intended(t, s, next)
	}},
	{"intents go when it is known what became of them", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		one, two := w.blocked(0, 1), w.blocked(1, 2)
		w.intends(t, s, r, one, two)
		c := done(one)
		c.Open = []string{two.Box}
		for range 2 {
			holds(t, "save", true)(s.SaveChanges(t.Context(), r, c))
			w.intended(t, s, r, two)
			w.log(t, s, one.Event)
		}
		holds(t, "save", true)(s.SaveChanges(t.Context(), r, ports.SendChanges{}))
		w.intended(t, s, r)
		w.log(t, s, one.Event)
		if at := w.blockedAt(t, s, 1); !at.IsZero() {
			t.Fatalf("what did not happen is so, at %s", at)
		}
	}},
	{"a run that lost its tenant intends nothing", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		first := w.claim(t, s)
		w.intends(t, s, first, w.blocked(0, 1))
		second := w.lost(t, s, first)
		holds(t, "late intents", false)(s.SaveIntents(t.Context(), first, []sendlimit.Change{w.blocked(1, 2)}))
		holds(t, "late changes", false)(s.SaveChanges(t.Context(), first, ports.SendChanges{}))
		w.intended(t, s, second, w.blocked(0, 1))
	}},
	{"intents are their tenant's alone, and go with their mailbox", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		w, other := countingOf(t, s, ann, 1), countingOf(t, s, ann, 2)
		r, beside := w.claim(t, s), other.claim(t, s)
		gone := w.blocked(0, 1)
		gone.Box = unknownMailbox
		w.intends(t, s, r, gone, other.blocked(0, 2), w.blocked(1, 3))
		w.intended(t, s, r, w.blocked(1, 3))
		other.intends(t, s, beside, other.changed(0, 4, sendlimit.Unblocked))
		w.intends(t, s, r, w.blocked(0, 5))
		holds(t, "save", true)(s.SaveChanges(t.Context(), r, ports.SendChanges{}))
		other.intended(t, s, beside, other.changed(0, 4, sendlimit.Unblocked))
		stranger := beside
		stranger.Account = newAccount(t, s, "bob")
		other.intended(t, s, stranger)
		holds(t, "foreign", false)(s.SaveIntents(t.Context(), stranger, nil))
		dropMailboxes(t, s, ann, other.guid)
		other.intended(t, s, beside)
	}},
}
