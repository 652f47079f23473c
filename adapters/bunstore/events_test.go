// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// emitEvents stores events in one transaction that changes nothing else.
func emitEvents(t testing.TB, s *Store, owner access.AccountID, events ...event.Event) {
	t.Helper()
	must(t, "emit", s.inTransaction(t.Context(), "emit", func(ctx context.Context, _ bun.IDB) error {
		emit(ctx, accountKey(owner), events...)
		return nil
	}))
}

func domainEvent(id tenant.GUID, domainID string, eventType event.Type) event.Event {
	return event.Event{Type: eventType, Tenant: id, Subject: event.Subject{Type: event.Domain, ID: domainID}, Data: map[string]string{"domain_id": domainID}}
}

func TestEventsAreNumberedForEachAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB := newAccount(t, s, "a"), newAccount(t, s, "b")
		guid1, guid2 := tenant.GUID(newID()), tenant.GUID(newID())
		emitEvents(t, s, accountA, domainEvent(guid1, "d1", event.DomainAdded), domainEvent(guid1, "d1", event.DomainVerified), domainEvent(guid2, "d2", event.DomainAdded))
		emitEvents(t, s, accountB, domainEvent(guid1, "d1", event.DomainAdded))
		emitEvents(t, s, accountA, domainEvent(guid1, "d1", event.DomainRemoved))
		for _, tc := range []struct {
			name     string
			query    ports.LogQuery
			want     []string // sequence number, domain, type and version of each event
			wantNext int64
			wantMore bool
		}{
			{"all", ports.LogQuery{After: ports.FromOldest, Limit: 10}, []string{"1 d1 domain.added 1", "2 d1 domain.verified 2", "3 d2 domain.added 1", "4 d1 domain.removed 3"}, 4, false},
			{"a page", ports.LogQuery{After: 1, Limit: 2}, []string{"2 d1 domain.verified 2", "3 d2 domain.added 1"}, 3, true},
			{"two types", ports.LogQuery{Types: []event.Type{event.DomainRemoved, event.DomainAdded}, Limit: 2}, []string{"1 d1 domain.added 1", "3 d2 domain.added 1"}, 3, true},
			{"a tenant", ports.LogQuery{Tenants: []tenant.GUID{guid2}, Limit: 10}, []string{"3 d2 domain.added 1"}, 4, false},
			{"a tenant and a type", ports.LogQuery{Tenants: []tenant.GUID{guid1, guid2}, Types: []event.Type{event.DomainAdded}, Limit: 10}, []string{"1 d1 domain.added 1", "3 d2 domain.added 1"}, 4, false},
			{"the end", ports.LogQuery{After: 4, Limit: 10}, nil, 4, false},
		} {
			page, err := s.LoggedEvents(t.Context(), accountA, tc.query)
			must(t, tc.name, err)
			var got []string
			for _, e := range page.Events {
				got = append(got, fmt.Sprintf("%d %s %s %d", e.Sequence, e.Subject.ID, e.Type, e.Version))
			}
			if !slices.Equal(got, tc.want) || page.Next != tc.wantNext || page.More != tc.wantMore {
				t.Errorf("%s: got %q, next %d, more %v, want %q, next %d, more %v", tc.name, got, page.Next, page.More, tc.want, tc.wantNext, tc.wantMore)
			}
		}
	})
}

// TestPagesOfFilteredLogMatchTheLog reads pages with random filters and cursors. It compares each
// page with a filtered copy of the log. Some tenants and types have most of the events, and some
// have no event.
func TestPagesOfFilteredLogMatchTheLog(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner, random := newAccount(t, s, "a"), rand.New(rand.NewPCG(1, 0))
		skewed := func(n int) int { return min(random.IntN(n), random.IntN(n), random.IntN(n)) }
		var log []event.Event
		for range 400 {
			e := domainEvent(guid(skewed(6)), "d1", event.Types()[skewed(12)])
			if random.IntN(8) == 0 {
				e.Tenant = tenant.NoGUID
			}
			log = append(log, e)
		}
		emitEvents(t, s, owner, log...)
		for range 150 {
			query := ports.LogQuery{After: random.Int64N(400), Limit: 1 + random.IntN(60)}
			for range random.IntN(5) {
				query.Tenants = append(query.Tenants, guid(random.IntN(8)))
			}
			for range random.IntN(14) {
				query.Types = append(query.Types, event.Types()[random.IntN(14)])
			}
			slices.Sort(query.Tenants)
			slices.Sort(query.Types)
			query.Tenants, query.Types = slices.Compact(query.Tenants), slices.Compact(query.Types)
			var want, got []int64
			for i, e := range log {
				if int64(i) >= query.After && (query.Types == nil || slices.Contains(query.Types, e.Type)) && (query.Tenants == nil || slices.Contains(query.Tenants, e.Tenant)) {
					want = append(want, int64(i)+1)
				}
			}
			page, err := s.LoggedEvents(t.Context(), owner, query)
			must(t, "read", err)
			for _, e := range page.Events {
				got = append(got, e.Sequence)
			}
			if hasMore := len(want) > query.Limit; page.More != hasMore || !slices.Equal(got, want[:min(query.Limit, len(want))]) {
				t.Fatalf("%+v: got %d, more %v, want the first %d of %d", query, got, page.More, query.Limit, want)
			}
		}
	})
}

// TestPagesOfManyRangesMatchTheFilteredLog reads a log whose wanted events are rare at the
// beginning and frequent later. Where they are frequent, the next events of the tenants fill a
// page. Where they are rare, the store merges the ranges (see logRange). The filter has more ranges
// than maxMergedRanges, and some ranges have no event.
func TestPagesOfManyRangesMatchTheFilteredLog(t *testing.T) {
	const size, rareUntil = 4500, 2500
	eachStore(t, func(t *testing.T, s *Store) {
		owner, random := newAccount(t, s, "a"), rand.New(rand.NewPCG(1, 0))
		wantedTypes := event.Types()[:20]
		rows := make([]eventRow, 0, size)
		for i := range size {
			kind := event.WebhookDisabled
			if i >= rareUntil || random.IntN(300) == 0 {
				kind = wantedTypes[random.IntN(len(wantedTypes))]
			}
			rows = append(rows, eventRow{AccountID: accountKey(owner), Sequence: int64(i) + 1, ID: newID(), Type: string(kind),
				TenantGUID: string(guid(random.IntN(9))), SubjectType: "domain", SubjectID: "d", Version: 1, Data: []byte("{}"), CreatedAt: now})
		}
		for chunk := range slices.Chunk(rows, batchSize) {
			_, err := s.db.NewInsert().Model(&chunk).Exec(t.Context())
			must(t, "insert events", err)
		}
		_, err := s.db.NewInsert().Model(&eventLogRow{AccountID: accountKey(owner), LastSequence: size}).Exec(t.Context())
		must(t, "insert the log", err)
		for _, after := range []int64{0, 1, 400, 499, 500, 2000, rareUntil - 100, rareUntil, size - 20, size} {
			for _, limit := range []int{1, 20, 100} {
				query := ports.LogQuery{After: after, Limit: limit, Types: wantedTypes[:13+random.IntN(8)], Tenants: append(guids(0, 8), guid(100))}
				var want, got []int64
				for _, r := range rows {
					if r.Sequence > after && slices.Contains(query.Types, event.Type(r.Type)) && slices.Contains(query.Tenants, tenant.GUID(r.TenantGUID)) {
						want = append(want, r.Sequence)
					}
				}
				page, err := s.LoggedEvents(t.Context(), owner, query)
				must(t, "read", err)
				for _, e := range page.Events {
					got = append(got, e.Sequence)
				}
				if hasMore := len(want) > limit; page.More != hasMore || !slices.Equal(got, want[:min(limit, len(want))]) {
					t.Fatalf("after %d: got %d, more %v, want the first %d of %d events", after, got, page.More, limit, len(want))
				}
			}
		}
		page, err := s.LoggedEvents(t.Context(), owner, ports.LogQuery{After: 1, Limit: 100, Types: wantedTypes, Tenants: guids(100, 10)})
		must(t, "read", err)
		if len(page.Events) > 0 || page.More || page.Next != size {
			t.Errorf("tenants without events: got %+v, want no event, and the end of the log as the cursor", page)
		}
	})
}

// TestReadersOfLogMissNoEvent checks that a reader that follows the log gets each event once, in
// the order of the sequence numbers, while concurrent transactions commit.
func TestReadersOfLogMissNoEvent(t *testing.T) {
	const writers, rounds = 4, 20
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		var wg sync.WaitGroup
		for writer := range writers {
			wg.Go(func() {
				for i := range rounds {
					emitEvents(t, s, owner, domainEvent(tenant.NoGUID, fmt.Sprintf("d%d", writer), event.DomainHealthChanged), domainEvent("", fmt.Sprint(writer, i), event.DomainAdded))
				}
			})
		}
		var sequences []int64
		for after := ports.FromOldest; len(sequences) < 2*writers*rounds && !t.Failed(); { // each round writes two events
			page, err := s.LoggedEvents(t.Context(), owner, ports.LogQuery{After: after, Limit: 7})
			must(t, "read", err)
			for _, e := range page.Events {
				sequences = append(sequences, e.Sequence)
			}
			after = page.Next
		}
		wg.Wait()
		for i, sequence := range sequences {
			if sequence != int64(i)+1 {
				t.Fatalf("event %d has the sequence %d, want its position", i+1, sequence)
			}
		}
	})
}

// TestCursorAfterTheEndIsRefused reads a log with a cursor of a different account, whose log is
// longer. A cursor at the end of the log is accepted.
func TestCursorAfterTheEndIsRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		emitEvents(t, s, ann, domainEvent("", "d1", event.DomainAdded))
		emitEvents(t, s, bob, domainEvent("", "d2", event.DomainAdded), domainEvent("", "d3", event.DomainAdded))
		bobsPage, err := s.LoggedEvents(t.Context(), bob, ports.LogQuery{After: ports.FromOldest, Limit: 10})
		must(t, "read", err)
		_, err = s.LoggedEvents(t.Context(), ann, ports.LogQuery{After: bobsPage.Next, Limit: 10})
		requireRefusal(t, "read with a cursor of bob", err, fault.InvalidRequest)
		end, err := s.LoggedEvents(t.Context(), ann, ports.LogQuery{After: 1, Limit: 10})
		must(t, "read at the end", err)
		if len(end.Events) != 0 || end.Next != 1 {
			t.Errorf("at the end: got %+v, want no event and the same cursor", end)
		}
	})
}

func TestDroppedEventsExpireCursors(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		emitEvents(t, s, owner, domainEvent("", "d1", event.DomainAdded), domainEvent("", "d2", event.DomainAdded))
		n, err := s.DropEvents(t.Context(), time.Now().Add(24*time.Hour))
		must(t, "drop", err)
		emitEvents(t, s, owner, domainEvent("", "d1", event.DomainRemoved))
		if _, err := s.LoggedEvents(t.Context(), owner, ports.LogQuery{After: 1, Limit: 1}); n != 2 || !errors.Is(err, fault.CursorExpired) {
			t.Fatalf("%d events were dropped, want 2; the read with their cursor returned %v, want cursor_expired", n, err)
		}
		page, err := s.LoggedEvents(t.Context(), owner, ports.LogQuery{After: ports.FromOldest, Limit: 1})
		must(t, "read", err)
		if len(page.Events) != 1 || page.Events[0].Sequence != 3 || page.Events[0].Version != 2 {
			t.Fatalf("after the drop: got %+v, want event 3 with the version 2", page)
		}
	})
}

// TestDroppedSequenceNeverFalls drops event 1 of a log after a concurrent call has dropped the
// events 2 and 3. The dropped sequence of the log must stay 3, so that the cursor 2 is refused.
func TestDroppedSequenceNeverFalls(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		emitEvents(t, s, owner, domainEvent("", "d1", event.DomainAdded), domainEvent("", "d2", event.DomainAdded), domainEvent("", "d3", event.DomainAdded))
		execSQL(t, s, "DELETE FROM events WHERE account_id = ? AND sequence > 1", accountKey(owner))
		execSQL(t, s, "UPDATE event_logs SET dropped_sequence = 3 WHERE account_id = ?", accountKey(owner))
		_, err := s.DropEvents(t.Context(), time.Now().Add(24*time.Hour))
		must(t, "drop", err)
		_, err = s.LoggedEvents(t.Context(), owner, ports.LogQuery{After: 2, Limit: 1})
		requireRefusal(t, "cursor before the dropped events", err, fault.CursorExpired)
	})
}

// TestLogIsDroppedByWholeDays checks that DropEvents deletes only the events of days that have
// ended. The log has more such events than DropEvents deletes in one batch.
func TestLogIsDroppedByWholeDays(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		today := time.Now().UTC().Truncate(24 * time.Hour)
		s.now = func() time.Time { return today.Add(-time.Hour) }
		defer func() { s.now = time.Now }()
		var old []event.Event
		for i := range dropBatch + 1 {
			old = append(old, domainEvent("", fmt.Sprint(i), event.DomainAdded))
		}
		emitEvents(t, s, ann, old...)
		s.now = func() time.Time { return today.Add(time.Hour) }
		emitEvents(t, s, ann, domainEvent("", "new", event.DomainAdded))
		emitEvents(t, s, bob, domainEvent("", "new", event.DomainAdded))
		for _, want := range []int{dropBatch + 1, 0} {
			n, err := s.DropEvents(t.Context(), today.Add(23*time.Hour))
			must(t, "drop", err)
			if n != want {
				t.Fatalf("%d events were dropped, want %d", n, want)
			}
		}
		page, err := s.LoggedEvents(t.Context(), ann, ports.LogQuery{After: ports.FromOldest, Limit: 5})
		must(t, "read", err)
		if len(page.Events) != 1 || page.Events[0].Sequence != dropBatch+2 {
			t.Fatalf("the page of the log is %+v, want only the event %d", page, dropBatch+2)
		}
	})
}

// TestPositionAtFindsTheFirstEvent stores events whose times are out of order by less than
// maxDisorder. It compares the result of positionAt for random times with a search through all
// events.
func TestPositionAtFindsTheFirstEvent(t *testing.T) {
	const size, dropped = 300, 20
	eachStore(t, func(t *testing.T, s *Store) {
		owner, random := newAccount(t, s, "a"), soak.Rand(t)
		rows := make([]eventRow, 0, size)
		for i := range size - dropped {
			at := now.Add(time.Duration(i/10)*time.Hour + time.Duration(random.Int64N(int64(maxDisorder)))).Truncate(time.Millisecond)
			rows = append(rows, eventRow{AccountID: accountKey(owner), Sequence: int64(dropped + i + 1), ID: newID(), Type: string(event.DomainAdded),
				TenantGUID: string(guid(1)), SubjectType: "domain", SubjectID: "d", Version: 1, Data: []byte("{}"), CreatedAt: storedTime(at)})
		}
		_, err := s.db.NewInsert().Model(&rows).Exec(t.Context())
		must(t, "insert", err)
		log := eventLogRow{AccountID: accountKey(owner), LastSequence: size, DroppedSequence: dropped}
		for range 100 {
			at := now.Add(time.Duration(random.Int64N(int64(size/10+2)*int64(time.Hour))) - time.Hour)
			if random.IntN(2) == 0 {
				at = rows[random.IntN(len(rows))].CreatedAt
			}
			want := int64(size)
			if first := slices.IndexFunc(rows, func(r eventRow) bool { return !r.CreatedAt.Before(storedTime(at)) }); first >= 0 {
				want = rows[first].Sequence - 1
			}
			must(t, "find position", s.db.RunRead(t.Context(), "find position", func(ctx context.Context, db bun.IDB) error {
				got, err := positionAt(ctx, db, log, at)
				if got != want {
					t.Errorf("the position at %s is %d, want %d", at, got, want)
				}
				return err
			}))
		}
	})
}
