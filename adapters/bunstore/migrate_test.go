// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/migrations"
)

func execSQL(t testing.TB, s *Store, statement string, args ...any) {
	t.Helper()
	if _, err := s.db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestPendingListsMissingMigrations(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		s, err := Open(t.Context(), url(t), Options{})
		must(t, "open", err)
		defer func() { _ = s.Close() }()
		before, err := s.Pending(t.Context())
		if err != nil || len(before) == 0 || !strings.HasSuffix(before[0], "_accounts") {
			t.Fatalf("before: %v, %v", before, err)
		}
		must(t, "migrate", s.Migrate(t.Context()))
		if after, err := s.Pending(t.Context()); err != nil || len(after) != 0 {
			t.Fatalf("after: %v, %v", after, err)
		}
	})
}

// TestMigrationsCanRunTwice covers a process that crashes between running a migration and marking
// it.
func TestMigrationsCanRunTwice(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		s := migrated(t, url(t))
		if _, err := s.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now()); err != nil {
			t.Fatal(err)
		}
		execSQL(t, s, "UPDATE plans SET tenant_slots = 7 WHERE name = 'complete'")
		execSQL(t, s, "DELETE FROM bun_migrations")
		must(t, "migrate", s.Migrate(t.Context()))
		a, err := s.FindAccount(t.Context(), "ann@example.test")
		if err != nil || a.Plan.TenantSlots != 7 {
			t.Fatalf("got %+v, %v: the migration changed what was there", a, err)
		}
	})
}

func TestMigrationsRollBackAndRunAgain(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		s := migrated(t, url(t))
		m, err := s.migrator()
		must(t, "open migrator", err)
		if _, err := m.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := tables(t, s); len(left) != 0 {
			t.Fatalf("left behind: %v", left)
		}
		must(t, "migrate", s.Migrate(t.Context()))
	})
}

func TestConcurrentProcessesMigrateOnce(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		one := url(t)
		if one == Memory {
			return // only its own Store can open it
		}
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				s, err := Open(t.Context(), one, Options{MaxConns: 1})
				if err == nil {
					defer func() { _ = s.Close() }()
					err = s.Migrate(t.Context())
				}
				errs[i] = err
			})
		}
		wg.Wait()
		for _, err := range errs {
			must(t, "migrate", err)
		}
	})
}

func TestDatabaseOfNewerReleaseIsRefused(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		one := url(t)
		s := migrated(t, one)
		mark := func(oldest int) { execSQL(t, s, "UPDATE schema_release SET min_release = ?", oldest) }
		execSQL(t, s, "INSERT INTO bun_migrations (name, group_id) VALUES ('29990101000000', 99)")
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatalf("one release behind: %v", err)
		}
		mark(migrations.Release + 1)
		if err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "newer tenantry") {
			t.Fatalf("migrate: %v", err)
		}
		if one == Memory {
			return
		}
		if _, err := Open(t.Context(), one, Options{}); err == nil || !strings.Contains(err.Error(), "newer tenantry") {
			t.Fatalf("open: %v", err)
		}
		mark(migrations.Release)
		again, err := Open(t.Context(), one, Options{})
		if err != nil {
			t.Fatalf("open at its own release: %v", err)
		}
		_ = again.Close()
	})
}

// TestPlansAreSeeded checks that the plans in core match those in the database.
func TestPlansAreSeeded(t *testing.T) {
	s := migrated(t, Memory)
	var rows []struct {
		Name         string
		TenantSlots  int
		AutomaticDNS bool `bun:"automatic_dns"`
	}
	must(t, "list plans", s.db.NewSelect().TableExpr("plans").Scan(t.Context(), &rows))
	var plans []access.Plan
	for _, r := range rows {
		plans = append(plans, access.Plan(r))
	}
	for _, want := range access.Plans() {
		if !slices.Contains(plans, want) {
			t.Errorf("plan %+v is not in the database: %+v", want, plans)
		}
	}
	if len(plans) != len(access.Plans()) {
		t.Errorf("the database has %d plans, core %d", len(plans), len(access.Plans()))
	}
}

// TestPrimaryKeysBeginWithAccount checks that every table but these leads with account_id. A
// PostgreSQL cluster can then shard by account.
func TestPrimaryKeysBeginWithAccount(t *testing.T) {
	shared := []string{"api_keys", "api_key_uses", "api_key_bounds", "api_key_old_secrets", "tenant_holders", "plans", "schema_release"}
	s := migrated(t, Memory)
	for _, table := range tables(t, s) {
		var key string
		err := s.db.NewSelect().TableExpr("pragma_table_info(?)", table).Column("name").Where("pk = 1").Scan(t.Context(), &key)
		must(t, "read key", err)
		if !slices.Contains(shared, table) && key != "account_id" {
			t.Errorf("the key of %s leads with %s", table, key)
		}
	}
}

// tables returns the schema's own tables.
func tables(t testing.TB, s *Store) []string {
	t.Helper()
	q := s.db.NewSelect().TableExpr("sqlite_master").Column("name").Where("type = 'table' AND name NOT LIKE 'sqlite_%'")
	if s.postgres() {
		q = s.db.NewSelect().TableExpr("information_schema.tables").ColumnExpr("table_name AS name").Where("table_schema = current_schema()")
	}
	var names []string
	must(t, "list tables", q.Where("? NOT LIKE 'bun_%'", bun.Ident(map[bool]string{true: "table_name", false: "name"}[s.postgres()])).Scan(t.Context(), &names))
	return names
}
