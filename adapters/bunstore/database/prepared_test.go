// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// prepareRead returns a function that reads the plan named complete with a prepared read.
func prepareRead(d *DB) func(ctx context.Context) error {
	preparedRead := NewPreparedRead(d.NewSelect().TableExpr("plans").Column("tenant_slots", "name").Where("name = ?", PreparedArg).Where("tenant_slots >= ?", PreparedArg2))
	return func(ctx context.Context) error {
		return d.RunRead(ctx, "read", func(ctx context.Context, _ bun.IDB) error {
			rows := 0
			err := d.ReadPrepared(ctx, preparedRead, func(r Row) error {
				var slots int
				var name string
				rows++
				return r.Scan(&slots, &name)
			}, "complete", 0)
			if err == nil && rows != 1 {
				return fmt.Errorf("the read returned %d rows, want 1", rows)
			}
			return err
		})
	}
}

// TestPreparedReadSurvivesMigration changes the table of a prepared read, as a migration of the
// next release would, and reads twice after each change.
func TestPreparedReadSurvivesMigration(t *testing.T) {
	d := migratedDB(t, databasetest.NewSchema(t))
	read := prepareRead(d)
	readOnce := func() {
		t.Helper()
		must(t, "read", read(t.Context()))
	}
	for _, change := range []string{
		"SELECT 1", // no change, so that the first reads prepare the statement
		"ALTER TABLE plans ADD COLUMN later text", "ALTER TABLE plans ALTER COLUMN name TYPE varchar(400)",
	} {
		if _, err := d.ExecContext(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		readOnce()
		readOnce()
	}
}

// TestPreparedReadSurvivesDeadConnections ends the connections of a pool, like a restart of the
// server. The next read must succeed. The test needs its own database, because it ends all
// connections to the database except its own.
func TestPreparedReadSurvivesDeadConnections(t *testing.T) {
	url := testserver.Database(t)
	d, terminator := migratedDB(t, url), migratedDB(t, url)
	read := prepareRead(d)
	const poolSize = 4
	d.SetMaxIdleConns(poolSize)
	for range 2 { // the driver does not check a connection that was reused in the last second
		var conns []*sql.Conn
		for range poolSize {
			conn, err := d.DB.DB.Conn(t.Context())
			must(t, "open connection", err)
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			if err := conn.Close(); err != nil { // back into the pool
				t.Fatal(err)
			}
		}
	}
	var ended int
	err := terminator.NewRaw("SELECT COUNT(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity "+
		"WHERE datname = current_database() AND pid <> pg_backend_pid()").Scan(t.Context(), &ended)
	if err != nil || ended < poolSize {
		t.Fatalf("%d connections were ended, want at least %d (%v)", ended, poolSize, err)
	}
	must(t, "read after the connections ended", read(t.Context()))
}

func TestExecModeOfURLDisablesPreparedStatements(t *testing.T) {
	for _, tc := range []struct {
		query        string
		wantPrepared bool
	}{{"", true}, {"&default_query_exec_mode=exec", false}} {
		d := migratedDB(t, databasetest.NewSchema(t)+tc.query)
		d.SetMaxOpenConns(1) // so that all statements use the same connection
		read := prepareRead(d)
		for range 2 {
			must(t, "read", read(t.Context()))
		}
		var isPrepared bool
		if err := d.NewRaw("SELECT EXISTS (SELECT 1 FROM pg_prepared_statements)").Scan(t.Context(), &isPrepared); err != nil || isPrepared != tc.wantPrepared {
			t.Errorf("URL with %q: the statement is prepared: %v, want %v (%v)", tc.query, isPrepared, tc.wantPrepared, err)
		}
	}
}
