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

// TestDumpRestoresEveryTableIntoBothDatabases restores a dump of PostgreSQL into SQLite, and a dump
// of the restored SQLite into PostgreSQL. The dumps have all tables of the schema, so the test also
// covers the tables of later migrations.
func TestDumpRestoresEveryTableIntoBothDatabases(t *testing.T) {
	source := migratedDB(t, databasetest.NewSchema(t))
	sqliteCopy, postgresCopy := migratedDB(t, databasetest.NewFile(t)), migratedDB(t, databasetest.NewSchema(t))
	fillEmptyTables(t, source)
	want := dump(t, source)
	tables, err := Tables(t.Context(), source)
	must(t, "list tables", err)
	if len(want.tables) != len(tables) || len(tables) < 10 {
		t.Fatalf("the dump has %d of the %d tables, want all and at least 10: %v", len(want.tables), len(tables), tables)
	}
	for _, table := range want.tables {
		if len(want.rows[table.Name]) == 0 {
			t.Errorf("the dump has no row of %s", table.Name)
		}
	}
	must(t, "load into SQLite", want.load(t.Context(), sqliteCopy))
	sqliteDump := dump(t, sqliteCopy)
	must(t, "load into PostgreSQL", sqliteDump.load(t.Context(), postgresCopy))
	wantRows, gotRows := want.comparableRows(), dump(t, postgresCopy).comparableRows()
	for name, rows := range wantRows {
		if gotRows[name] != rows {
			t.Errorf("after two restores, the rows of %s are\n%s\nwant\n%s", name, gotRows[name], rows)
		}
	}
	if !maps.Equal(wantRows, sqliteDump.comparableRows()) {
		t.Error("the dump of SQLite differs from the dump of PostgreSQL, want the same rows")
	}
}

// TestRestoredTimesKeepTheirText matters because SQLite sorts times by their text.
func TestRestoredTimesKeepTheirText(t *testing.T) {
	source, target := migratedDB(t, database.MemoryURL), migratedDB(t, database.MemoryURL)
	addAccount(t, source)
	must(t, "load", dump(t, source).load(t.Context(), target))
	textOfTime := func(db *database.DB) (text string) {
		must(t, "read time", db.NewRaw("SELECT CAST(created_at AS text) FROM accounts").Scan(t.Context(), &text))
		return text
	}
	if got, want := textOfTime(target), textOfTime(source); got != want {
		t.Errorf("the restored time is %q, want %q", got, want)
	}
}

func TestSnapshotIsConsistentAndDoesNotBlockWriters(t *testing.T) {
	databasetest.EachShared(t, func(t *testing.T, url func(testing.TB) string) {
		db := migratedDB(t, url(t))
		err := TakeSnapshot(t.Context(), db, func(ctx context.Context, snapshot *Snapshot) error {
			addAccount(t, db)
			for _, table := range snapshot.Tables {
				if err := snapshot.Rows(ctx, table, func([]byte) error {
					if table.Name == "accounts" || table.Name == "members" {
						return errors.New("the snapshot has a row that was added after its start to " + table.Name)
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
		invalid := valid
		invalid.rows = maps.Clone(valid.rows)
		invalid.rows["members"] = [][]byte{[]byte(`["not a row"]`)}
		if err := invalid.load(t.Context(), db); err == nil {
			t.Fatal("loading an invalid row succeeded, want an error")
		}
		if after := dump(t, db).comparableRows(); !maps.Equal(before, after) {
			t.Fatalf("after the failed load, the rows are %v, want %v as before", after, before)
		}
		must(t, "check that the database is empty", CheckEmpty(t.Context(), db))
		must(t, "load", valid.load(t.Context(), db))
		if err := valid.load(t.Context(), db); !errors.Is(err, ErrNotEmpty) {
			t.Fatalf("load into a database that is not empty: got %v, want %v", err, ErrNotEmpty)
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
	_, err := parseRow(table, []byte(`["x",1,true,"2026-01-01T00:00:00Z","AA=="]`))
	must(t, "parse a valid row", err)
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
			t.Errorf("parsing the invalid row %s succeeded, want an error", row)
		}
	}
}

// memoryDump is a dump of a database that a test keeps in memory.
type memoryDump struct {
	migrations []string
	tables     []Table
	rows       map[string][][]byte // keyed by table name
}

func dump(t *testing.T, db *database.DB) memoryDump {
	t.Helper()
	dumped := memoryDump{rows: map[string][][]byte{}}
	err := TakeSnapshot(t.Context(), db, func(ctx context.Context, snapshot *Snapshot) error {
		dumped.migrations, dumped.tables = snapshot.Migrations, snapshot.Tables
		for _, table := range snapshot.Tables {
			if err := snapshot.Rows(ctx, table, func(row []byte) error {
				dumped.rows[table.Name] = append(dumped.rows[table.Name], row)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, "snapshot", err)
	return dumped
}

func (d memoryDump) load(ctx context.Context, db *database.DB) error {
	return Load(ctx, db, d.migrations, func(ctx context.Context, loading *Loading) error {
		for _, table := range d.tables {
			if err := loading.CheckTable(table); err != nil {
				return err
			}
			if err := loading.Insert(ctx, table, d.rows[table.Name]); err != nil {
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

// fillEmptyTables writes two rows with unusual values into every empty table. The second row has
// NULL in every nullable column. oddValue panics for a column type that it does not list.
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
		for rowIndex := range 2 {
			row := map[string]any{}
			for _, column := range table.Columns {
				row[column.Name] = oddValue(types[table.Name+"."+column.Name], rowIndex)
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

// oddValue returns the value of a column in a row of fillEmptyTables. rowIndex is 0 or 1.
func oddValue(column columnType, rowIndex int) any {
	switch {
	case rowIndex == 1 && column.IsNullable == "YES":
		return nil
	case column.ColumnName == "plan":
		return "complete" // the name of a plan that the migrations create
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
	}[column.DataType][rowIndex]
}
