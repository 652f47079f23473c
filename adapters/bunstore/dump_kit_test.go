// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"
)

// dumped is a whole snapshot in memory.
type dumped struct {
	migrations []string
	tables     []Table
	rows       map[string][][]byte
}

func dump(t *testing.T, s *Store) dumped {
	t.Helper()
	d := dumped{rows: map[string][][]byte{}}
	err := s.Snapshot(t.Context(), func(ctx context.Context, n *Snapshot) error {
		d.migrations, d.tables = n.Migrations, n.Tables
		for _, table := range n.Tables {
			if err := n.Rows(ctx, table, func(row []byte) error {
				d.rows[table.Name] = append(d.rows[table.Name], row)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d dumped) load(ctx context.Context, s *Store) error {
	return s.Load(ctx, d.migrations, func(ctx context.Context, l *Loading) error {
		for _, table := range d.tables {
			if err := l.Fits(table); err != nil {
				return err
			}
			if err := l.Insert(ctx, table, d.rows[table.Name]); err != nil {
				return err
			}
		}
		return nil
	})
}

// content is what a dump says, whatever the order of rows and the spaces that
// a database puts into JSON.
func (d dumped) content() map[string]string {
	all := map[string]string{}
	for _, table := range d.tables {
		var rows []string
		for _, row := range d.rows[table.Name] {
			rows = append(rows, strings.ReplaceAll(string(row), " ", ""))
		}
		slices.Sort(rows)
		all[table.Name] = strings.Join(rows, "\n")
	}
	return all
}

// fillAll writes two rows into every table that has none: one with odd values in
// each column, and one with NULL wherever that may be. A column of a kind that
// this does not know ends the test, as it would end a backup.
func fillAll(t *testing.T, s *Store) {
	t.Helper()
	tables, err := s.Tables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	types := columnTypes(t, s)
	for _, table := range tables {
		if there, err := s.db.NewSelect().TableExpr("?", bun.Ident(table.Name)).Exists(t.Context()); err != nil || there {
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		for n := range 2 {
			row := map[string]any{}
			for _, column := range table.Columns {
				row[column.Name] = odd(types[table.Name+"."+column.Name], n)
			}
			if _, err := s.db.NewInsert().Model(&row).TableExpr("?", bun.Ident(table.Name)).Exec(t.Context()); err != nil {
				t.Fatalf("%s: %v", table.Name, err)
			}
		}
	}
}

// columnType is what PostgreSQL says of a column.
type columnType struct{ TableName, ColumnName, DataType, IsNullable string }

// columnTypes returns the types of all columns of the schema, by "table.column".
func columnTypes(t *testing.T, s *Store) map[string]columnType {
	t.Helper()
	var all []columnType
	must(t, s.db.NewSelect().TableExpr("information_schema.columns").Column("table_name", "column_name", "data_type", "is_nullable").
		Where("table_schema = current_schema()").Scan(t.Context(), &all))
	types := map[string]columnType{}
	for _, c := range all {
		types[c.TableName+"."+c.ColumnName] = c
	}
	return types
}

// odd returns the first or the second odd value of a column.
func odd(column columnType, n int) any {
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
