// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// tracing is a platform whose trace is another's.
type tracing struct {
	ports.MailPlatform
	sent func(context.Context, ports.MailTenant, sendlimit.TraceQuery) (sendlimit.Trace, error)
}

type tracingTenant struct {
	ports.MailTenant
	tracing
}

func (p tracing) For(id tenant.GUID) ports.MailTenant {
	return tracingTenant{p.MailPlatform.For(id), p}
}

func (t tracingTenant) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	return t.sent(ctx, t.MailTenant, q)
}

// traces gives the house that trace until the test ends it.
func (h *house) traces(sent func(context.Context, ports.MailTenant, sendlimit.TraceQuery) (sendlimit.Trace, error)) (end func()) {
	h.Platform = tracing{h.fake, sent}
	return func() { h.Platform = h.fake }
}

// counted are a mailbox's counts, oldest first.
func (h *house) counted(t *testing.T, id string) (all []int) {
	t.Helper()
	boxes, err := h.store.SendBoxes(t.Context(), ports.SendRun{Account: h.owner, Tenant: h.id}, time.Time{})
	must(t, err)
	for _, b := range boxes {
		for _, c := range b.Counts {
			if b.ID == id {
				all = append(all, c.Total())
			}
		}
	}
	return all
}

// After a gap the trace may be too long for one look: each reads some more, day
// by day, after the present one, which alone decides.
func TestATraceThatIsTooLongForOneLook(t *testing.T) {
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	ada, bob := h.boxes[0], h.boxes[1]
	h.fake.Send(h.id, ada.Address, 20)
	must(t, h.run(t))
	for range 3 {
		h.fake.Send(h.id, bob.Address, 20)
		h.advance(24 * time.Hour)
	}
	h.fake.Send(h.id, bob.Address, 20)
	pages, from, today := 0, time.Time{}, 0
	defer h.traces(func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		pages++
		switch of := sendlimit.DayOf(h.now, time.UTC); {
		case q.From.Equal(of.Start):
			today++
		case q.From.Before(from):
			t.Errorf("read from %s after %s", q.From, from)
		default:
			from = q.From
		}
		if pages > 30 {
			return sendlimit.Trace{}, &outcome.Error{Kind: outcome.Unknown, Cause: "context"}
		}
		return m.Sent(ctx, q)
	})()
	looks := 1
	for pages = 0; h.run(t) != nil; pages = 0 {
		if looks++; !slices.Equal(h.blocked(t), []string{bob.Address}) || h.sent(t, bob.Address) != 20 || looks > 6 {
			t.Fatalf("look %d: blocked are %q", looks, h.blocked(t))
		}
	}
	if today == 0 {
		t.Error("the present day did not come first")
	}
	if got := h.counted(t, bob.ID); looks < 2 || !slices.Equal(got, []int{20, 20, 20}) && !slices.Equal(got, []int{20, 20, 20, 20}) {
		t.Fatalf("counted are %v after %d looks", got, looks)
	}
	h.agrees(t)
	if blocked := h.blocked(t); !slices.Equal(blocked, []string{bob.Address}) {
		t.Fatalf("blocked are %q", blocked)
	}
}

// TestATraceThatTakesTooLong checks that a pass stops reading in time to enforce, and that it does
// not fail at its deadline. The platform answers each call a moment after the call's deadline.
func TestATraceThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.limit(t, sendlimit.TenantWide, 5)
		h.fake.Send(h.id, h.boxes[0].Address, 20)
		must(t, h.run(t))
		h.advance(24 * time.Hour)
		end := h.traces(func(ctx context.Context, _ ports.MailTenant, _ sendlimit.TraceQuery) (sendlimit.Trace, error) {
			<-ctx.Done()
			time.Sleep(time.Millisecond)
			return sendlimit.Trace{Next: "more"}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if err := h.Run(ctx, h.owner, h.id); err == nil || ctx.Err() != nil || len(h.blocked(t)) != 0 {
			t.Fatalf("%v, blocked are %q", err, h.blocked(t))
		}
		end()
		h.advance(sendlimit.Soonest)
		must(t, h.Run(t.Context(), h.owner, h.id))
		h.agrees(t)
	})
}

// Of a day that no look can read whole, each reads another part. Who is beyond
// his limit by that alone is blocked, nobody is let go by it, and nobody is shown
// as counted.
func TestADayThatIsTooLongForAnyLook(t *testing.T) {
	t.Run("", func(t *testing.T) { tooLongForAnyLook(t, false) })
	t.Run("but was not at first", func(t *testing.T) { tooLongForAnyLook(t, true) })
}

func tooLongForAnyLook(t *testing.T, readBefore bool) {
	t.Helper()
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	before := time.Time{}
	if readBefore {
		must(t, h.run(t))
		before = h.now
	}
	var all []string
	for _, m := range h.boxes {
		h.fake.Send(h.id, m.Address, 20)
		all = append(all, m.Address)
	}
	slices.Sort(all)
	rows := 1000 // that one look can read
	end := h.traces(func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		if q.Cursor != "" {
			return sendlimit.Trace{}, &outcome.Error{Kind: outcome.Unknown, Cause: "context"}
		}
		whole := sendlimit.Trace{Next: "more"}
		for q.Senders = q.Senders[:1]; len(whole.Sent) < rows; {
			page, err := m.Sent(ctx, q)
			if whole.Sent = append(whole.Sent, page.Sent...); err != nil || page.Next == "" {
				return whole, err
			}
			q.Cursor = page.Next
		}
		whole.Sent = whole.Sent[:rows]
		return whole, nil
	})
	h.advance(sendlimit.Latest)
	for looks := 0; len(h.blocked(t)) < len(all); looks++ {
		h.advance(sendlimit.Soonest)
		if err := h.Run(t.Context(), h.owner, h.id); outcome.Of(err) != outcome.Unknown || looks > 100 {
			t.Fatalf("%v, blocked are %q", err, h.blocked(t))
		}
		h.agrees(t)
	}
	for _, m := range h.boxes { // who knows whether that is enough
		must(t, h.store.SetSendLimit(t.Context(), h.owner, m.ID, 20, h.now))
	}
	if err := h.run(t); outcome.Of(err) != outcome.Unknown || !slices.Equal(h.blocked(t), all) {
		t.Fatalf("%v, blocked are %q", err, h.blocked(t))
	}
	for _, m := range h.stored(t) {
		if m.BlockedAt.IsZero() || !m.SendsTodayAt.Equal(before) {
			t.Fatalf("%+v", m)
		}
	}
	_, err := h.store.SetDay(t.Context(), h.id, "Europe/Berlin") // forgets the counts
	must(t, err)
	for rows = 1; rows < 4; rows++ {
		if err := h.run(t); outcome.Of(err) != outcome.Unknown || !slices.Equal(h.blocked(t), all) {
			t.Fatalf("%v, blocked are %q", err, h.blocked(t))
		}
	}
	end()
	must(t, h.run(t))
	if h.agrees(t); len(h.blocked(t)) > 0 || h.sent(t, all[0]) != 20 {
		t.Fatalf("with a limit of 20 blocked are %q", h.blocked(t))
	}
}

// Nor does a day that can never be read keep the days after it from being counted.
func TestADayThatCannotBeReadAnyMore(t *testing.T) {
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	must(t, h.run(t))
	today := sendlimit.DayOf(h.now, time.UTC)
	defer h.traces(func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		if q.From.Before(today.End) {
			return sendlimit.Trace{}, &outcome.Error{Kind: outcome.Unknown, Cause: "context"}
		}
		return m.Sent(ctx, q)
	})()
	ada := h.boxes[0]
	for n := range 4 {
		by := []time.Duration{15 * time.Minute, 7 * time.Hour}[n%2]
		h.advance(today.End.Add(time.Duration(n)*24*time.Hour + by).Sub(h.now))
		for range 2 { // first she is let go, as the day has turned
			if err := h.run(t); outcome.Of(err) != outcome.Unknown {
				t.Fatal(err)
			}
			h.fake.Send(h.id, ada.Address, 20)
		}
		if h.agrees(t); !slices.Equal(h.blocked(t), []string{ada.Address}) || h.sent(t, ada.Address) != 20 {
			t.Fatalf("at %s blocked are %q", h.now, h.blocked(t))
		}
	}
}

// Of a trace only what mailboxes of ours sent is asked for, and kept.
func TestATraceThatIsFullOfOthers(t *testing.T) {
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	var ours []string
	for _, m := range h.boxes {
		ours = append(ours, m.Address)
	}
	many := make([]sendlimit.Sent, 5000)
	for i := range many {
		many[i] = sendlimit.Sent{Message: strconv.Itoa(i), Sender: "stranger@" + one, At: h.now}
	}
	many[7] = sendlimit.Sent{Message: "7", Sender: "ADA@" + one, At: h.now}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const pages = 100
	var before, after uint64
	defer h.traces(func(_ context.Context, _ ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		if slices.Sort(q.Senders); !slices.Equal(q.Senders, slices.Sorted(slices.Values(ours))) {
			t.Errorf("asked about %q", q.Senders)
		}
		page, _ := strconv.Atoi(q.Cursor)
		switch page {
		case 0:
			before = heap()
		case pages:
			after = heap()
			return sendlimit.Trace{}, nil
		}
		return sendlimit.Trace{Sent: many, Next: strconv.Itoa(page + 1)}, nil
	})()
	must(t, h.run(t))
	if n := h.sent(t, h.boxes[0].Address); n != 1 {
		t.Errorf("%d are counted", n)
	}
	if after > before+8<<20 {
		t.Errorf("%d bytes are kept of %d rows", after-before, pages*len(many))
	}
}

// A tenant without mailboxes is asked for nothing.
func TestATenantWithoutMailboxes(t *testing.T) {
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	must(t, h.store.SaveDiscovery(t.Context(), h.owner, h.id, ports.Found{Began: h.now.Add(48 * time.Hour), Mailboxes: []mailbox.Platform{}}))
	must(t, h.run(t))
	if n := h.fake.Calls("Sent"); n != 0 {
		t.Fatalf("asked %d times", n)
	}
}

// Rows count on the present day however late they come.
func TestRowsThatAreVeryLate(t *testing.T) {
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	must(t, h.run(t))
	h.fake.SetLag(h.id, fake.Lag{Trace: 13 * time.Hour})
	h.fake.Send(h.id, h.boxes[0].Address, 6)
	for range 27 {
		must(t, h.run(t))
	}
	h.agrees(t)
	if n := h.sent(t, h.boxes[0].Address); n != 6 || len(h.blocked(t)) != 1 {
		t.Fatalf("%d are counted, blocked are %q", n, h.blocked(t))
	}
}

// A mailbox that comes to be known late has sent what it sent since midnight,
// and of the day before it is not known.
func TestAMailboxThatIsFoundLate(t *testing.T) {
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	must(t, h.run(t))
	found := func(local string) mailbox.Mailbox {
		d, err := h.store.Domain(t.Context(), h.owner, h.id, one)
		must(t, err)
		made, err := h.store.ReserveMailboxes(t.Context(), h.owner, d.ID, []mailbox.Spec{{Address: local + "@" + one}}, 9, h.now)
		must(t, err)
		made[0].Stage = mailbox.Ready
		must(t, h.store.SaveMailbox(t.Context(), h.owner, made[0]))
		return made[0]
	}
	h.fake.Send(h.id, "eve@"+one, 20)
	for range 16 {
		must(t, h.run(t))
	}
	eve := found("eve")
	must(t, h.run(t))
	h.agrees(t)
	if got := h.counted(t, eve.ID); !slices.Equal(got, []int{20}) || !slices.Equal(h.blocked(t), []string{eve.Address}) {
		t.Fatalf("counted are %v, blocked %q", got, h.blocked(t))
	}
	for h.now.Day() == 2 || h.now.Hour() > 1 {
		must(t, h.run(t))
	}
	zoe := found("zoe") // while the end of the day before is still read
	must(t, h.run(t))
	if got := h.counted(t, zoe.ID); !slices.Equal(got, []int{0}) {
		t.Fatalf("counted are %v", got)
	}
}

// One look by a clock that is ahead spoils nothing: with a right one the tenant
// is due, counted and blocked as before, and a raised limit lets go.
func TestAClockThatIsAhead(t *testing.T) {
	for name, by := range map[string]time.Duration{"hours": 16 * time.Hour, "a day": 24 * time.Hour, "a month": 30 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.limit(t, sendlimit.TenantWide, 5)
			ada, bob := h.boxes[0], h.boxes[1]
			h.fake.Send(h.id, ada.Address, 20)
			must(t, h.run(t))
			h.now = h.now.Add(by)
			must(t, h.Run(t.Context(), h.owner, h.id))
			h.now = h.fake.Now()
			health, err := h.store.SendHealth(t.Context(), h.now, h.now.Add(-time.Hour))
			if must(t, err); health.Behind != 1 {
				t.Fatalf("it does not show: %+v", health)
			}
			h.fake.Send(h.id, bob.Address, 20)
			must(t, h.run(t))
			h.agrees(t)
			if blocked := h.blocked(t); !slices.Equal(blocked, []string{ada.Address, bob.Address}) || h.sent(t, ada.Address) != 20 {
				t.Fatalf("blocked are %q, ada sent %d", blocked, h.sent(t, ada.Address))
			}
			must(t, h.store.SetSendLimit(t.Context(), h.owner, ada.ID, 25, h.now))
			must(t, h.run(t))
			h.agrees(t)
			if blocked := h.blocked(t); !slices.Equal(blocked, []string{bob.Address}) {
				t.Fatalf("with a raised limit blocked are %q", blocked)
			}
			h.advance(24 * time.Hour)
			must(t, h.run(t))
			if h.agrees(t); len(h.blocked(t)) != 0 {
				t.Fatalf("on the next day blocked are %q", h.blocked(t))
			}
		})
	}
}

// A day whose midnight is left out is followed by the next.
func TestADayWithoutMidnight(t *testing.T) {
	h := newHouse(t)
	h.advance(time.Date(2027, 3, 27, 10, 0, 0, 0, time.UTC).Sub(h.now))
	h.limit(t, sendlimit.TenantWide, 5)
	_, err := h.store.SetDay(t.Context(), h.id, "Atlantic/Azores")
	must(t, err)
	h.fake.Send(h.id, h.boxes[0].Address, 6)
	for range 2 * 48 {
		must(t, h.run(t))
		h.agrees(t)
		if want := h.now.Before(time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC)); want != (len(h.blocked(t)) == 1) {
			t.Fatalf("at %s blocked are %q", h.now, h.blocked(t))
		}
	}
}
