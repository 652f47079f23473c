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
	inspection, err := Inspect(t.Context(), url)
	must(t, "inspect", err)
	t.Cleanup(func() { _ = inspection.Close() })
	return inspection
}

func TestInspectReportsMigrations(t *testing.T) {
	databasetest.EachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		db, err := database.Open(t.Context(), address, database.Options{Timeouts: longTimeouts})
		must(t, "open", err)
		defer func() { _ = db.Close() }()
		inspection := openInspection(t, address)
		if migrations, err := inspection.Migrations(t.Context()); err != nil || len(migrations.Pending) == 0 || migrations.Applied != 0 {
			t.Fatalf("an empty database: got %+v, %v, want only pending migrations", migrations, err)
		}
		if sealed, err := inspection.HasSealedValues(t.Context()); err != nil || sealed {
			t.Fatalf("an empty database: HasSealedValues returned %v, %v, want no encrypted values", sealed, err)
		}
		if exists, err := database.HasTable(t.Context(), db, "bun_migrations"); err != nil || exists {
			t.Fatalf("the table bun_migrations exists after the inspection: %v, want false (%v)", exists, err)
		}
		must(t, "writable", inspection.Writable(t.Context()))
		must(t, "migrate", db.Migrate(t.Context()))
		if migrations, err := inspection.Migrations(t.Context()); err != nil || len(migrations.Pending) != 0 || migrations.Applied == 0 || migrations.RequiredRelease != 0 {
			t.Fatalf("a migrated database: got %+v, %v, want only applied migrations", migrations, err)
		}
		execSQL(t, db, "INSERT INTO bun_migrations (name, group_id, migrated_at) VALUES ('29990101000000', 9, current_timestamp)")
		execSQL(t, db, "UPDATE schema_release SET min_release = 99")
		if migrations, err := inspection.Migrations(t.Context()); err != nil || len(migrations.Newer) != 1 || migrations.RequiredRelease != 99 {
			t.Fatalf("a database of a newer release: got %+v, %v, want one newer migration and release 99", migrations, err)
		}
		must(t, "writable", inspection.Writable(t.Context()))
		started := time.Now()
		skew, known, err := inspection.ClockSkew(t.Context())
		if err != nil || known != database.IsPostgres(db) || skew.Abs() > time.Since(started) { // the server and the test read the same clock
			t.Fatalf("the clock of the server is %s ahead (known: %v, error: %v), want less than the duration of the call, and known only for PostgreSQL", skew, known, err)
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
	inspection, err := Inspect(t.Context(), "sqlite://"+path)
	if err != nil || inspection.Journal != "wal" || inspection.Mode != 0o600 || inspection.Version == "" {
		t.Fatalf("the inspection is %+v, %v, want the journal wal, the mode 0600 and a version", inspection, err)
	}
	must(t, "write and close", errors.Join(inspection.Writable(t.Context()), inspection.Close()))
	after, err := os.ReadFile(path)
	files, _ := os.ReadDir(dir)
	if err != nil || string(before) != string(after) || len(files) != 1 {
		t.Fatalf("after the inspection, the file changed: %v, the files are %v (%v); want one unchanged file", string(before) != string(after), files, err)
	}
}

// TestFullDiskIsNotWritable limits the size of the SQLite file, which causes the same error as a
// full disk. It also checks that Writable leaves no table if the disk has space.
func TestFullDiskIsNotWritable(t *testing.T) {
	databasetest.EachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		db := migratedDB(t, address)
		before, err := Tables(t.Context(), db)
		must(t, "list tables", err)
		inspection := openInspection(t, address)
		must(t, "writable", inspection.Writable(t.Context()))
		if after, err := Tables(t.Context(), db); err != nil || len(after) != len(before) {
			t.Errorf("after the check, the tables are %v, want %v as before (%v)", after, before, err)
		}
		if database.IsPostgres(db) {
			return
		}
		if _, err := inspection.db.ExecContext(t.Context(), "PRAGMA max_page_count = 1"); err != nil { // SQLite raises the limit to the current size
			t.Fatal(err)
		}
		if err := inspection.Writable(t.Context()); !errors.Is(err, database.ErrDiskFull) {
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
