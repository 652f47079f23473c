// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenantry/tenantry/adapters/queue"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/contract/queuecontract"
)

func TestOpenRiverRefusesDatabaseWithoutMigrations(t *testing.T) {
	url := testserver.Database(t)
	if _, err := queue.OpenRiver(t.Context(), url, contractOptions); !errors.Is(err, queue.ErrNotMigrated) {
		t.Fatalf("got %v, want %v", err, queue.ErrNotMigrated)
	}
	missing, err := queue.PendingMigrations(t.Context(), url)
	if err != nil || len(missing) == 0 {
		t.Fatalf("the missing migrations are %v, %v, want some", missing, err)
	}
	// Three replicas migrate at the same time.
	var migrations sync.WaitGroup
	ranByReplica := make([][]string, 3)
	for replica := range ranByReplica {
		migrations.Go(func() {
			var err error
			if ranByReplica[replica], err = queue.Migrate(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	migrations.Wait()
	if got := slices.Concat(ranByReplica...); !slices.Equal(got, missing) {
		t.Errorf("the migrations %v ran, want %v", got, missing)
	}
	if missing, err := queue.PendingMigrations(t.Context(), url); err != nil || len(missing) > 0 {
		t.Errorf("the missing migrations are %v, %v, want none", missing, err)
	}
	openRiver(t, url, contractOptions)
}

// TestPreviousReleaseOpensTheQueueOfANewerRelease checks that a process can use a queue to which a
// newer release applied a migration that the process does not know.
func TestPreviousReleaseOpensTheQueueOfANewerRelease(t *testing.T) {
	url := newMigratedDatabase(t)
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	if _, err := db.Exec(t.Context(), "INSERT INTO tenantry_queue.river_migration (line, version) VALUES ('main', 9999)"); err != nil {
		t.Fatal(err)
	}
	if missing, err := queue.PendingMigrations(t.Context(), url); err != nil || len(missing) > 0 {
		t.Errorf("the missing migrations are %v, %v, want none", missing, err)
	}
	if applied, err := queue.Migrate(t.Context(), url); err != nil || len(applied) > 0 {
		t.Errorf("the migrations %v ran, %v, want none", applied, err)
	}
	r := openRiver(t, url, contractOptions)
	handled := newHandledJobs()
	if err := r.Start(t.Context(), ports.Work{Handlers: map[string]ports.Handler{"job": handled.record}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Wake(t.Context(), ports.Wakeup{Kind: "job", ID: "one", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	handled.waitFor(t, "one")
}

func TestUserWithoutPrivilegesOnTheSchemaIsNotToldToMigrate(t *testing.T) {
	url, role := testserver.Database(t), "reader_"+strings.ToLower(rand.Text())
	if _, err := queue.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	owner, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	if _, err := owner.Exec(t.Context(), "CREATE ROLE "+role); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = owner.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+role) }()
	_, err = queue.OpenRiver(t.Context(), testserver.WithParameter(url, "role="+role), contractOptions)
	if err == nil || !strings.Contains(err.Error(), "permission denied for schema tenantry_queue") {
		t.Errorf("got %v, want an error about the missing privilege", err)
	}
}

func TestOpenRiverErrorDoesNotContainURL(t *testing.T) {
	_, err := queue.OpenRiver(t.Context(), "postgres://tenantry:hunter2@:port/", queue.Options{})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("got %v, want an error without the password", err)
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for name, options := range map[string]queue.Options{
		"rescue at the handler timeout":   {HandlerTimeout: time.Minute, RescueAfter: time.Minute},
		"one handler":                     {MaxHandlers: 1},
		"more handlers than River allows": {MaxHandlers: 10_001},
	} {
		if _, err := queue.NewLocal(options); err == nil {
			t.Errorf("%s: got no error, want a refusal", name)
		}
	}
}

// TestPeriodicWorkRunsOnceForAllReplicas checks with three replicas that each run of a periodic job
// happens once.
func TestPeriodicWorkRunsOnceForAllReplicas(t *testing.T) {
	t.Parallel()
	url := newMigratedDatabase(t)
	replicas := make([]ports.Worker, 3)
	for i := range replicas {
		replicas[i] = openRiver(t, url, contractOptions)
	}
	queuecontract.QueuePeriodic(t, 8, replicas...)
}

// TestFailingPeriodicWorkDoesNotPileUp checks periodic work whose runs all fail. At most one of its
// wake-ups waits, and the work runs again at the next multiple of its interval, without a retry.
func TestFailingPeriodicWorkDoesNotPileUp(t *testing.T) {
	t.Parallel()
	options := contractOptions
	options.RetryDelay = time.Minute // no retry is due during the test
	options.HandlerTimeout, options.RescueAfter = hangTimeout, 2*hangTimeout
	replica := openRiver(t, newMigratedDatabase(t), options)
	runs := make(chan bool, 1000)
	failing := ports.Periodic{Kind: "sweep", Every: 500 * time.Millisecond, Do: func(context.Context) error {
		runs <- true
		return errors.New("the sweep failed")
	}}
	if err := replica.Start(t.Context(), ports.Work{Periodic: []ports.Periodic{failing}}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		select {
		case <-runs:
		case <-time.After(hangTimeout):
			t.Fatalf("the failing work did not run again within %s", hangTimeout)
		}
	}
	backlog, err := replica.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(backlog) > 1 || len(backlog) == 1 && backlog[0].Waiting > 1 {
		t.Errorf("the waiting wake-ups are %+v, want one at most", backlog)
	}
}

// TestWakingDoesNotDeadlockWithHandlersThatEnd wakes the same jobs repeatedly while their handlers
// end. PostgreSQL must end no transaction because of a deadlock.
func TestWakingDoesNotDeadlockWithHandlersThatEnd(t *testing.T) {
	t.Parallel()
	url := newMigratedDatabase(t)
	t.Run("wake", func(t *testing.T) {
		var wakeups []ports.Wakeup
		for i := range 100 {
			wakeups = append(wakeups, ports.Wakeup{Kind: "job", ID: strconv.Itoa(i), Account: access.AccountID(strconv.Itoa(i))})
		}
		var callers sync.WaitGroup
		defer callers.Wait()
		for range 2 {
			replica := openRiver(t, url, contractOptions)
			if err := replica.Start(t.Context(), ports.Work{Handlers: map[string]ports.Handler{"job": func(context.Context, ports.Wakeup) error { return nil }}}); err != nil {
				t.Fatal(err)
			}
			callers.Go(func() {
				for range 200 {
					if err := replica.Wake(t.Context(), wakeups...); err != nil {
						t.Error(err)
					}
				}
			})
		}
	})
	admin, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	// A connection's process in PostgreSQL reports its last deadlocks when the connection is closed,
	// so the test waits until the connections of the replicas are closed.
	for deadline := time.Now().Add(hangTimeout); ; <-time.After(10 * time.Millisecond) {
		var openConnections, deadlocks int
		if err := admin.QueryRow(t.Context(), `
			SELECT deadlocks, (SELECT count(*) FROM pg_stat_activity AS a WHERE a.datname = d.datname AND pid <> pg_backend_pid() AND backend_type = 'client backend')
			FROM pg_stat_database AS d WHERE datname = current_database()`).Scan(&deadlocks, &openConnections); err != nil {
			t.Fatal(err)
		}
		if deadlocks > 0 || openConnections > 0 && time.Now().After(deadline) {
			t.Fatalf("PostgreSQL ended %d transactions because of a deadlock, and %d connections of the replicas are open", deadlocks, openConnections)
		}
		if openConnections == 0 {
			return
		}
	}
}

// TestWakeupsSurviveDatabaseCrash adds one wake-up before a crash of the database and one after it.
// Both must be handled.
func TestWakeupsSurviveDatabaseCrash(t *testing.T) {
	t.Parallel()
	server, err := testserver.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	url := server.URL + "?synchronous_commit=on" // test servers disable it, so the crash could lose the wake-up
	if _, err := queue.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	replica := openRiver(t, url, contractOptions)
	handled := newHandledJobs()
	if err := replica.Start(t.Context(), ports.Work{Handlers: map[string]ports.Handler{"job": handled.record}}); err != nil {
		t.Fatal(err)
	}
	if err := replica.Wake(t.Context(), ports.Wakeup{Kind: "job", ID: "before", At: time.Now().Add(2 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	if err := server.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := replica.Wake(t.Context(), ports.Wakeup{Kind: "job", ID: "after", At: time.Now().Add(3 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	handled.waitFor(t, "before", "after")
}

// TestOpenRiverRefusesAStandby checks that OpenRiver fails on a standby, and that PendingMigrations
// can read the migrations of the standby.
func TestOpenRiverRefusesAStandby(t *testing.T) {
	t.Parallel()
	server, err := testserver.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	url := server.URL + "?synchronous_commit=on" // test servers disable it, so Demote could lose the migrations
	if _, err := queue.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if err := server.Demote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := queue.OpenRiver(t.Context(), url, contractOptions); !errors.Is(err, pgconn.ErrStandbyConnection) {
		t.Errorf("got %v, want %v", err, pgconn.ErrStandbyConnection)
	}
	if missing, err := queue.PendingMigrations(t.Context(), url); err != nil || len(missing) > 0 {
		t.Errorf("the missing migrations are %v, %v, want none", missing, err)
	}
}

// TestQueueReplacesReadOnlyConnections checks that a wake-up is added although the open connections
// refuse writes.
func TestQueueReplacesReadOnlyConnections(t *testing.T) {
	t.Parallel()
	url := newMigratedDatabase(t)
	admin, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	alterDatabase := func(change string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), "ALTER DATABASE "+pgx.Identifier{admin.Config().ConnConfig.Database}.Sanitize()+" "+change); err != nil {
			t.Fatal(err)
		}
	}
	alterDatabase("SET default_transaction_read_only = on") // applies to new connections
	replica := openRiver(t, url, contractOptions)
	alterDatabase("RESET default_transaction_read_only")
	if err := replica.Wake(t.Context(), ports.Wakeup{Kind: "job", ID: "1"}); err != nil {
		t.Errorf("a wake-up was not added: %v", err)
	}
}

// handledJobs records the ids of the jobs that were handled.
type handledJobs struct{ ids chan string }

func newHandledJobs() handledJobs { return handledJobs{make(chan string, 100)} }

func (h handledJobs) record(_ context.Context, w ports.Wakeup) error {
	h.ids <- w.ID
	return nil
}

// waitFor waits until the jobs with these ids were handled.
func (h handledJobs) waitFor(t *testing.T, ids ...string) {
	t.Helper()
	for len(ids) > 0 {
		select {
		case id := <-h.ids:
			ids = slices.DeleteFunc(ids, func(awaited string) bool { return awaited == id })
		case <-time.After(hangTimeout):
			t.Fatalf("no handler ran for %s while the test waited for the jobs %v", hangTimeout, ids)
		}
	}
}

// TestIdleQueueMakesFewTransactions counts the transactions of a replica without work. It measures
// up to 60 periods. One of them must have at most 4 transactions a second. In earlier periods,
// River and the server may do work that they do only once. On a busy machine River may also elect
// its leader again.
func TestIdleQueueMakesFewTransactions(t *testing.T) {
	t.Parallel()
	url := newMigratedDatabase(t)
	db, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	countTransactions := func() (total int) {
		t.Helper()
		const transactions = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
		if err := db.QueryRow(t.Context(), transactions).Scan(&total); err != nil {
			t.Fatal(err)
		}
		return total
	}
	handled := newHandledJobs()
	replica := openRiver(t, url, contractOptions)
	if err := replica.Start(t.Context(), ports.Work{Handlers: map[string]ports.Handler{"job": handled.record}}); err != nil {
		t.Fatal(err)
	}
	if err := replica.Wake(t.Context(), ports.Wakeup{Kind: "job", ID: "1"}, ports.Wakeup{Kind: "job", ID: "2", At: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	handled.waitFor(t, "1")
	const period, maxTransactions, periods = 10 * time.Second, 40, 60
	var counts []int
	for totalBefore := countTransactions(); len(counts) < periods; totalBefore = countTransactions() {
		time.Sleep(period)
		counts = append(counts, countTransactions()-totalBefore)
		if counts[len(counts)-1] <= maxTransactions {
			return
		}
	}
	t.Errorf("an idle queue made %v transactions in periods of %s, want at most %d in one of them", counts, period, maxTransactions)
}
