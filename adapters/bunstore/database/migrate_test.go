// SPDX-License-Identifier: Apache-2.0

package database

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/migrations"
)

func TestPendingListsMissingMigrations(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		d, err := Open(t.Context(), url(t), Options{Timeouts: longTimeouts})
		must(t, "open", err)
		defer func() { _ = d.Close() }()
		before, err := d.PendingMigrations(t.Context())
		if err != nil || len(before) == 0 || !strings.HasSuffix(before[0], "_accounts") {
			t.Fatalf("pending before the migration: %v, %v, want all migrations, beginning with that of the accounts", before, err)
		}
		must(t, "migrate", d.Migrate(t.Context()))
		if after, err := d.PendingMigrations(t.Context()); err != nil || len(after) != 0 {
			t.Fatalf("pending after the migration: %v, %v, want none", after, err)
		}
	})
}

// TestPendingNeedsNoRightToCreateTables checks that a PostgreSQL role that may only read and write
// rows can read which migrations are pending.
func TestPendingNeedsNoRightToCreateTables(t *testing.T) {
	url, role := databasetest.NewSchema(t), "restricted_"+strings.ToLower(rand.Text())
	owner, err := Open(t.Context(), url, Options{Timeouts: longTimeouts})
	must(t, "open", err)
	defer func() { _ = owner.Close() }()
	execSQL(t, owner, "CREATE ROLE "+role)
	defer func() { execSQL(t, owner, "DROP OWNED BY "+role+"; DROP ROLE "+role) }()
	execSQL(t, owner, "DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO "+role+"', current_schema()); END $$")
	restricted, err := Open(t.Context(), url+"&role="+role, Options{Timeouts: longTimeouts})
	must(t, "open", err)
	defer func() { _ = restricted.Close() }()
	if pending, err := restricted.PendingMigrations(t.Context()); err != nil || len(pending) == 0 {
		t.Errorf("pending in an empty schema: %v, %v, want all migrations", pending, err)
	}
	must(t, "migrate as the owner", owner.Migrate(t.Context()))
	execSQL(t, owner, "DO $$ BEGIN EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I TO "+role+"', current_schema()); END $$")
	if pending, err := restricted.PendingMigrations(t.Context()); err != nil || len(pending) != 0 {
		t.Errorf("pending after the migration: %v, %v, want none", pending, err)
	}
}

// TestMigrationsCanRunTwice covers a process that crashes after it ran a migration and before it
// marked the migration as applied.
func TestMigrationsCanRunTwice(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		d := migratedDB(t, url(t))
		execSQL(t, d, "INSERT INTO accounts (account_id, email, plan, active, created_at) VALUES "+
			"('0b0c8a4e-6c3f-4f7e-9d58-0a1b2c3d4e5f', 'ann@example.test', 'complete', TRUE, '2026-01-01')")
		execSQL(t, d, "UPDATE plans SET tenant_slots = 7 WHERE name = 'complete'")
		execSQL(t, d, "DELETE FROM bun_migrations")
		must(t, "migrate", d.Migrate(t.Context()))
		var slots int
		err := d.NewSelect().TableExpr("accounts AS a").Join("JOIN plans AS p ON p.name = a.plan").Column("p.tenant_slots").Scan(t.Context(), &slots)
		if err != nil || slots != 7 {
			t.Fatalf("the plan has %d slots after the second run, want 7 as before (%v)", slots, err)
		}
	})
}

func TestMigrationsRollBackAndRunAgain(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		d := migratedDB(t, url(t))
		set, err := Discover()
		must(t, "discover migrations", err)
		if _, err := d.migrator(set).Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		tables := d.NewSelect().TableExpr("sqlite_master").Column("name").Where("type = 'table'").Where("name NOT LIKE 'sqlite_%'").Where("name NOT LIKE 'bun_%'")
		if IsPostgres(d) {
			tables = d.NewSelect().TableExpr("pg_catalog.pg_tables").Column("tablename").Where("schemaname = current_schema()").Where("tablename NOT LIKE 'bun_%'")
		}
		var remaining []string
		if must(t, "list tables", tables.Scan(t.Context(), &remaining)); len(remaining) != 0 {
			t.Fatalf("after the rollback the tables %v remain, want none", remaining)
		}
		must(t, "migrate", d.Migrate(t.Context()))
	})
}

// TestFailedMigrationReportsThoseBeforeIt checks a migration that fails, because a different table
// already has the name of one of its tables. ApplyMigrations returns the names of the migrations
// before it.
func TestFailedMigrationReportsThoseBeforeIt(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		d, err := Open(t.Context(), url(t), Options{MaxConns: 1, Timeouts: longTimeouts})
		must(t, "open", err)
		defer func() { _ = d.Close() }()
		all, err := d.PendingMigrations(t.Context())
		must(t, "list migrations", err)
		failing := slices.Index(all, "20261123000800_webhooks")
		execSQL(t, d, "CREATE TABLE webhook_deliveries (unrelated INTEGER)")
		applied, err := d.ApplyMigrations(t.Context())
		if err == nil || failing < 1 || !slices.Equal(applied, all[:failing]) {
			t.Fatalf("got %v, %v; want an error and the names %v", applied, err, all[:max(failing, 0)])
		}
		execSQL(t, d, "DROP TABLE webhook_deliveries")
		if applied, err = d.ApplyMigrations(t.Context()); err != nil || !slices.Equal(applied, all[failing:]) {
			t.Fatalf("after the repair: got %v, %v; want the names %v", applied, err, all[failing:])
		}
	})
}

func TestConcurrentProcessesCanMigrate(t *testing.T) {
	databasetest.EachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		const processes = 4
		errs, applied := make([]error, processes), make([][]string, processes)
		var running sync.WaitGroup
		for i := range processes {
			running.Go(func() {
				d, err := Open(t.Context(), address, Options{MaxConns: 1, Timeouts: longTimeouts})
				if err == nil {
					defer func() { _ = d.Close() }()
					applied[i], err = d.ApplyMigrations(t.Context())
				}
				errs[i] = err
			})
		}
		running.Wait()
		must(t, "migrate", errors.Join(errs...))
		if !strings.HasPrefix(address, "postgres") {
			return // processes that share a SQLite file may apply the same migration
		}
		allApplied := slices.Concat(applied...)
		if set, err := Discover(); err != nil || len(allApplied) != len(set.Sorted()) {
			t.Errorf("the processes applied %v, want each migration once (%v)", allApplied, err)
		}
	})
}

func TestDatabaseOfNewerReleaseIsRefused(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		d := migratedDB(t, address)
		setMinRelease := func(release int) { execSQL(t, d, "UPDATE schema_release SET min_release = ?", release) }
		execSQL(t, d, "INSERT INTO bun_migrations (name, group_id) VALUES ('29990101000000', 99)")
		if err := d.Migrate(t.Context()); err != nil {
			t.Fatalf("migrate a database with a migration of the next release: got %v, want success", err)
		}
		setMinRelease(migrations.Release + 1)
		if err := d.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "newer tenantry") {
			t.Fatalf("migrate a database that requires the next release: got %v, want an error about a newer tenantry", err)
		}
		if address == MemoryURL {
			return // a database in memory cannot be opened a second time
		}
		if _, err := Open(t.Context(), address, Options{Timeouts: longTimeouts}); err == nil || !strings.Contains(err.Error(), "newer tenantry") {
			t.Fatalf("open a database that requires the next release: got %v, want an error about a newer tenantry", err)
		}
		setMinRelease(migrations.Release)
		reopened, err := Open(t.Context(), address, Options{Timeouts: longTimeouts})
		if err != nil {
			t.Fatalf("open a database that requires this release: got %v, want success", err)
		}
		_ = reopened.Close()
	})
}
