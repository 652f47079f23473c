// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// ErrNotMigrated means that a database lacks migrations of the queue.
var ErrNotMigrated = errors.New("the queue's migrations are missing")

// migrationLock is the PostgreSQL advisory lock that serializes concurrent migrations. The number
// is arbitrary.
const migrationLock = 7_365_001_827_364_502

// wakeupTable is the name of the table of wake-ups, and of the migration that creates the table.
const wakeupTable = "wakeup"

// Migrate creates the schema and the table of wake-ups, and applies the missing migrations of
// River's tables. It returns the names of the migrations that were missing. Processes may call it
// at the same time.
func Migrate(ctx context.Context, url string) (missing []string, err error) {
	pool, err := connect(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return err
		}
		if missing, err = missingMigrations(ctx, pool); err != nil || len(missing) == 0 {
			return err
		}
		if err := createSchema(ctx, pool); err != nil {
			return err
		}
		m, err := migrator(pool)
		if err != nil {
			return err
		}
		if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return err
		}
		_, err = pool.Exec(ctx, createWakeups)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("migrate the queue: %w", err)
	}
	return missing, nil
}

// createSchema creates the schema if it does not exist. It does not use IF NOT EXISTS, because
// PostgreSQL would require the right to create schemas even if the schema exists.
func createSchema(ctx context.Context, pool *pgxpool.Pool) error {
	var exists bool
	err := pool.QueryRow(ctx, "SELECT to_regnamespace($1) IS NOT NULL", schema).Scan(&exists)
	if err == nil && !exists {
		_, err = pool.Exec(ctx, "CREATE SCHEMA "+schema)
	}
	if err != nil {
		return fmt.Errorf("create the schema %s: %w", schema, err)
	}
	return nil
}

// PendingMigrations returns the names of the migrations that a database lacks.
func PendingMigrations(ctx context.Context, url string) ([]string, error) {
	pool, err := connect(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return missingMigrations(ctx, pool)
}

// missingMigrations ignores applied migrations that this release does not know, because the
// previous release must work on the schema of the next one. It therefore makes a dry run:
// ExistingVersions of River fails if a migration is unknown.
func missingMigrations(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	m, err := migrator(pool)
	if err != nil {
		return nil, err
	}
	dryRun, err := m.Migrate(ctx, rivermigrate.DirectionUp, &rivermigrate.MigrateOpts{DryRun: true})
	if err != nil {
		return nil, fmt.Errorf("read the queue's migrations: %w", err)
	}
	var names []string
	for _, v := range dryRun.Versions {
		names = append(names, fmt.Sprintf("river_%03d", v.Version))
	}
	// The name includes the schema, so that PostgreSQL returns an error if the user may not use the
	// schema. A name without the schema would only not be found, and the table would count as
	// missing.
	var exists bool
	if err := pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", schema+"."+wakeupTable).Scan(&exists); err != nil {
		return nil, fmt.Errorf("read the queue's migrations: %w", err)
	}
	if !exists {
		names = append(names, wakeupTable)
	}
	return names, nil
}

func migrator(pool *pgxpool.Pool) (*rivermigrate.Migrator[pgx.Tx], error) {
	return rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
}
