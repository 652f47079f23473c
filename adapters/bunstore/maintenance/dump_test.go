// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
)

// TestDumpRestoresEveryTableIntoBothDatabases restores a dump of each kind of database into the
// other kind. The dump includes every table of the schema, so the test also covers the tables of later
// migrations.
func TestDumpRestoresEveryTableIntoBothDatabases(t *testing.T) {
	postgres1, sqlite, postgres2 := migratedDB(t, databasetest.NewSchema(t)), migratedDB(t, databasetest.NewFile(t)), migratedDB(t, databasetest.NewSchema(t))
	fillEmptyTables(t, postgres1)
	want := dump(t, postgres1)
	tables, err := Tables(t.Context(), postgres1)
	must(t, "list tables", err)
	if len(want.tables) != len(tables) || len(tables) < 10 {
		t.Fatalf("the dump has %d of the %d tables, want all and at least 10: %v", len(want.tables), len(tables), tables)
	}
	for _, table := range want.tables {
		if len(want.rows[table.Name]) == 0 {
			t.Errorf("the dump has no row of %s", table.Name)
		}
	}
	must(t, "load", want.load(t.Context(), sqlite))
	sqliteDump := dump(t, sqlite)
	must(t, "load", sqliteDump.load(t.Context(), postgres2))
	for name, rows := range dump(t, postgres2).comparableRows() {
		if rows != want.comparableRows()[name] {
			t.Errorf("the rows of %s were\n%s\nand after two restores they are\n%s", name, want.comparableRows()[name], rows)
		}
	}
	if !maps.Equal(want.comparableRows(), sqliteDump.comparableRows()) {
		t.Error("the dump of SQLite differs from the dump of PostgreSQL")
	}
}

// A restore must not change the text of times, because SQLite sorts times by their text.
func TestRestoredTimesKeepTheirText(t *testing.T) {
	source, target := migratedDB(t, database.MemoryURL), migratedDB(t, database.MemoryURL)
	addAccount(t, source)
	must(t, "load", dump(t, source).load(t.Context(), target))
	var texts [2]string
	for i, db := range []*database.DB{source, target} {
		must(t, "read time", db.NewRaw("SELECT CAST(created_at AS text) FROM accounts").Scan(t.Context(), &texts[i]))
	}
	if texts[0] != texts[1] {
		t.Errorf("the restore changed the time %q to %q", texts[0], texts[1])
	}
}

func TestSnapshotIsConsistentAndDoesNotBlockWriters(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		if address == database.MemoryURL {
			return // this database has only one connection
		}
		db := migratedDB(t, address)
		err := TakeSnapshot(t.Context(), db, func(ctx context.Context, snapshot *Snapshot) error {
			addAccount(t, db)
			for _, table := range snapshot.Tables {
				if err := snapshot.Rows(ctx, table, func([]byte) error {
					if table.Name == "accounts" || table.Name == "members" {
						return errors.New("the snapshot has a row that was added later to " + table.Name)
					}
					return nil
				}); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, "snapshot", err)
	})
}

func TestFailedLoadStoresNothing(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		source := migratedDB(t, database.MemoryURL)
		addAccount(t, source)
		valid := dump(t, source)
		db := migratedDB(t, url(t))
		before := dump(t, db).comparableRows()
		broken := valid
		broken.rows = maps.Clone(valid.rows)
		broken.rows["members"] = [][]byte{[]byte(`["not a row"]`)}
		if err := broken.load(t.Context(), db); err == nil {
			t.Fatal("a broken row was loaded")
		}
		if !maps.Equal(before, dump(t, db).comparableRows()) {
			t.Fatal("the failed load left rows")
		}
		must(t, "empty", CheckEmpty(t.Context(), db))
		must(t, "load", valid.load(t.Context(), db))
		if err := valid.load(t.Context(), db); !errors.Is(err, ErrNotEmpty) {
			t.Fatalf("the second load returned %v, want %v", err, ErrNotEmpty)
		}
	})
}

// TestMigrationsMissingFromBackupRunAgain loads a backup that lacks the last migration, like a
// backup of an older release.
func TestMigrationsMissingFromBackupRunAgain(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		backup, db := dump(t, migratedDB(t, database.MemoryURL)), migratedDB(t, url(t))
		lastIndex := len(backup.migrations) - 1
		missing := backup.migrations[lastIndex]
		backup.migrations = backup.migrations[:lastIndex]
		must(t, "load", backup.load(t.Context(), db))
		pending, err := db.PendingMigrations(t.Context())
		if err != nil || len(pending) != 1 || !strings.HasPrefix(pending[0], missing) {
			t.Fatalf("the pending migrations are %v (%v), want only %s", pending, err, missing)
		}
		must(t, "migrate", db.Migrate(t.Context()))
	})
}

func TestUnknownMigrationsAreReported(t *testing.T) {
	knownMigrations := dump(t, migratedDB(t, database.MemoryURL)).migrations
	got, err := UnknownMigrations(append(knownMigrations, "29990101000000"))
	if err != nil || !slices.Equal(got, []string{"29990101000000"}) {
		t.Fatalf("the unknown migrations are %v (%v), want only 29990101000000", got, err)
	}
}

func TestInvalidRowsAreRefused(t *testing.T) {
	table := Table{"t", []Column{{"a", Text}, {"b", Int}, {"c", Bool}, {"d", Time}, {"e", Bytes}}}
	if _, err := parseRow(table, []byte(`["x",1,true,"2026-01-01T00:00:00Z","AA=="]`)); err != nil {
		t.Fatal(err)
	}
	for row, wantText := range map[string]string{`["x",`: "not a JSON array", `{}`: "not a JSON array", `[]`: "does not have 5 columns"} {
		if _, err := parseRow(table, []byte(row)); err == nil || !strings.Contains(err.Error(), wantText) {
			t.Errorf("the row %s: got the error %v, want one with %q", row, err, wantText)
		}
	}
	for _, row := range []string{
		``, `["x",1,true,"2026-01-01T00:00:00Z"]`, `["x",1,true,"2026-01-01T00:00:00Z","AA=="] []`,
		`[1,1,true,"2026-01-01T00:00:00Z","AA=="]`, `["x",1.5,true,"2026-01-01T00:00:00Z","AA=="]`,
		`["x","1",true,"2026-01-01T00:00:00Z","AA=="]`, `["x",1,0,"2026-01-01T00:00:00Z","AA=="]`,
		`["x",1,true,"yesterday","AA=="]`, `["x",1,true,"2026-01-01T00:00:00Z","%"]`, `["x",1,true,[],"AA=="]`,
		`["a\u0000b",1,true,"2026-01-01T00:00:00Z","AA=="]`,
	} {
		if _, err := parseRow(table, []byte(row)); err == nil {
			t.Errorf("the invalid row %s was accepted", row)
		}
	}
}

type memoryDump struct {
	migrations []string
	tables     []Table
	rows       map[string][][]byte
}

func dump(t *testing.T, db *database.DB) memoryDump {
	t.Helper()
	d := memoryDump{rows: map[string][][]byte{}}
	err := TakeSnapshot(t.Context(), db, func(ctx context.Context, snapshot *Snapshot) error {
		d.migrations, d.tables = snapshot.Migrations, snapshot.Tables
		for _, table := range snapshot.Tables {
			if err := snapshot.Rows(ctx, table, func(row []byte) error {
				d.rows[table.Name] = append(d.rows[table.Name], row)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, "snapshot", err)
	return d
}

func (d memoryDump) load(ctx context.Context, db *database.DB) error {
	return Load(ctx, db, d.migrations, func(ctx context.Context, l *Loading) error {
		for _, table := range d.tables {
			if err := l.CheckTable(table); err != nil {
				return err
			}
			if err := l.Insert(ctx, table, d.rows[table.Name]); err != nil {
				return err
			}
		}
		return nil
	})
}

// comparableRows returns the rows of a dump in a form that does not depend on their order or on the
// spaces in JSON.
func (d memoryDump) comparableRows() map[string]string {
	byTable := map[string]string{}
	for _, table := range d.tables {
		var rows []string
		for _, row := range d.rows[table.Name] {
			rows = append(rows, strings.ReplaceAll(string(row), " ", ""))
		}
		slices.Sort(rows)
		byTable[table.Name] = strings.Join(rows, "\n")
	}
	return byTable
}

// fillEmptyTables writes two rows into every empty table: one with unusual values, and one with
// NULL in every nullable column. An unknown column type fails the test, because it would also fail
// a backup.
func fillEmptyTables(t *testing.T, db *database.DB) {
	t.Helper()
	tables, err := Tables(t.Context(), db)
	must(t, "list tables", err)
	types := columnTypes(t, db)
	for _, table := range tables {
		if exists, err := db.NewSelect().TableExpr("?", bun.Ident(table.Name)).Exists(t.Context()); err != nil || exists {
			must(t, "count rows", err)
			continue
		}
		for n := range 2 {
			row := map[string]any{}
			for _, column := range table.Columns {
				row[column.Name] = oddValue(types[table.Name+"."+column.Name], n)
			}
			if _, err := db.NewInsert().Model(&row).TableExpr("?", bun.Ident(table.Name)).Exec(t.Context()); err != nil {
				t.Fatalf("%s: %v", table.Name, err)
			}
		}
	}
}

type columnType struct{ TableName, ColumnName, DataType, IsNullable string }

// columnTypes returns the column types in PostgreSQL's catalogue, keyed by "table.column".
func columnTypes(t *testing.T, db *database.DB) map[string]columnType {
	t.Helper()
	var columns []columnType
	must(t, "list columns", db.NewSelect().TableExpr("information_schema.columns").Column("table_name", "column_name", "data_type", "is_nullable").
		Where("table_schema = current_schema()").Scan(t.Context(), &columns))
	types := map[string]columnType{}
	for _, column := range columns {
		types[column.TableName+"."+column.ColumnName] = column
	}
	return types
}

// oddValue returns the value of a column in the first row (n = 0) or the second row (n = 1) of
// fillEmptyTables.
func oddValue(column columnType, n int) any {
	switch {
	case n == 1 && column.IsNullable == "YES":
		return nil
	case column.ColumnName == "plan":
		return "complete"
	}
	return map[string][]any{
		"uuid":                     {"0b0c8a4e-6c3f-4f7e-9d58-0a1b2c3d4e5f", "f0000000-0000-4000-8000-00000000000f"},
		"text":                     {"it's “odd”\\ \"\n\t\u2028 ☂ ?", ""},
		"jsonb":                    {`{"a":[1,"ü'\\\\?",null,true],"b":{}}`, `[]`},
		"bytea":                    {[]byte{0, 255, '\'', '\\', '?'}, []byte{}},
		"timestamp with time zone": {time.Date(2026, 2, 28, 23, 59, 59, 999999000, time.UTC), time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)},
		"boolean":                  {true, false},
		"integer":                  {-1 << 31, 1<<31 - 1},
		"bigint":                   {-1 << 63, 1<<63 - 1},
	}[column.DataType][n]
}
