// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// blocked is that the tenant's mailbox is blocked, the nth thing that is decided.
func (w counting) blocked(box, n int) sendlimit.Change {
	return w.changed(box, n, sendlimit.Blocked)
}

func (w counting) changed(box, n int, action sendlimit.Action) sendlimit.Change {
	return sendlimit.Change{Box: w.boxes[box].ID, Scope: "a.test", Action: action, At: later.Add(time.Duration(n) * time.Second).UTC().Truncate(time.Microsecond),
		Event: sendlimit.Event{Tenant: w.guid, Address: w.boxes[box].Address, Action: action, Sent: n, Limit: 25}}
}

// storedAt is when changes are stored in these checks, each time by the same clock.
var storedAt = later.Add(time.Hour).UTC().Truncate(time.Microsecond)

// done are changes that happened.
func done(all ...sendlimit.Change) ports.SendChanges {
	return ports.SendChanges{At: storedAt, Done: all}
}

// log checks the events, newest first, and that each is of its id's time. It
// returns them with those.
func (w counting) log(t testing.TB, s Stores, want ...sendlimit.Event) []sendlimit.Event {
	t.Helper()
	page := eventPage(t, s, w.owner, ports.EventQuery{Limit: 200})
	plain := ports.EventPage{Total: page.Total}
	for _, e := range page.Events {
		if !e.At.Truncate(time.Millisecond).Equal(ident.Time(e.ID)) {
			t.Fatalf("the event %s is of %s", e.ID, e.At)
		}
		e.ID, e.At = "", time.Time{}
		plain.Events = append(plain.Events, e)
	}
	if diff := compare.Diff(ports.EventPage{Events: want, Total: len(want)}, plain); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	return page.Events
}

func (w counting) blockedAt(t testing.TB, s Stores, box int) time.Time {
	t.Helper()
	m, err := s.Mailbox(t.Context(), w.owner, w.guid, w.boxes[box].ID)
	must(t, "find mailbox", err)
	return m.BlockedAt
}

var sendChangeChecks = []storeCheck{
	{"a mailbox is blocked and let go, with an event each", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		block := w.blocked(0, 1)
		holds(t, "block", true)(s.SaveChanges(t.Context(), r, done(block)))
		event := w.log(t, s, block.Event)[0]
		if at := w.blockedAt(t, s, 0); !event.At.Equal(storedAt) || !at.Equal(event.At) || !w.blockedAt(t, s, 1).IsZero() {
			t.Fatalf("blocked at %s, the event is of %s", at, event.At)
		}
		if boxes := w.list(t, s, r); !boxes[0].BlockedAt.Equal(block.At) || boxes[0].BlockedBy != 25 || !boxes[1].BlockedAt.IsZero() || boxes[1].BlockedBy != 0 {
			t.Fatalf("listed %+v", boxes)
		}
		ruled(t, s, w.owner, w.guid, "a.test")
		free := w.changed(0, 2, sendlimit.Unblocked)
		holds(t, "let go", true)(s.SaveChanges(t.Context(), r, done(free)))
		w.log(t, s, free.Event, block.Event)
		if at := w.blockedAt(t, s, 0); !at.IsZero() {
			t.Fatalf("still blocked at %s", at)
		}
		if boxes := w.list(t, s, r); !boxes[0].BlockedAt.IsZero() || boxes[0].BlockedBy != 0 {
			t.Fatalf("listed %+v", boxes)
		}
		ruled(t, s, w.owner, w.guid)
	}},
	{"events are in order, also when the clock stands still or steps back", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		var want []sendlimit.Event
		for n, at := range []time.Time{storedAt, storedAt, storedAt.Add(-24 * time.Hour), storedAt.Add(time.Second)} {
			c := w.changed(0, n, []sendlimit.Action{sendlimit.Blocked, sendlimit.Unblocked}[n%2])
			holds(t, "save", true)(s.SaveChanges(t.Context(), r, ports.SendChanges{At: at, Done: []sendlimit.Change{c}}))
			want = append([]sendlimit.Event{c.Event}, want...)
		}
		events := w.log(t, s, want...)
		for n, e := range slices.Backward(events[:3]) {
			if !e.At.After(events[n+1].At) {
				t.Fatalf("%s after %s", e.At, events[n+1].At)
			}
		}
		if at := events[0].At; !at.Equal(storedAt.Add(time.Second)) {
			t.Fatalf("the last one is of %s", at)
		}
	}},
	{"a change that is repeated, or decided twice, is one", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		block, twin := w.blocked(0, 1), w.blocked(0, 2)
		for _, c := range []sendlimit.Change{block, block, twin} {
			holds(t, "block", true)(s.SaveChanges(t.Context(), r, done(c)))
		}
		event := w.log(t, s, block.Event)[0]
		if at := w.blockedAt(t, s, 0); !at.Equal(event.At) {
			t.Fatalf("blocked at %s, the event is of %s", at, event.At)
		}
		free, again := w.changed(0, 3, sendlimit.Unblocked), w.changed(0, 4, sendlimit.Unblocked)
		for _, c := range []sendlimit.Change{free, again, free} {
			holds(t, "let go", true)(s.SaveChanges(t.Context(), r, done(c)))
		}
		w.log(t, s, free.Event, block.Event)
	}},
	{"of runs that race for a change one writes the event", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		first := w.claim(t, s)
		second := w.lost(t, s, first)
		held := make([]bool, crowd)
		for _, err := range atOnce(crowd, func(i int) (err error) {
			held[i], err = s.SaveChanges(t.Context(), []ports.SendRun{first, second}[i%2], done(w.blocked(1, i), w.blocked(0, 100+i)))
			return err
		}) {
			must(t, "save", err)
		}
		for i, h := range held {
			if h != (i%2 == 1) {
				t.Fatalf("%d: held is %v", i, h)
			}
		}
		if page := eventPage(t, s, w.owner, ports.EventQuery{Limit: 200}); page.Total != 2 || len(page.Events) != 2 {
			t.Fatalf("%d events, total %d", len(page.Events), page.Total)
		}
	}},
	{"a mailbox that is gone, or another tenant's, is passed over", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		w, other := countingOf(t, s, ann, 1), countingOf(t, s, ann, 2)
		r := w.claim(t, s)
		gone := w.blocked(0, 1)
		gone.Box = unknownMailbox
		block := w.blocked(1, 3)
		holds(t, "save", true)(s.SaveChanges(t.Context(), r, done(gone, other.blocked(0, 2), block)))
		w.log(t, s, block.Event)
		if at := other.blockedAt(t, s, 0); !at.IsZero() {
			t.Fatalf("another tenant's was blocked at %s", at)
		}
	}},
	{"a scope that was emptied is forgotten when its domain is gone, and only then", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		setPolicy(t, s, w.owner, w.guid, "a.test", 5)
		setPolicy(t, s, w.owner, w.guid, sendlimit.TenantWide, 5)
		both := []string{"a.test", sendlimit.TenantWide}
		holds(t, "emptied", true)(s.SaveChanges(t.Context(), r, ports.SendChanges{Emptied: both}))
		ruled(t, s, w.owner, w.guid, both...)
		dropDomains(t, s, w.owner, w.guid)
		holds(t, "not emptied", true)(s.SaveChanges(t.Context(), r, ports.SendChanges{}))
		ruled(t, s, w.owner, w.guid, both...)
		holds(t, "emptied", true)(s.SaveChanges(t.Context(), r, ports.SendChanges{Emptied: both}))
		ruled(t, s, w.owner, w.guid, sendlimit.TenantWide)
	}},
}
