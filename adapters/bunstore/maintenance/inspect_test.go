// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
)

func openInspection(t testing.TB, url string) *Inspection {
	t.Helper()
	i, err := Inspect(t.Context(), url)
	must(t, "inspect", err)
	t.Cleanup(func() { _ = i.Close() })
	return i
}

func TestInspectReportsMigrations(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		if address == database.MemoryURL {
			return // a database in memory cannot be opened a second time
		}
		db, err := database.Open(t.Context(), address, database.Options{})
		must(t, "open", err)
		defer func() { _ = db.Close() }()
		i := openInspection(t, address)
		if m, err := i.Migrations(t.Context()); err != nil || len(m.Pending) == 0 || m.Applied != 0 {
			t.Fatalf("an empty database: got %+v, %v, want only pending migrations", m, err)
		}
		if sealed, err := i.HasSealedValues(t.Context()); err != nil || sealed {
			t.Fatalf("an empty database: got %v, %v, want no encrypted values", sealed, err)
		}
		if exists, err := database.HasTable(t.Context(), db, "bun_migrations"); err != nil || exists {
			t.Fatalf("the inspection created a table: %v, %v", exists, err)
		}
		must(t, "writable", i.Writable(t.Context()))
		must(t, "migrate", db.Migrate(t.Context()))
		if m, err := i.Migrations(t.Context()); err != nil || len(m.Pending) != 0 || m.Applied == 0 || m.RequiredRelease != 0 {
			t.Fatalf("a migrated database: got %+v, %v, want only applied migrations", m, err)
		}
		execSQL(t, db, "INSERT INTO bun_migrations (name, group_id, migrated_at) VALUES ('29990101000000', 9, current_timestamp)")
		execSQL(t, db, "UPDATE schema_release SET min_release = 99")
		if m, err := i.Migrations(t.Context()); err != nil || len(m.Newer) != 1 || m.RequiredRelease != 99 {
			t.Fatalf("a database of a newer release: got %+v, %v, want one newer migration and release 99", m, err)
		}
		must(t, "writable", i.Writable(t.Context()))
		started := time.Now()
		skew, known, err := i.ClockSkew(t.Context())
		if err != nil || known != database.IsPostgres(db) || skew.Abs() > time.Since(started) { // both use the machine's clock
			t.Fatalf("the server's clock is %s ahead (known: %v), %v, want less than the call took, known only for PostgreSQL", skew, known, err)
		}
	})
}

func TestInspectDoesNotChangeDatabase(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tenantry.db")
	if _, err := Inspect(t.Context(), "sqlite://"+path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("inspecting a missing file returned %v, want %v", err, fs.ErrNotExist)
	}
	db := migratedDB(t, "sqlite://"+path)
	must(t, "close", db.Close())
	before, err := os.ReadFile(path)
	must(t, "read file", err)
	i, err := Inspect(t.Context(), "sqlite://"+path)
	if err != nil || i.Journal != "wal" || i.Mode != 0o600 || i.Version == "" {
		t.Fatalf("the inspection is %+v, %v, want the journal wal, the mode 0600 and a version", i, err)
	}
	must(t, "write and close", errors.Join(i.Writable(t.Context()), i.Close()))
	after, err := os.ReadFile(path)
	files, _ := os.ReadDir(dir)
	if err != nil || string(before) != string(after) || len(files) != 1 {
		t.Fatalf("the inspection changed the database, or left more than one file: %v, %v", err, files)
	}
}

// TestFullDiskIsNotWritable limits the size of the SQLite file, which causes the same error as a
// full disk. With enough space, the check leaves no table in any database.
func TestFullDiskIsNotWritable(t *testing.T) {
	databasetest.EachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		db := migratedDB(t, address)
		before, err := Tables(t.Context(), db)
		must(t, "list tables", err)
		i := openInspection(t, address)
		must(t, "writable", i.Writable(t.Context()))
		if after, err := Tables(t.Context(), db); err != nil || len(after) != len(before) {
			t.Errorf("the check changed the tables from %v to %v (%v)", before, after, err)
		}
		if database.IsPostgres(db) {
			return
		}
		if _, err := i.db.ExecContext(t.Context(), "PRAGMA max_page_count = 1"); err != nil { // SQLite raises the limit to the current size
			t.Fatal(err)
		}
		if err := i.Writable(t.Context()); !errors.Is(err, database.ErrDiskFull) {
			t.Errorf("on a full disk: got %v, want %v", err, database.ErrDiskFull)
		}
	})
	if err := database.OperatorError(&pgconn.PgError{Code: "53100", Message: "could not extend file"}); !errors.Is(err, database.ErrDiskFull) {
		t.Errorf("PostgreSQL on a full disk: got %v, want %v", err, database.ErrDiskFull)
	}
}

func TestInspectErrorsContainCauseAndNoPassword(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage.db")
	must(t, "write file", os.WriteFile(garbage, []byte(strings.Repeat("no database ", 100)), 0o600))
	for url, wantText := range map[string]string{
		"sqlite://" + garbage:                  "not a database",
		"postgres://ann:hunter2@127.0.0.1:1/x": "does not answer at 127.0.0.1:1: connect: connection refused",
		"postgres://ann:hunter2@db.invalid/x":  "does not answer at db.invalid:5432: its name does not resolve",
		"mysql://ann:hunter2@127.0.0.1:1/x":    "sqlite:///path",
	} {
		_, err := Inspect(t.Context(), url)
		if err == nil || !strings.Contains(err.Error(), wantText) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got the error %v, want one with %q and without the password", url, err, wantText)
		}
	}
}
