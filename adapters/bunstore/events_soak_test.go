// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/ports"
)

// soakTime is how long the writers of the soak test write. Without TENANTRY_SOAK, each writer makes
// only 30 attempts.
const soakTime = 10 * time.Minute

// logSoak is an account whose events are written and read through two stores at once.
type logSoak struct {
	owner        access.AccountID
	replicas     []*Store
	writersEnded atomic.Bool

	mu        sync.Mutex     // for committed and uncertain, while writers run
	committed map[string]int // numbers of events by attempt, for attempts that were certainly committed
	uncertain map[string]int // numbers of events by attempt, for attempts whose commit may have failed
}

// TestReadersOfLogShareOneOrder writes with 8 writers and reads with 4 readers through two stores.
// Transactions fail, callers are cancelled, and on PostgreSQL connections are killed.
func TestReadersOfLogShareOneOrder(t *testing.T) {
	databasetest.EachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		firstStore := migratedStore(t, address)
		log := &logSoak{owner: newAccount(t, firstStore, "ann"), replicas: []*Store{firstStore, openStore(t, address)}, committed: map[string]int{}, uncertain: map[string]int{}}
		var readers, writers sync.WaitGroup
		eventsOfReaders := make([][]event.Event, 4)
		for i := range eventsOfReaders {
			readers.Go(func() { eventsOfReaders[i] = log.readToEnd(t, log.replicas[i%2], 1+i*3) })
		}
		for i := range 8 {
			writers.Go(func() { log.writeEvents(t, i) })
		}
		killingEnded := make(chan struct{})
		go func() {
			defer close(killingEnded)
			log.killConnections(t)
		}()
		writers.Wait()
		log.writersEnded.Store(true)
		<-killingEnded
		readers.Wait()
		log.requireSameEvents(t, eventsOfReaders)
	})
}

// writeEvents makes attempts of one to three events each.
func (l *logSoak) writeEvents(t *testing.T, writer int) {
	end := time.Now().Add(soakTime)
	for n := 0; soak.Enabled() && time.Now().Before(end) || !soak.Enabled() && n < 30; n++ {
		attempt, count := fmt.Sprintf("%d-%d", writer, n), 1+rand.IntN(3)
		ctx, cancel := context.WithCancel(t.Context())
		fails := rand.IntN(8) == 0
		if rand.IntN(5) == 0 {
			time.AfterFunc(time.Duration(rand.IntN(5000))*time.Microsecond, cancel)
		}
		err := l.replicas[rand.IntN(2)].inTransaction(ctx, "write events", func(ctx context.Context, _ bun.IDB) error {
			for range count {
				emit(ctx, accountKey(l.owner), domainEvent("", attempt, event.DomainHealthChanged))
			}
			if fails {
				return errRolledBack
			}
			return nil
		})
		cancel()
		l.mu.Lock()
		switch {
		case err == nil:
			l.committed[attempt] = count
		case !errors.Is(err, errRolledBack):
			l.uncertain[attempt] = count
		}
		l.mu.Unlock()
	}
}

var errRolledBack = errors.New("the transaction fails")

// readToEnd reads the log until all writers have ended and the end of the log is reached.
func (l *logSoak) readToEnd(t *testing.T, s *Store, limit int) (events []event.Event) {
	after := ports.FromOldest
	for {
		writersEnded := l.writersEnded.Load()
		page, err := s.LoggedEvents(t.Context(), l.owner, ports.LogQuery{After: after, Limit: limit})
		if err != nil {
			if t.Context().Err() != nil {
				return events
			}
			continue // killConnections ended the connection
		}
		events, after = append(events, page.Events...), page.Next
		if writersEnded && !page.More {
			return events
		}
		if len(page.Events) == 0 {
			time.Sleep(time.Millisecond) // leaves the processor to the writers. No result depends on this pause.
		}
	}
}

// killConnections ends connections to PostgreSQL while the writers write.
func (l *logSoak) killConnections(t *testing.T) {
	for database.IsPostgres(l.replicas[0].db) && !l.writersEnded.Load() {
		_, err := l.replicas[0].db.ExecContext(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
			"WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'tenantry' AND state = 'active' "+
			"AND query LIKE '%event%' ORDER BY random() LIMIT 1")
		if err != nil && t.Context().Err() != nil {
			return
		}
		time.Sleep(20 * time.Millisecond) // the pace of the kills. No result depends on this pause.
	}
}

// requireSameEvents requires that all readers got the same events, without a gap. They must have
// got each event of a committed attempt once, and no event of an attempt that was rolled back. If
// the outcome of an attempt is uncertain, they must have got all of its events or no event.
func (l *logSoak) requireSameEvents(t *testing.T, eventsOfReaders [][]event.Event) {
	eventCounts := map[string]int{} // keyed by attempt
	for i, e := range eventsOfReaders[0] {
		if e.Sequence != int64(i)+1 {
			t.Fatalf("event %d has the sequence %d, want its position", i+1, e.Sequence)
		}
		eventCounts[e.Subject.ID]++
		if e.Version != int64(eventCounts[e.Subject.ID]) {
			t.Fatalf("event %d of %s has the version %d, want its position", eventCounts[e.Subject.ID], e.Subject.ID, e.Version)
		}
	}
	for i, events := range eventsOfReaders[1:] {
		if !slices.EqualFunc(eventsOfReaders[0], events, func(a, b event.Event) bool { return a.ID == b.ID }) {
			t.Errorf("reader %d got %d events and reader 0 got %d, want the same events in the same order", i+1, len(events), len(eventsOfReaders[0]))
		}
	}
	for attempt, want := range l.committed {
		if eventCounts[attempt] != want {
			t.Errorf("%d events of the attempt %s are stored, want %d", eventCounts[attempt], attempt, want)
		}
		delete(eventCounts, attempt)
	}
	for attempt, n := range eventCounts { // uncertain has no entry for an attempt that was rolled back
		if l.uncertain[attempt] != n {
			t.Errorf("%d events of the attempt %s are stored, want none or %d", n, attempt, l.uncertain[attempt])
		}
	}
	t.Logf("%d events; %d transactions were committed, and the outcome of %d is uncertain", len(eventsOfReaders[0]), len(l.committed), len(l.uncertain))
}
