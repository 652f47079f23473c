// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// newEvent returns the nth event. Its tenant is guid(tenantNumber).
func newEvent(n, tenantNumber int, at time.Time) sendlimit.Event {
	action := sendlimit.Blocked
	if n%3 == 0 {
		action = sendlimit.Unblocked
	}
	entropy := [ident.EntropyBytes]byte{8: byte(n >> 8), 9: byte(n)}
	return sendlimit.Event{ID: ident.New(at, entropy), Tenant: guid(tenantNumber), Address: fmt.Sprintf("box%d@d%d.test", n, tenantNumber),
		Action: action, Sent: n, Limit: 25, At: at.UTC().Truncate(time.Microsecond)}
}

func storeEvents(t testing.TB, s *Store, owner access.AccountID, events ...sendlimit.Event) {
	t.Helper()
	must(t, "record", tryStoreEvents(t.Context(), s, owner, events))
}

// tryStoreEvents calls recordEvents in a transaction that changes no mailbox.
func tryStoreEvents(ctx context.Context, s *Store, owner access.AccountID, events []sendlimit.Event) error {
	return s.inTransaction(ctx, "record enforcement events", func(ctx context.Context, tx bun.IDB) error {
		return recordEvents(ctx, tx, accountKey(owner), events)
	})
}

func listEvents(t testing.TB, s *Store, owner access.AccountID, query ports.EventQuery) ports.EventPage {
	t.Helper()
	page, err := s.Events(t.Context(), owner, query)
	must(t, "list events", err)
	return page
}

// expectedPage computes a page of events from a list of all events that is sorted by id.
func expectedPage(events []sendlimit.Event, query ports.EventQuery) ports.EventPage {
	page := ports.EventPage{Events: []sendlimit.Event{}}
	for _, e := range slices.Backward(events) {
		if query.Tenant != "" && e.Tenant != query.Tenant || query.Action != "" && e.Action != query.Action {
			continue
		}
		if page.Total >= query.Offset && len(page.Events) < query.Limit {
			page.Events = append(page.Events, e)
		}
		page.Total++
	}
	return page
}

// recordSampleEvents records the events of three tenants over several days. An hour or a day can
// have no event, one event or many events. The random source has a fixed seed, so the events are
// always the same.
func recordSampleEvents(t testing.TB, s *Store, owner access.AccountID) (events []sendlimit.Event) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 3; n++ {
		attachTenant(t, s, owner, n)
	}
	at := now.Add(-9 * 24 * time.Hour)
	for n := range 400 {
		events = append(events, newEvent(n, 1+random.IntN(3), at))
		switch random.IntN(20) {
		case 0:
			at = at.Add(time.Duration(random.IntN(50)) * time.Hour)
		case 1:
			at = at.Truncate(time.Hour).Add(time.Hour) // the first moment of an hour
		case 2:
			at = at.Truncate(time.Hour).Add(time.Hour - time.Millisecond)
		default:
			at = at.Add(time.Duration(random.IntN(3)) * time.Minute)
		}
	}
	slices.SortFunc(events, func(a, b sendlimit.Event) int { return cmp.Compare(a.ID, b.ID) })
	for i := 0; i < len(events); {
		n := min(1+random.IntN(60), len(events)-i)
		storeEvents(t, s, owner, events[i:i+n]...)
		i += n
	}
	return events
}

func TestEnforcementEventIsStoredUnchanged(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		e := newEvent(7, 1, now)
		e.Address = hostileText
		storeEvents(t, s, ann, e)
		if diff := compare.Diff(ports.EventPage{Events: []sendlimit.Event{e}, Total: 1}, listEvents(t, s, ann, ports.EventQuery{Limit: 50})); diff != "" {
			t.Fatalf("unexpected result (-want +got):\n%s", diff)
		}
	})
}

func TestPagesWithFiltersMatchListOfAllEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		events := recordSampleEvents(t, s, ann)
		for _, tenantGUID := range []tenant.GUID{"", guid(1), guid(3)} {
			for _, action := range []sendlimit.Action{"", sendlimit.Blocked, sendlimit.Unblocked} {
				for _, limit := range []int{1, 50, 200} {
					for offset := 0; offset <= len(events)+1; offset += 37 {
						query := ports.EventQuery{Tenant: tenantGUID, Action: action, Limit: limit, Offset: offset}
						if diff := compare.Diff(expectedPage(events, query), listEvents(t, s, ann, query)); diff != "" {
							t.Fatalf("%+v (-want +got):\n%s", query, diff)
						}
					}
				}
			}
		}
	})
}

func TestPagesOmitNoEventAlthoughNewEventsAreRecorded(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		events := recordSampleEvents(t, s, ann)
		seen := map[string]int{}
		for offset, added := 0, 0; ; offset += 30 {
			page := listEvents(t, s, ann, ports.EventQuery{Limit: 30, Offset: offset})
			for _, e := range page.Events {
				seen[e.ID]++
			}
			if offset+len(page.Events) >= page.Total {
				break
			}
			added++ // each new event moves the existing events to later offsets
			storeEvents(t, s, ann, newEvent(1000+added, 1, now.Add(time.Duration(added)*time.Second)))
		}
		for _, e := range events {
			if seen[e.ID] == 0 {
				t.Fatalf("the event %s was on no page, want it on at least one", e.ID)
			}
		}
	})
}

func TestConcurrentWritersOfEventsLoseNoCount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		attachTenant(t, s, ann, 2)
		if n := countWinners(t, concurrently(concurrency, func(i int) error {
			return tryStoreEvents(t.Context(), s, ann, []sendlimit.Event{newEvent(2*i, 1+i%2, now), newEvent(2*i+1, 2-i%2, now.Add(time.Hour))})
		}), nil); n != concurrency {
			t.Fatalf("%d writes succeeded, want %d", n, concurrency)
		}
		if page := listEvents(t, s, ann, ports.EventQuery{Limit: 200}); page.Total != 2*concurrency || len(page.Events) != 2*concurrency {
			t.Fatalf("the page has %d events, and the total is %d, want %d", len(page.Events), page.Total, 2*concurrency)
		}
	})
}

func TestAccountSeesOnlyItsOwnEnforcementEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attachTenant(t, s, ann, 1)
		attachTenant(t, s, bob, 2)
		storeEvents(t, s, bob, newEvent(1, 2, now))
		if page := listEvents(t, s, ann, ports.EventQuery{Limit: 50}); page.Total != 0 || len(page.Events) != 0 {
			t.Fatalf("the account sees %+v, want no event", page)
		}
		_, foreignError := s.Events(t.Context(), ann, ports.EventQuery{Tenant: guid(2), Limit: 50})
		_, unknownError := s.Events(t.Context(), ann, ports.EventQuery{Tenant: guid(9), Limit: 50})
		requireSameError(t, "events of a tenant", foreignError, unknownError)
		requireRefusal(t, "events of a foreign tenant", foreignError, fault.TenantNotFound)
	})
}

func TestEnforcementEventsStayWhenTheirTenantIsDeleted(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		storeEvents(t, s, ann, newEvent(1, 1, now))
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1), nil))
		if page := listEvents(t, s, ann, ports.EventQuery{Limit: 50}); page.Total != 1 {
			t.Fatalf("after the deletion of the tenant, the events are %+v, want one", page)
		}
	})
}

func TestWholeDaysOfEventsAreDroppedWithTheirCounts(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		events := recordSampleEvents(t, s, ann)
		attachTenant(t, s, bob, 9)
		storeEvents(t, s, bob, newEvent(1, 9, events[0].At))
		before := events[200].At.Add(-time.Minute)
		cutoff := before.Truncate(24 * time.Hour)
		remaining := slices.DeleteFunc(slices.Clone(events), func(e sendlimit.Event) bool { return e.At.Before(cutoff) })
		if len(remaining) == len(events) || len(remaining) == 0 {
			t.Fatalf("%d of %d sample events remain, want some dropped and some kept", len(remaining), len(events))
		}
		dropped, err := s.DeleteEvents(t.Context(), before)
		must(t, "drop", err)
		if want := len(events) - len(remaining) + 1; dropped != want { // one event of bob
			t.Fatalf("%d events were dropped, want %d", dropped, want)
		}
		for _, query := range []ports.EventQuery{{Limit: 200}, {Limit: 200, Tenant: guid(2), Action: sendlimit.Blocked, Offset: 3}} {
			if diff := compare.Diff(expectedPage(remaining, query), listEvents(t, s, ann, query)); diff != "" {
				t.Fatalf("%+v (-want +got):\n%s", query, diff)
			}
		}
		dropped, err = s.DeleteEvents(t.Context(), before)
		must(t, "drop again", err)
		if dropped != 0 {
			t.Fatalf("the second call dropped %d events, want none", dropped)
		}
	})
}

func TestDayThatHasNotEndedKeepsItsEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		ofDayBefore, ofDay := newEvent(1, 1, dayStart.Add(-time.Hour)), newEvent(2, 1, dayStart.Add(time.Hour))
		storeEvents(t, s, ann, ofDayBefore, ofDay)
		dropped, err := s.DeleteEvents(t.Context(), dayStart.Add(23*time.Hour))
		must(t, "drop", err)
		page := listEvents(t, s, ann, ports.EventQuery{Limit: 9})
		if dropped != 1 || page.Total != 1 || len(page.Events) != 1 || page.Events[0].ID != ofDay.ID {
			t.Fatalf("%d events were dropped and %+v are left, want 1 dropped and only %+v left", dropped, page.Events, ofDay)
		}
	})
}

// requireHealth checks the result of SendHealth at a time. Tenants that were last counted more than
// an hour before this time are lagging.
func requireHealth(t testing.TB, label string, s *Store, at time.Time, want ports.SendHealth) {
	t.Helper()
	got, err := s.SendHealth(t.Context(), at, at.Add(-time.Hour))
	must(t, label, err)
	want.OldestDue = want.OldestDue.Truncate(time.Microsecond)
	if diff := compare.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", label, diff)
	}
}

// setTenantLimit adds a policy for the whole tenant.
func (fixture sendLimitFixture) setTenantLimit(t testing.TB, s *Store) {
	t.Helper()
	p, err := s.ReservePolicy(t.Context(), fixture.owner, fixture.guid, sendlimit.TenantWide, now)
	must(t, "reserve", err)
	p.PerDay = 5
	must(t, "save policy", savePolicy(t.Context(), s, fixture.owner, p))
}

func TestHealthReportsLongestWaitingTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		annFixture := newSendLimitFixture(t, s, "ann", 1)
		bobFixture := newSendLimitFixture(t, s, "bob", 2)
		requireHealth(t, "no tenant is due yet", s, now.Add(-time.Second), ports.SendHealth{})
		requireHealth(t, "never evaluated", s, dueTime, ports.SendHealth{OldestDue: now})
		requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), bobFixture.claim(t, s), dueTime.Add(time.Minute)))
		claim := annFixture.claim(t, s)
		requireHealth(t, "claimed by a pass", s, dueTime, ports.SendHealth{})
		requireHealth(t, "only the tenant of bob is due", s, dueTime.Add(time.Hour), ports.SendHealth{OldestDue: dueTime.Add(time.Minute)})
		requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), claim, dueTime.Add(time.Second)))
		requireHealth(t, "both tenants are due", s, dueTime.Add(time.Hour), ports.SendHealth{OldestDue: dueTime.Add(time.Second)})
	})
}

func TestTenantWaitsSinceItsConnectionAfterItsTimeZoneIsSet(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		_, err := s.SetTimeZone(t.Context(), fixture.guid, "Europe/Berlin")
		must(t, "set time zone", err)
		requireHealth(t, "after the time zone was set", s, dueTime, ports.SendHealth{OldestDue: now})
	})
}

func TestTenantsWithLimitThatWereNotCountedRecentlyAreLagging(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		requireHealth(t, "without a limit", s, dueTime.Add(48*time.Hour), ports.SendHealth{})
		fixture.setTenantLimit(t, s)
		requireHealth(t, "ready for an hour", s, now.Add(time.Hour), ports.SendHealth{LimitedTenants: 1})
		requireHealth(t, "never counted", s, now.Add(time.Hour+time.Second), ports.SendHealth{LimitedTenants: 1, LaggingTenants: 1})
		fixture.saveCounts(t, s, claim, 3)
		requireHealth(t, "counted", s, dueTime.Add(time.Hour), ports.SendHealth{LimitedTenants: 1})
		requireHealth(t, "counted long ago", s, dueTime.Add(time.Hour+time.Second), ports.SendHealth{LimitedTenants: 1, LaggingTenants: 1})
		countsOfFastClock := ports.SendCounts{Today: dayStart, At: dueTime.Add(48 * time.Hour), Mark: dayStart, ByMailbox: map[string][]sendlimit.Count{fixture.boxes[0].ID: {{Day: dayStart}}}}
		requireLeaseHeld(t, "count by a clock that is ahead", true)(s.SaveCounts(t.Context(), claim, countsOfFastClock))
		requireHealth(t, "counted ahead of now", s, dueTime, ports.SendHealth{LimitedTenants: 1, LaggingTenants: 1})
		stored, err := s.Tenant(t.Context(), fixture.owner, fixture.guid)
		must(t, "find", err)
		stored.Consent = tenant.ConsentRevoked
		must(t, "revoke", s.SaveTenant(t.Context(), fixture.owner, stored))
		requireHealth(t, "without consent", s, dueTime.Add(48*time.Hour), ports.SendHealth{})
	})
}

// TestTenantWithoutCountedMailboxesIsLaggingAfterDayWithoutPass checks a tenant whose pass
// counted no mailbox. Only its mark shows when it had the pass, and may be maxMarkLag behind.
func TestTenantWithoutCountedMailboxesIsLaggingAfterDayWithoutPass(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		fixture.setTenantLimit(t, s)
		claim := fixture.claim(t, s)
		requireLeaseHeld(t, "save", true)(s.SaveCounts(t.Context(), claim, ports.SendCounts{Today: dayStart, At: dueTime, Mark: dayStart}))
		laggingAfter := dayStart.Add(maxMarkLag + time.Hour) // requireHealth subtracts an hour
		requireHealth(t, "within the day", s, laggingAfter, ports.SendHealth{LimitedTenants: 1})
		requireHealth(t, "after the day", s, laggingAfter.Add(time.Second), ports.SendHealth{LimitedTenants: 1, LaggingTenants: 1})
	})
}

func TestHealthCountsBlockedAndStrandedMailboxes(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.blockChange(0, 1), fixture.blockChange(1, 2))))
		requireHealth(t, "blocked", s, dueTime, ports.SendHealth{BlockedMailboxes: 2})
		requireLeaseHeld(t, "unblock", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.newChange(1, 3, sendlimit.Unblocked))))
		stored, err := s.Tenant(t.Context(), fixture.owner, fixture.guid)
		must(t, "find", err)
		stored.Bootstrap = tenant.BootstrapFailed
		must(t, "fail", s.SaveTenant(t.Context(), fixture.owner, stored))
		requireHealth(t, "stranded", s, dueTime, ports.SendHealth{BlockedMailboxes: 1, StrandedMailboxes: 1})
	})
}

func TestStandingsAreReturnedOnlyToAccountThatHoldsTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		addSendLimitTenant(t, s, fixture.owner, 2)
		stranger := newSendLimitFixture(t, s, "bob", 3)
		claim := fixture.claim(t, s)
		fixture.saveCounts(t, s, claim, 3)
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.blockChange(0, 1))))
		stranger.saveCounts(t, s, stranger.claim(t, s), 3)
		got, err := s.SendStandings(t.Context(), fixture.owner)
		must(t, "standings", err)
		want := map[tenant.GUID]ports.SendState{fixture.guid: {CountedAt: dueTime.Truncate(time.Microsecond), Blocked: 1}}
		if diff := compare.Diff(want, got); diff != "" {
			t.Fatalf("unexpected result (-want +got):\n%s", diff)
		}
	})
}

// TestDaysOfEventsAreReadFromIndex stores 2,000 counts, of which one in 100 is the count of a whole
// account. The query for the days that retention drops must not scan the counts of tenants.
func TestDaysOfEventsAreReadFromIndex(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		s := migratedStore(t, url(t))
		var owners []string
		for n := range 50 {
			owners = append(owners, accountKey(newAccount(t, s, fmt.Sprint("ann", n))))
		}
		counted := map[eventCountRow]int{}
		for n := range 2000 {
			tenantGUID := string(guid(n))
			if n%100 == 0 {
				tenantGUID = ident.Zero
			}
			counted[eventCountRow{AccountID: owners[n%len(owners)], TenantGUID: tenantGUID, Action: "blocked", Span: day, Starts: int64(n) * day}] = 1
		}
		must(t, "add counts", s.inTransaction(t.Context(), "count", func(ctx context.Context, tx bun.IDB) error { return addCounts(ctx, tx, counted) }))
		execSQL(t, s, "ANALYZE enforcement_counts")
		explain := "EXPLAIN QUERY PLAN "
		if database.IsPostgres(s.db) {
			explain = "EXPLAIN "
		}
		rows, err := s.db.QueryContext(t.Context(), explain+eventDaysBefore(s.db, time.Now()).String())
		must(t, "explain", err)
		defer func() { _ = rows.Close() }()
		columns, err := rows.Columns()
		must(t, "columns", err)
		var plan []string
		for rows.Next() {
			row := make([]any, len(columns))
			for i := range row {
				row[i] = new(any)
			}
			must(t, "scan", rows.Scan(row...))
			plan = append(plan, fmt.Sprint(*row[len(row)-1].(*any)))
		}
		must(t, "read rows", rows.Err())
		if text := strings.Join(plan, "\n"); !strings.Contains(text, "enforcement_counts_days") {
			t.Errorf("the plan of the query does not have the index enforcement_counts_days:\n%s", text)
		}
	})
}

// TestEventsAndTheirCountsAreStoredAndDroppedTogether cancels the caller's context between the
// statement for the events and the statement for their counts.
func TestEventsAndTheirCountsAreStoredAndDroppedTogether(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		hook := &cancelBefore{}
		s := migratedStore(t, url(t), hook)
		ann := newAccount(t, s, "ann")
		requireCountsAfterCut := func(want int, call func(ctx context.Context) error) {
			t.Helper()
			hook.cutOff(t, `INSERT INTO "enforcement_counts"`, call)
			if page := listEvents(t, s, ann, ports.EventQuery{Limit: 9}); page.Total != want || len(page.Events) != want {
				t.Fatalf("the page has %d events, and the total is %d, want %d", len(page.Events), page.Total, want)
			}
		}
		requireCountsAfterCut(0, func(ctx context.Context) error {
			return tryStoreEvents(ctx, s, ann, []sendlimit.Event{newEvent(0, 1, now)})
		})
		storeEvents(t, s, ann, newEvent(0, 1, now))
		requireCountsAfterCut(1, func(ctx context.Context) error { _, err := s.DeleteEvents(ctx, now.Add(72*time.Hour)); return err })
	})
}

// TestEventsAreDroppedInBatches drops the events of a day in batches of two. The counts must be
// right after each batch, because retention can stop between two transactions.
func TestEventsAreDroppedInBatches(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		s := migratedStore(t, url(t))
		ann, at := newAccount(t, s, "ann"), time.Date(2026, 1, 2, 23, 30, 0, 0, time.UTC)
		attachTenant(t, s, ann, 1)
		var events []sendlimit.Event
		for n := range 7 { // six events within two hours of a day, and one on the next day
			e := sendlimit.Event{Tenant: guid(1), Address: "ada@a.test", Action: []sendlimit.Action{sendlimit.Blocked, sendlimit.Unblocked}[n%2]}
			events = append(events, withIDAt(e, at.Add(time.Duration(n-5)*20*time.Minute)))
		}
		events[6] = withIDAt(events[6], at.Add(time.Hour))
		storeEvents(t, s, ann, events...)
		starts := at.Truncate(24 * time.Hour).Unix()
		for _, want := range []int{2, 2, 2, 0} {
			n, err := s.dropEventBatch(t.Context(), eventCountRow{AccountID: accountKey(ann), Starts: starts}, 2)
			must(t, "drop event batch", err)
			if n != want {
				t.Fatalf("%d events were dropped, want %d", n, want)
			}
			events = events[n:]
			for _, query := range []ports.EventQuery{{Limit: 9}, {Tenant: guid(1), Limit: 9}, {Action: sendlimit.Unblocked, Limit: 9}} {
				remaining := 0
				for _, e := range events {
					if query.Action == "" || query.Action == e.Action {
						remaining++
					}
				}
				if page, err := s.Events(t.Context(), ann, query); err != nil || page.Total != remaining || len(page.Events) != remaining {
					t.Fatalf("%+v: the page has %d events, and the total is %d, want %d (%v)", query, len(page.Events), page.Total, remaining, err)
				}
			}
		}
		if left, err := s.db.NewSelect().Model((*eventCountRow)(nil)).Count(t.Context()); err != nil || left != 4 {
			t.Fatalf("%d counts are left (%v), want the 4 counts of one event", left, err)
		}
	})
}
