// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/integration"
)

// stepHook pauses after a chosen statement of a transaction. It also counts the statements that
// PostgreSQL aborted because of a deadlock.
type stepHook struct {
	mu             sync.Mutex
	pauseAfter     int // the number of statements until the pause; 0 and less mean no pause
	paused, resume chan struct{}
	deadlocks      int
}

// pauseAt makes the hook pause once, after n more statements. The pause ends when resume is closed.
func (h *stepHook) pauseAt(n int) (paused <-chan struct{}, resume chan<- struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pauseAfter, h.paused, h.resume = n, make(chan struct{}), make(chan struct{})
	return h.paused, h.resume
}

func (*stepHook) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (h *stepHook) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	h.mu.Lock()
	if e.Err != nil && strings.Contains(e.Err.Error(), "40P01") { // SQLSTATE deadlock_detected
		h.deadlocks++
	}
	h.pauseAfter--
	pauses, paused, resume := h.pauseAfter == 0, h.paused, h.resume
	h.mu.Unlock()
	if pauses {
		close(paused)
		<-resume
	}
}

// connectionWrites are transactions that lock connections together with their sessions, mailboxes
// or integrations. If write begins a session, the session gets the number n. In the fixture, box 0
// has a pending connection to integration1, and a session with the number n-1, which is old enough
// to expire. Box 1 has no connection.
var connectionWrites = []struct {
	name  string
	write func(t testing.TB, s *Store, fixture integrationFixture, n int)
}{
	{"begin a session", func(t testing.TB, s *Store, fixture integrationFixture, n int) {
		session := newSession(fixture.integration1, fixture.boxes[0], n)
		_ = s.BeginSession(t.Context(), fixture.owner, session, connectionID(n), session.CreatedAt.Add(time.Hour))
	}},
	{"begin a first session", func(t testing.TB, s *Store, fixture integrationFixture, n int) {
		session := newSession(fixture.integration1, fixture.boxes[1], n)
		_ = s.BeginSession(t.Context(), fixture.owner, session, connectionID(n), session.CreatedAt)
	}},
	{"end a session", func(t testing.TB, s *Store, fixture integrationFixture, n int) {
		session := newSession(fixture.integration1, fixture.boxes[0], n-1)
		session.Status = integration.SessionConnected
		connected := fixture.newConnection(fixture.integration1, 0, integration.ConnectionConnected)
		_, _ = s.SaveSession(t.Context(), fixture.owner, session, &connected, nil)
	}},
	{"disconnect", func(t testing.TB, s *Store, fixture integrationFixture, n int) {
		createdAt := newSession(fixture.integration1, fixture.boxes[0], n-1).CreatedAt
		_, _ = s.SaveConnection(t.Context(), fixture.owner, fixture.newConnection(fixture.integration1, 0, integration.ConnectionDisconnected), createdAt, nil)
	}},
	{"connect", func(t testing.TB, s *Store, fixture integrationFixture, _ int) {
		_, _ = s.SaveConnection(t.Context(), fixture.owner, fixture.newConnection(fixture.integration1, 1, integration.ConnectionConnected), time.Time{}, nil)
	}},
	{"refresh an integration", func(t testing.TB, s *Store, fixture integrationFixture, _ int) {
		_, _ = s.SaveRefresh(t.Context(), fixture.owner, fixture.integration1, now.Add(24*time.Hour), []integration.Connection{
			fixture.newConnection(fixture.integration1, 0, integration.ConnectionConnected), fixture.newConnection(fixture.integration1, 1, integration.ConnectionConnected),
		}, nil)
	}},
	{"remove a mailbox", func(t testing.TB, s *Store, fixture integrationFixture, _ int) {
		_ = s.RemoveMailbox(t.Context(), fixture.owner, fixture.boxes[0], now, nil)
	}},
	{"delete a tenant", func(t testing.TB, s *Store, fixture integrationFixture, _ int) {
		_ = s.DeleteTenant(t.Context(), fixture.owner, fixture.boxes[0].TenantGUID, nil)
	}},
	{"remove an integration", func(t testing.TB, s *Store, fixture integrationFixture, _ int) {
		_ = s.RemoveIntegration(t.Context(), fixture.owner, fixture.integration1.ID, nil)
	}},
	{"close an account", func(t testing.TB, s *Store, fixture integrationFixture, _ int) {
		_, _ = s.CloseAccount(t.Context(), fixture.owner, now)
	}},
}

// TestWritesOfConnectionsDoNotDeadlock pauses one transaction after each of its statements in turn,
// and runs a second transaction until it ends or waits for a lock. All transactions lock rows in
// the order that lockToConnect describes, so no deadlock may occur.
func TestWritesOfConnectionsDoNotDeadlock(t *testing.T) {
	url := testserver.Database(t) // not shared, because the test observes all database connections
	var firstHook, secondHook stepHook
	setupStore, firstStore, secondStore := migratedStore(t, url), openStore(t, url, &firstHook), openStore(t, url, &secondHook)
	type pair struct{ firstIndex, secondIndex int } // in connectionWrites
	var pairs []pair
	for firstIndex := range connectionWrites {
		for secondIndex := range connectionWrites {
			pairs = append(pairs, pair{firstIndex, secondIndex})
		}
	}
	fixtureNumber := 0
	for _, indexes := range soak.Sample(t, pairs, 8) {
		firstWrite, secondWrite := connectionWrites[indexes.firstIndex], connectionWrites[indexes.secondIndex]
		t.Run(firstWrite.name+", then "+secondWrite.name, func(t *testing.T) {
			firstHook.deadlocks, secondHook.deadlocks = 0, 0
			for step, finished := 1, false; !finished; step++ {
				fixtureNumber++
				fixture := newIntegrationFixture(t, setupStore, fmt.Sprintf("a%d", fixtureNumber), fixtureNumber)
				oldSessionNumber, newSessionNumber := 2*fixtureNumber, 2*fixtureNumber+1
				fixture.beginSession(t, setupStore, fixture.integration1, 0, oldSessionNumber)
				paused, resume := firstHook.pauseAt(step)
				firstEnds, secondEnds := make(chan struct{}), make(chan struct{})
				go func() { firstWrite.write(t, firstStore, fixture, newSessionNumber); close(firstEnds) }()
				select {
				case <-paused:
				case <-firstEnds: // the transaction has fewer statements than step
					finished = true
				}
				go func() { secondWrite.write(t, secondStore, fixture, newSessionNumber); close(secondEnds) }()
				waitForLockOr(t, setupStore, secondEnds)
				close(resume)
				<-firstEnds
				<-secondEnds
				if firstHook.deadlocks+secondHook.deadlocks > 0 {
					t.Fatalf("got a deadlock, want none: the first transaction paused after %d statements", step)
				}
			}
		})
	}
}

func waitForLock(t testing.TB, s *Store) {
	t.Helper()
	waitForLockOr(t, s, nil)
}

// waitForLockOr waits until a statement waits for a lock, or ended is closed.
func waitForLockOr(t testing.TB, s *Store, ended <-chan struct{}) {
	t.Helper()
	for deadline := time.Now().Add(hangTimeout); ; {
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
		if waitingStatements(t, s) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no statement waits for a lock, want one")
		}
	}
}

// waitingStatements returns how many statements on the database wait for a lock.
func waitingStatements(t testing.TB, s *Store) (n int) {
	t.Helper()
	must(t, "count waiting statements", s.db.NewRaw("SELECT COUNT(*) FROM pg_stat_activity "+
		"WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(t.Context(), &n))
	return n
}

// TestRemovedMailboxEndsItsNewConnection checks that the removal of a mailbox waits for a
// transaction that is connecting the mailbox, and then logs the end of the connection.
func TestRemovedMailboxEndsItsNewConnection(t *testing.T) {
	url := testserver.Database(t) // not shared, because the test observes all database connections
	store := migratedStore(t, url)
	fixture := newIntegrationFixture(t, store, "ann", 1)
	log := readerAtEnd(t, store, fixture.owner)
	hook := newPausingHook(`INSERT INTO "mailbox_connections"`)
	pausingStore := openStore(t, url, hook)
	connected, removed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := pausingStore.SaveConnection(t.Context(), fixture.owner, fixture.newConnection(fixture.integration1, 0, integration.ConnectionConnected), time.Time{}, nil)
		connected <- err
	}()
	<-hook.paused
	go func() { removed <- store.RemoveMailbox(t.Context(), fixture.owner, fixture.boxes[0], now, nil) }()
	waitForLock(t, store)
	close(hook.resume)
	must(t, "connect", <-connected)
	must(t, "remove", <-removed)
	var types []event.Type
	for _, e := range log.nextEvents(t) {
		if e.Subject.Type == event.Connection {
			types = append(types, e.Type)
		}
	}
	if len(types) != 2 || types[1] != event.ConnectionDisconnected {
		t.Errorf("the events of the connection are %q, want two, of which the second is %q", types, event.ConnectionDisconnected)
	}
}
