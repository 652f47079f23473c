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

// tracePlatform is a platform whose trace a test replaces.
type tracePlatform struct {
	ports.MailPlatform
	sent func(context.Context, ports.MailTenant, sendlimit.TraceQuery) (sendlimit.Trace, error)
}

type traceTenant struct {
	ports.MailTenant
	tracePlatform
}

func (p tracePlatform) For(id tenant.GUID) ports.MailTenant {
	return traceTenant{p.MailPlatform.For(id), p}
}

func (t traceTenant) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	return t.sent(ctx, t.MailTenant, q)
}

// replaceTrace replaces the trace of the platform until the caller calls end.
func (fx *fixture) replaceTrace(sent func(context.Context, ports.MailTenant, sendlimit.TraceQuery) (sendlimit.Trace, error)) (end func()) {
	fx.Platform = tracePlatform{fx.fake, sent}
	return func() { fx.Platform = fx.fake }
}

// dayTotals returns the stored number of messages of a mailbox for each day, oldest day first.
func (fx *fixture) dayTotals(t *testing.T, id string) (totals []int) {
	t.Helper()
	mailboxes, err := fx.store.CountedMailboxes(t.Context(), ports.TenantClaim{Account: fx.owner, Tenant: fx.id}, time.Time{})
	must(t, err)
	for _, m := range mailboxes {
		for _, c := range m.Counts {
			if m.ID == id {
				totals = append(totals, c.Total())
			}
		}
	}
	return totals
}

// TestLongTraceIsReadByManyPasses checks the passes after three days without a pass, when the trace
// is too long for one pass. Each pass reads the current day, and more of the earlier days than the
// pass before it.
func TestLongTraceIsReadByManyPasses(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	ada, bob := fx.mailboxes[0], fx.mailboxes[1]
	fx.fake.Send(fx.id, ada.Address, 20)
	must(t, fx.run(t))
	for range 3 {
		fx.fake.Send(fx.id, bob.Address, 20)
		fx.advance(24 * time.Hour)
	}
	fx.fake.Send(fx.id, bob.Address, 20)
	pages, lastFrom, readsOfToday := 0, time.Time{}, 0
	defer fx.replaceTrace(func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		pages++
		switch day := sendlimit.DayOf(fx.now, time.UTC); {
		case q.From.Equal(day.Start):
			readsOfToday++
		case q.From.Before(lastFrom):
			t.Errorf("an earlier day is read from %s, want no time before %s, which a pass has read from already", q.From, lastFrom)
		default:
			lastFrom = q.From
		}
		if pages > 30 { // too few for the whole trace
			return sendlimit.Trace{}, &outcome.Error{Kind: outcome.Unknown, Cause: "context"}
		}
		return m.Sent(ctx, q)
	})()
	passes := 1
	for pages = 0; fx.run(t) != nil; pages = 0 {
		if passes++; !slices.Equal(fx.storedBlocked(t), []string{bob.Address}) || fx.storedSends(t, bob.Address) != 20 || passes > 6 {
			t.Fatalf("pass %d: the blocked mailboxes are %q and bob sent %d, want only bob with 20 in at most 6 passes", passes, fx.storedBlocked(t), fx.storedSends(t, bob.Address))
		}
	}
	if readsOfToday == 0 {
		t.Error("no pass read the current day")
	}
	if got := fx.dayTotals(t, bob.ID); passes < 2 || !slices.Equal(got, []int{20, 20, 20}) && !slices.Equal(got, []int{20, 20, 20, 20}) {
		t.Fatalf("got the counts %v after %d passes, want 20 on each of 3 or 4 days after at least 2 passes", got, passes)
	}
	fx.checkConsistent(t)
	if blocked := fx.storedBlocked(t); !slices.Equal(blocked, []string{bob.Address}) {
		t.Fatalf("the blocked mailboxes are %q, want only bob", blocked)
	}
}

// TestSlowTraceLeavesTimeToEnforce checks that a pass with a slow trace stops reading before its
// own deadline, and unblocks the mailbox of the day before. The platform answers each call a moment
// after the deadline of the call.
func TestSlowTraceLeavesTimeToEnforce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.limit(t, sendlimit.TenantWide, 5)
		fx.fake.Send(fx.id, fx.mailboxes[0].Address, 20)
		must(t, fx.run(t))
		fx.advance(24 * time.Hour)
		endReplacement := fx.replaceTrace(func(ctx context.Context, _ ports.MailTenant, _ sendlimit.TraceQuery) (sendlimit.Trace, error) {
			<-ctx.Done()
			time.Sleep(time.Millisecond)
			return sendlimit.Trace{Next: "more"}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if err := fx.Run(ctx, fx.owner, fx.id); err == nil || ctx.Err() != nil || len(fx.storedBlocked(t)) != 0 {
			t.Fatalf("got the error %v, the context %v and the blocked mailboxes %q, want an error before the deadline and no blocked mailbox", err, ctx.Err(), fx.storedBlocked(t))
		}
		endReplacement()
		fx.advance(sendlimit.MinInterval)
		must(t, fx.Run(t.Context(), fx.owner, fx.id))
		fx.checkConsistent(t)
	})
}

// TestPartialCountsBlockAndDoNotUnblock checks passes that read only the messages of one mailbox
// before the trace fails. A partial count can block a mailbox and cannot unblock one. Partial
// counts are not shown to callers.
func TestPartialCountsBlockAndDoNotUnblock(t *testing.T) {
	t.Run("no complete count before", func(t *testing.T) { testPartialCounts(t, false) })
	t.Run("a complete count before", func(t *testing.T) { testPartialCounts(t, true) })
}

// testPartialCounts runs TestPartialCountsBlockAndDoNotUnblock. If countedBefore is true, an
// earlier pass has read the complete trace.
func testPartialCounts(t *testing.T, countedBefore bool) {
	t.Helper()
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	countedAt := time.Time{}
	if countedBefore {
		must(t, fx.run(t))
		countedAt = fx.now
	}
	var allAddresses []string
	for _, m := range fx.mailboxes {
		fx.fake.Send(fx.id, m.Address, 20)
		allAddresses = append(allAddresses, m.Address)
	}
	slices.Sort(allAddresses)
	maxRows := 1000 // the number of rows that one pass can read
	endReplacement := fx.replaceTrace(func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		if q.Cursor != "" {
			return sendlimit.Trace{}, &outcome.Error{Kind: outcome.Unknown, Cause: "context"}
		}
		answer := sendlimit.Trace{Next: "more"}
		for q.Senders = q.Senders[:1]; len(answer.Sent) < maxRows; {
			page, err := m.Sent(ctx, q)
			if answer.Sent = append(answer.Sent, page.Sent...); err != nil || page.Next == "" {
				return answer, err
			}
			q.Cursor = page.Next
		}
		answer.Sent = answer.Sent[:maxRows]
		return answer, nil
	})
	fx.advance(sendlimit.MaxInterval)
	for passes := 0; len(fx.storedBlocked(t)) < len(allAddresses); passes++ {
		fx.advance(sendlimit.MinInterval)
		if err := fx.Run(t.Context(), fx.owner, fx.id); outcome.KindOf(err) != outcome.Unknown || passes > 100 {
			t.Fatalf("pass %d: got %v, want an unknown outcome; the blocked mailboxes are %q, want all in at most 100 passes", passes, err, fx.storedBlocked(t))
		}
		fx.checkConsistent(t)
	}
	for _, m := range fx.mailboxes { // no partial count exceeds the new limit, but the true count may exceed it
		must(t, fx.store.SetSendLimit(t.Context(), fx.owner, m.ID, 20, fx.now))
	}
	if err := fx.run(t); outcome.KindOf(err) != outcome.Unknown || !slices.Equal(fx.storedBlocked(t), allAddresses) {
		t.Fatalf("got %v, want an unknown outcome; the blocked mailboxes are %q, want all", err, fx.storedBlocked(t))
	}
	for _, m := range fx.storedMailboxes(t) {
		if m.BlockedAt.IsZero() || !m.SendsTodayAt.Equal(countedAt) {
			t.Fatalf("the mailbox is %+v, want it blocked, with the time %s of the complete count", m, countedAt)
		}
	}
	_, err := fx.store.SetTimeZone(t.Context(), fx.id, "Europe/Berlin") // deletes the counts
	must(t, err)
	for maxRows = 1; maxRows < 4; maxRows++ { // partial counts far below the limit of 20
		if err := fx.run(t); outcome.KindOf(err) != outcome.Unknown || !slices.Equal(fx.storedBlocked(t), allAddresses) {
			t.Fatalf("got %v, want an unknown outcome; the blocked mailboxes are %q, want all", err, fx.storedBlocked(t))
		}
	}
	endReplacement()
	must(t, fx.run(t))
	if fx.checkConsistent(t); len(fx.storedBlocked(t)) > 0 || fx.storedSends(t, allAddresses[0]) != 20 {
		t.Fatalf("with a limit of 20 the blocked mailboxes are %q and the first one sent %d, want none blocked and 20", fx.storedBlocked(t), fx.storedSends(t, allAddresses[0]))
	}
}

// TestUnreadableDayDoesNotStopLaterDays checks the days after a day whose trace cannot be read.
// Each pass fails, but counts and blocks on its own day.
func TestUnreadableDayDoesNotStopLaterDays(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	must(t, fx.run(t))
	today := sendlimit.DayOf(fx.now, time.UTC)
	defer fx.replaceTrace(func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		if q.From.Before(today.End) {
			return sendlimit.Trace{}, &outcome.Error{Kind: outcome.Unknown, Cause: "context"}
		}
		return m.Sent(ctx, q)
	})()
	ada := fx.mailboxes[0]
	for days := range 4 {
		timeOfDay := []time.Duration{15 * time.Minute, 7 * time.Hour}[days%2]
		fx.advance(today.End.Add(time.Duration(days)*24*time.Hour + timeOfDay).Sub(fx.now))
		for range 2 { // the first pass unblocks ada at the day boundary
			if err := fx.run(t); outcome.KindOf(err) != outcome.Unknown {
				t.Fatalf("got %v, want an unknown outcome", err)
			}
			fx.fake.Send(fx.id, ada.Address, 20)
		}
		if fx.checkConsistent(t); !slices.Equal(fx.storedBlocked(t), []string{ada.Address}) || fx.storedSends(t, ada.Address) != 20 {
			t.Fatalf("at %s the blocked mailboxes are %q and ada sent %d, want only ada with 20", fx.now, fx.storedBlocked(t), fx.storedSends(t, ada.Address))
		}
	}
}

// TestTraceOfForeignSendersIsIgnored checks that a pass requests only the rows of managed
// mailboxes. If the trace contains other rows, the pass does not keep them in memory.
func TestTraceOfForeignSendersIsIgnored(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	var managed []string
	for _, m := range fx.mailboxes {
		managed = append(managed, m.Address)
	}
	rows := make([]sendlimit.Sent, 5000)
	for i := range rows {
		rows[i] = sendlimit.Sent{Message: strconv.Itoa(i), Sender: "foreign@" + domainOne, At: fx.now}
	}
	rows[7] = sendlimit.Sent{Message: "7", Sender: "ADA@" + domainOne, At: fx.now}
	heapSize := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const pages = 100
	var heapBefore, heapAfter uint64
	defer fx.replaceTrace(func(_ context.Context, _ ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		if slices.Sort(q.Senders); !slices.Equal(q.Senders, slices.Sorted(slices.Values(managed))) {
			t.Errorf("the senders of the query are %q, want %q", q.Senders, managed)
		}
		page, _ := strconv.Atoi(q.Cursor)
		switch page {
		case 0:
			heapBefore = heapSize()
		case pages:
			heapAfter = heapSize()
			return sendlimit.Trace{}, nil
		}
		return sendlimit.Trace{Sent: rows, Next: strconv.Itoa(page + 1)}, nil
	})()
	must(t, fx.run(t))
	if n := fx.storedSends(t, fx.mailboxes[0].Address); n != 1 {
		t.Errorf("%d messages are counted, want 1", n)
	}
	if heapAfter > heapBefore+8<<20 {
		t.Errorf("%d bytes are kept of %d rows, want at most 8 MiB", heapAfter-heapBefore, pages*len(rows))
	}
}

func TestTraceOfATenantWithoutMailboxesIsNotRead(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.syncMailboxes(t, nil)
	must(t, fx.run(t))
	if n := fx.fake.Calls("Sent"); n != 0 {
		t.Fatalf("the trace was read %d times, want 0", n)
	}
}

// TestLateRowsCountOnTheCurrentDay checks that rows still count if the trace shows them 13 hours
// late, on the same day.
func TestLateRowsCountOnTheCurrentDay(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	must(t, fx.run(t))
	fx.fake.SetLag(fx.id, fake.Lag{Trace: 13 * time.Hour})
	fx.fake.Send(fx.id, fx.mailboxes[0].Address, 6)
	for range 27 { // 13.5 hours
		must(t, fx.run(t))
	}
	fx.checkConsistent(t)
	if n := fx.storedSends(t, fx.mailboxes[0].Address); n != 6 || len(fx.storedBlocked(t)) != 1 {
		t.Fatalf("%d messages are counted and the blocked mailboxes are %q, want 6 and one mailbox", n, fx.storedBlocked(t))
	}
}

// TestMailboxDiscoveredLateCountsTheWholeDay checks mailboxes that are discovered during the day.
// Their counts include all messages of this day. They get no count of the previous day.
func TestMailboxDiscoveredLateCountsTheWholeDay(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	must(t, fx.run(t))
	discover := func(local string) mailbox.Mailbox {
		d, err := fx.store.Domain(t.Context(), fx.owner, fx.id, domainOne)
		must(t, err)
		rows, err := fx.store.ReserveMailboxes(t.Context(), fx.owner, d.ID, []mailbox.Spec{{Address: local + "@" + domainOne}}, 9, fx.now)
		must(t, err)
		rows[0].Stage = mailbox.Ready
		must(t, fx.store.SaveMailbox(t.Context(), fx.owner, rows[0]))
		return rows[0]
	}
	fx.fake.Send(fx.id, "eve@"+domainOne, 20)
	for range 16 { // 8 hours
		must(t, fx.run(t))
	}
	eve := discover("eve")
	must(t, fx.run(t))
	fx.checkConsistent(t)
	if got := fx.dayTotals(t, eve.ID); !slices.Equal(got, []int{20}) || !slices.Equal(fx.storedBlocked(t), []string{eve.Address}) {
		t.Fatalf("got the counts %v of eve and the blocked mailboxes %q, want 20 on one day and only eve", got, fx.storedBlocked(t))
	}
	for fx.now.Day() == 2 || fx.now.Hour() > 1 { // until shortly after midnight
		must(t, fx.run(t))
	}
	zoe := discover("zoe") // discovered while passes still read the end of the previous day
	must(t, fx.run(t))
	if got := fx.dayTotals(t, zoe.ID); !slices.Equal(got, []int{0}) {
		t.Fatalf("got the counts %v of zoe, want 0 on one day", got)
	}
}

// TestAFastClockDoesNoLastingHarm checks a tenant after a pass with a fast clock. Once the clock is
// right, the tenant is due, and passes count, block and unblock its mailboxes.
func TestAFastClockDoesNoLastingHarm(t *testing.T) {
	for name, skew := range map[string]time.Duration{"16 hours": 16 * time.Hour, "a day": 24 * time.Hour, "a month": 30 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.limit(t, sendlimit.TenantWide, 5)
			ada, bob := fx.mailboxes[0], fx.mailboxes[1]
			fx.fake.Send(fx.id, ada.Address, 20)
			must(t, fx.run(t))
			fx.now = fx.now.Add(skew)
			must(t, fx.Run(t.Context(), fx.owner, fx.id))
			fx.now = fx.fake.Now()
			health, err := fx.store.SendHealth(t.Context(), fx.now, fx.now.Add(-time.Hour))
			if must(t, err); health.LaggingTenants != 1 {
				t.Fatalf("got %+v, want one lagging tenant", health)
			}
			fx.fake.Send(fx.id, bob.Address, 20)
			must(t, fx.run(t))
			fx.checkConsistent(t)
			if blocked := fx.storedBlocked(t); !slices.Equal(blocked, []string{ada.Address, bob.Address}) || fx.storedSends(t, ada.Address) != 20 {
				t.Fatalf("the blocked mailboxes are %q and ada sent %d, want ada and bob, and 20", blocked, fx.storedSends(t, ada.Address))
			}
			must(t, fx.store.SetSendLimit(t.Context(), fx.owner, ada.ID, 25, fx.now))
			must(t, fx.run(t))
			fx.checkConsistent(t)
			if blocked := fx.storedBlocked(t); !slices.Equal(blocked, []string{bob.Address}) {
				t.Fatalf("with a raised limit of ada the blocked mailboxes are %q, want only bob", blocked)
			}
			fx.advance(24 * time.Hour)
			must(t, fx.run(t))
			if fx.checkConsistent(t); len(fx.storedBlocked(t)) != 0 {
				t.Fatalf("on the next day the blocked mailboxes are %q, want none", fx.storedBlocked(t))
			}
		})
	}
}

// TestBlockEndsOnADayWithoutMidnight checks a block on the day before daylight saving time begins
// in the Azores. On the next day, the clock there skips from midnight to one o'clock. The block
// ends at that moment, which is 01:00 UTC.
func TestBlockEndsOnADayWithoutMidnight(t *testing.T) {
	fx := newFixture(t)
	fx.advance(time.Date(2027, 3, 27, 10, 0, 0, 0, time.UTC).Sub(fx.now))
	fx.limit(t, sendlimit.TenantWide, 5)
	_, err := fx.store.SetTimeZone(t.Context(), fx.id, "Atlantic/Azores")
	must(t, err)
	fx.fake.Send(fx.id, fx.mailboxes[0].Address, 6)
	for range 2 * 48 { // two days
		must(t, fx.run(t))
		fx.checkConsistent(t)
		if wantBlocked := fx.now.Before(time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC)); wantBlocked != (len(fx.storedBlocked(t)) == 1) {
			t.Fatalf("at %s the blocked mailboxes are %q, want a block: %v", fx.now, fx.storedBlocked(t), wantBlocked)
		}
	}
}
