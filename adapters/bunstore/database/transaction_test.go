// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/fault"
)

func TestPostgresErrorsAreClassified(t *testing.T) {
	for code, want := range map[string]error{
		"23505": ErrDuplicate, "23503": ErrMissingParent, "40001": errConflict, "40P01": errConflict, "55P03": errConflict,
		"57P01": errUnavailable, "57P03": errUnavailable, "53100": errUnavailable, "53200": errUnavailable, "53300": errUnavailable, "58030": errUnavailable,
		"08006": errUnavailable, "25006": errUnavailable, "42601": nil, "22P02": nil,
	} {
		if got := kindOf(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code})); !errors.Is(got, want) {
			t.Errorf("the kind of SQLSTATE %s is %v, want %v", code, got, want)
		}
	}
}

func TestConnectionErrorsAreClassified(t *testing.T) {
	for _, err := range []error{driver.ErrBadConn, io.ErrUnexpectedEOF, io.EOF, new(pgconn.ConnectError)} {
		if got := kindOf(fmt.Errorf("wrapped: %w", err)); !errors.Is(got, errUnavailable) {
			t.Errorf("the kind of %v is %v, want %v", err, got, errUnavailable)
		}
	}
}

func TestConstraintErrorsAreClassified(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		d := migratedDB(t, url(t))
		for statement, want := range map[string]error{
			"INSERT INTO plans (name, tenant_slots, automatic_dns) VALUES ('complete', 1, TRUE)": ErrDuplicate,
			"INSERT INTO members (account_id, email, created_at) VALUES " +
				"('00000000-0000-0000-0000-000000000000', 'x', '2026-01-01')": ErrMissingParent,
			"SELECT nonsense FROM nowhere": nil,
		} {
			_, err := d.ExecContext(t.Context(), statement)
			if got := kindOf(err); err == nil || !errors.Is(got, want) {
				t.Errorf("%s: the kind of %v is %v, want %v", statement, err, got, want)
			}
		}
	})
}

func TestRetryRepeatsTransientErrors(t *testing.T) {
	conflict := &pgconn.PgError{Code: "40001"}
	refusal := fault.TenantNotFound.With("no")
	for _, tc := range []struct {
		name      string
		errs      []error // the errors of the first attempts, after which all attempts succeed
		wantTries int
		wantErr   error
	}{
		{"success", nil, 1, nil},
		{"one conflict", []error{conflict}, 2, nil},
		{"two conflicts", []error{conflict, conflict}, 3, nil},
		{"a conflict in each attempt", []error{conflict, conflict, conflict}, 3, fault.ServiceUnavailable},
		{"a duplicate is retried", []error{&pgconn.PgError{Code: "23505"}}, 2, nil},
		{"a missing parent is retried", []error{&pgconn.PgError{Code: "23503"}}, 2, nil},
		{"a refusal is not retried", []error{refusal}, 1, fault.TenantNotFound},
		{"a lost connection is not retried", []error{io.EOF}, 1, fault.ServiceUnavailable},
		{"a refused password is not retried", []error{&pgconn.PgError{Code: "28P01"}}, 1, fault.ServiceUnavailable},
		{"a missing database is not retried", []error{&pgconn.PgError{Code: "3D000"}}, 1, fault.ServiceUnavailable},
		{"an invalid statement is not retried", []error{&pgconn.PgError{Code: "42601"}}, 1, &pgconn.PgError{Code: "42601"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tries := 0
			err := migratedDB(t, MemoryURL).retry(t.Context(), "test", func() error {
				tries++
				if tries <= len(tc.errs) {
					return tc.errs[tries-1]
				}
				return nil
			})
			if tries != tc.wantTries {
				t.Errorf("got %d tries, want %d", tries, tc.wantTries)
			}
			if fault.ErrorOf(err).Code != fault.ErrorOf(tc.wantErr).Code || (err == nil) != (tc.wantErr == nil) {
				t.Errorf("got %v, want %v", err, tc.wantErr)
			}
		})
	}
}

func TestRetryStopsWhenContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := migratedDB(t, MemoryURL).retry(ctx, "test", func() error {
		tries++
		cancel()
		return &pgconn.PgError{Code: "40001"}
	})
	if !errors.Is(err, context.Canceled) || tries != 1 {
		t.Fatalf("got %v after %d tries, want %v after 1", err, tries, context.Canceled)
	}
}

// transactionRunner returns a function that runs work in one transaction, with the slots and
// retries of RetryWrite.
func transactionRunner(d *DB) func(context.Context, string, Func) error {
	return func(ctx context.Context, operation string, work Func) error {
		return d.RetryWrite(ctx, operation, func() error { return d.Transaction(ctx, work) })
	}
}

// TestDeadlockIsRetried runs two transactions that wait for each other. PostgreSQL aborts one of
// the two transactions, and RetryWrite runs the aborted transaction again.
func TestDeadlockIsRetried(t *testing.T) {
	d := migratedDB(t, databasetest.NewSchema(t))
	var firstUpdates sync.WaitGroup
	firstUpdates.Add(2)
	errs := make(chan error, 2)
	for _, order := range [][]string{{"complete", "api_scale"}, {"api_scale", "complete"}} {
		go func() {
			waitForBoth := sync.OnceFunc(func() { firstUpdates.Done(); firstUpdates.Wait() })
			errs <- transactionRunner(d)(t.Context(), "deadlock", func(ctx context.Context, tx bun.IDB) error {
				for _, plan := range order {
					if _, err := tx.NewRaw("UPDATE plans SET tenant_slots = tenant_slots + 1 WHERE name = ?", plan).Exec(ctx); err != nil {
						return err
					}
					waitForBoth()
				}
				return nil
			})
		}()
	}
	for range 2 {
		must(t, "transaction", <-errs)
	}
	var slots int
	if err := d.NewSelect().TableExpr("plans").Column("tenant_slots").Where("name = 'complete'").Scan(t.Context(), &slots); err != nil || slots != 102 {
		t.Fatalf("the plan has %d slots, want 102: the 100 of the migration and one from each transaction (%v)", slots, err)
	}
}

// TestHangingDatabaseIsUnavailable checks that a call fails with service_unavailable if the
// database hangs. A call whose context has a shorter deadline fails with context.DeadlineExceeded.
func TestHangingDatabaseIsUnavailable(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		d := migratedDB(t, url(t))
		// SQLite ignores an interruption that arrives just before the statement begins. An endless
		// statement would then never stop. So the statement is finite, and hang repeats it.
		slowQuery := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000000) SELECT count(*) FROM n"
		if IsPostgres(d) {
			slowQuery = "SELECT pg_sleep(3600)"
		}
		hang := func(ctx context.Context, db bun.IDB) (err error) {
			for range 5 {
				if _, err = db.ExecContext(ctx, slowQuery); err != nil {
					break
				}
			}
			return err
		}
		d.timeouts.Query = 50 * time.Millisecond
		for name, attempt := range map[string]func(context.Context, string, Func) error{"read": d.RunRead, "transaction": transactionRunner(d)} {
			if err := attempt(t.Context(), "hang", hang); fault.ErrorOf(err).Code != fault.ServiceUnavailable || fault.ErrorOf(err).RetryAfter == 0 {
				t.Errorf("%s: got %v, want service_unavailable with a time to retry", name, err)
			}
			shortCtx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if err := attempt(shortCtx, "hang", hang); !errors.Is(err, context.DeadlineExceeded) || fault.ErrorOf(err).Code != fault.InternalError {
				t.Errorf("%s with a shorter deadline of the caller: got %v, want %v", name, err, context.DeadlineExceeded)
			}
			cancel()
		}
		d.timeouts.Query = hangTimeout
		if err := d.Ping(t.Context()); err != nil {
			t.Errorf("ping after the hang: got %v, want success", err)
		}
	})
}

func TestUnavailableFaultsNameTheirCause(t *testing.T) {
	d := migratedDB(t, databasetest.NewFile(t))
	d.timeouts.Slot = time.Millisecond
	failing := func(err error) Func { return func(context.Context, bun.IDB) error { return err } }
	requireDetail := func(want string, err error) {
		t.Helper()
		if got := fault.ErrorOf(err); got.Code != fault.ServiceUnavailable || got.Detail != want {
			t.Errorf("got %v, want service_unavailable with the detail %q", err, want)
		}
	}
	requireDetail("the database does not answer right now", d.RunRead(t.Context(), "lost", failing(io.EOF)))
	requireDetail("other changes in the database conflict with this request right now",
		d.RunRead(t.Context(), "conflict", failing(&pgconn.PgError{Code: "40001"})))
	d.writeSlot <- struct{}{} // takes the only slot
	requireDetail("the database is busy with the changes of other requests right now", d.RunWrite(t.Context(), "write", failing(nil)))
	d.connSlots = make(chan struct{}) // no slot becomes free
	requireDetail("all connections to the database are in use right now", d.RunRead(t.Context(), "read", failing(nil)))
}

// TestSQLiteWritersWaitForEachOther checks that a write waits for the writer that holds the write
// slot, and that a read does not wait.
func TestSQLiteWritersWaitForEachOther(t *testing.T) {
	d := migratedDB(t, databasetest.NewFile(t))
	d.writeSlot <- struct{}{}
	shortCtx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	write := func(ctx context.Context, db bun.IDB) error {
		_, err := db.ExecContext(ctx, "UPDATE plans SET tenant_slots = 7")
		return err
	}
	if err := d.RunWrite(shortCtx, "write", write); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a write while the write slot is taken: got %v, want %v", err, context.DeadlineExceeded)
	}
	must(t, "ping while the write slot is taken", d.Ping(t.Context()))
	<-d.writeSlot
	must(t, "write after the slot became free", d.RunWrite(t.Context(), "write", write))
}
