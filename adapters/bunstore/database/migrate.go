// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/migrate"

	"github.com/tenantry/tenantry/migrations"
)

// migrationLock is the key of the advisory lock of PostgreSQL that a process holds while it
// migrates, so that only one process migrates at a time. The number is arbitrary.
const migrationLock = 7_365_001_827_364_501

// Migrate is ApplyMigrations for callers that do not need the names.
func (d *DB) Migrate(ctx context.Context) error {
	_, err := d.ApplyMigrations(ctx)
	return err
}

// ApplyMigrations applies the migrations that the database lacks, and returns their names. If a
// migration fails, it also returns the names of those before it. If processes migrate a PostgreSQL
// database at the same time, only one of them gets each name. ApplyMigrations fails with ErrTooOld
// if the schema requires a newer release.
func (d *DB) ApplyMigrations(ctx context.Context) ([]string, error) {
	unlock, err := d.lockMigrations(ctx)
	if err != nil {
		return nil, Wrap(ctx, "lock migrations", err)
	}
	defer unlock()
	if err := d.checkRelease(ctx); err != nil {
		return nil, err
	}
	set, err := Discover()
	if err != nil {
		return nil, err
	}
	names, err := d.PendingMigrations(ctx)
	if err != nil {
		return nil, err
	}
	m := d.migrator(set)
	// Two processes that start on one SQLite file may both migrate it. That is safe, because Init
	// and the migrations can run twice.
	err = d.retry(ctx, "migrate", func() error {
		if err := m.Init(ctx); err != nil {
			return err
		}
		applied, err := m.Migrate(ctx)
		if err != nil {
			return err
		}
		if !applied.IsZero() {
			d.log.InfoContext(ctx, "database migrated", "migrations", len(applied.Migrations))
		}
		return nil
	})
	if err == nil {
		return names, nil
	}
	var remaining []string
	// The cause of err may be that ctx has ended, for example because the command was interrupted.
	readErr := withTimeout(context.WithoutCancel(ctx), d.timeouts.Query, func(ctx context.Context) (err error) {
		remaining, err = d.PendingMigrations(ctx)
		return err
	})
	if readErr != nil {
		return nil, errors.Join(err, readErr)
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(remaining, name) }), err
}

// PendingMigrations returns the names of the migrations that this release has and the database
// lacks. It only reads, because the service's database user may lack the right to create tables.
func (d *DB) PendingMigrations(ctx context.Context) ([]string, error) {
	set, err := Discover()
	if err != nil {
		return nil, err
	}
	var names []string
	err = d.retry(ctx, "read migrations", func() error {
		names = nil
		status := set.Sorted()
		migrated, err := HasTable(ctx, d, "bun_migrations")
		if err == nil && migrated {
			status, err = d.migrator(set).MigrationsWithStatus(ctx)
		}
		if err != nil {
			return err
		}
		for _, migration := range status.Unapplied() {
			names = append(names, migration.Name+"_"+migration.Comment)
		}
		return nil
	})
	return names, err
}

// Discover returns the migrations of this release.
func Discover() (*migrate.Migrations, error) {
	set := migrate.NewMigrations()
	if err := set.Discover(migrations.Files); err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return set, nil
}

func (d *DB) migrator(set *migrate.Migrations) *migrate.Migrator {
	types := map[string]string{"uuid": "text", "ts": "timestamp", "json": "text", "bytes": "blob"}
	if IsPostgres(d) {
		types = map[string]string{"uuid": "uuid", "ts": "timestamptz", "json": "jsonb", "bytes": "bytea"}
	}
	// WithMarkAppliedOnSuccess marks a migration as applied after it ran. By default bun marks a
	// migration before it runs, so a migration that failed would count as applied.
	return migrate.NewMigrator(d.DB, set, migrate.WithTemplateData(types),
		migrate.WithMarkAppliedOnSuccess(true), migrate.WithUpsert(true))
}

func (d *DB) lockMigrations(ctx context.Context) (unlock func(), err error) {
	if !IsPostgres(d) {
		return func() {}, nil
	}
	conn, err := d.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.NewRaw("SELECT pg_advisory_lock(?)", migrationLock).Exec(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return func() {
		// The connection returns to the pool and would keep the lock. The unlock must therefore run
		// even if ctx has ended.
		_, _ = conn.NewRaw("SELECT pg_advisory_unlock(?)", migrationLock).Exec(context.WithoutCancel(ctx))
		_ = conn.Close()
	}, nil
}

// ErrTooOld reports that the schema requires a newer release than this binary.
var ErrTooOld = errors.New("this tenantry is too old for the database")

// checkRelease returns ErrTooOld if the schema requires a newer release. A migration that this
// binary does not know is not an error: each release also runs on the schema of the next release.
func (d *DB) checkRelease(ctx context.Context) error {
	var requiredRelease []int
	err := d.RunRead(ctx, "read the schema's release", func(ctx context.Context, db bun.IDB) error {
		exists, err := HasTable(ctx, db, "schema_release")
		if err != nil || !exists {
			return err
		}
		return db.NewSelect().TableExpr("schema_release").Column("min_release").Scan(ctx, &requiredRelease)
	})
	if err != nil {
		return err
	}
	if len(requiredRelease) > 0 && requiredRelease[0] > migrations.Release {
		return fmt.Errorf("%w: it was migrated by a newer tenantry and requires schema release %d or later, this one has %d",
			ErrTooOld, requiredRelease[0], migrations.Release)
	}
	return nil
}

// HasTable reports whether the schema has a table.
func HasTable(ctx context.Context, db bun.IDB, name string) (bool, error) {
	q := db.NewSelect().TableExpr("sqlite_master").Where("type = 'table' AND name = ?", name)
	if IsPostgres(db) {
		q = db.NewSelect().TableExpr("pg_catalog.pg_class").Where("oid = to_regclass(?)", name)
	}
	return q.Exists(ctx)
}
