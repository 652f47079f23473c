// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"
)

// Kind is what a column holds, whichever database keeps it.
type Kind string

// The kinds of columns. UUIDs and JSON are text in a backup, as on SQLite.
const (
	Text  Kind = "text"
	Bytes Kind = "bytes"
	Time  Kind = "time"
	Bool  Kind = "bool"
	Int   Kind = "int"
)

// kinds translates the types of both databases. A migration with another type
// adds it here, and says so in the tests of both directions.
var kinds = map[string]Kind{
	"text": Text, "uuid": Text, "jsonb": Text,
	"blob": Bytes, "bytea": Bytes,
	"timestamp": Time, "timestamp with time zone": Time,
	"boolean": Bool,
	"integer": Int, "bigint": Int,
}

// Column is a column of a Table.
type Column struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
}

// Table is a table of the schema, without those of the migrations.
type Table struct {
	Name    string
	Columns []Column
}

// Tables lists all tables, those that others point at first. It asks the
// database itself, so a new table is in the next backup.
func (s *Store) Tables(ctx context.Context) ([]Table, error) { return s.tables(ctx, s.db) }

func (s *Store) tables(ctx context.Context, db bun.IDB) ([]Table, error) {
	names, err := s.tableNames(ctx, db)
	if err != nil {
		return nil, s.saying(ctx, "list tables", err)
	}
	parents := map[string][]string{}
	for _, name := range names {
		if parents[name], err = s.parents(ctx, db, name); err != nil {
			return nil, s.saying(ctx, "list foreign keys", err)
		}
	}
	var tables []Table
	for _, name := range parentsFirst(names, parents) {
		columns, err := s.columns(ctx, db, name)
		if err != nil {
			return nil, s.saying(ctx, "list columns of "+name, err)
		}
		tables = append(tables, Table{name, columns})
	}
	return tables, nil
}

func (s *Store) tableNames(ctx context.Context, db bun.IDB) (names []string, err error) {
	q := db.NewSelect().TableExpr("sqlite_master").Column("name").Where("type = 'table'").Where("name NOT LIKE 'sqlite_%'")
	if s.postgres() {
		q = db.NewSelect().TableExpr("pg_catalog.pg_tables").ColumnExpr("tablename AS name").Where("schemaname = current_schema()")
	}
	if err = q.OrderExpr("1").Scan(ctx, &names); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "bun_") }), nil
}

func (s *Store) parents(ctx context.Context, db bun.IDB, table string) (names []string, err error) {
	q := db.NewSelect().TableExpr("pragma_foreign_key_list(?)", table).ColumnExpr(`DISTINCT "table"`)
	if s.postgres() {
		q = db.NewSelect().TableExpr("pg_catalog.pg_constraint AS k").Join("JOIN pg_catalog.pg_class AS p ON p.oid = k.confrelid").
			ColumnExpr("DISTINCT p.relname").Where("k.contype = 'f'").Where("k.conrelid = to_regclass(?)", table)
	}
	err = q.Scan(ctx, &names)
	return names, err
}

// parentsFirst orders tables so that each comes after those it points at.
func parentsFirst(names []string, parents map[string][]string) []string {
	var ordered []string
	var add func(name string, below []string)
	add = func(name string, below []string) {
		if slices.Contains(ordered, name) || slices.Contains(below, name) {
			return
		}
		for _, parent := range parents[name] {
			add(parent, append(below, name))
		}
		ordered = append(ordered, name)
	}
	for _, name := range names {
		add(name, nil)
	}
	return ordered
}

func (s *Store) columns(ctx context.Context, db bun.IDB, table string) ([]Column, error) {
	var found []struct{ Name, Type string }
	q := db.NewSelect().TableExpr("pragma_table_info(?)", table).ColumnExpr("name, lower(type) AS type").OrderExpr("cid")
	if s.postgres() {
		q = db.NewSelect().TableExpr("information_schema.columns").ColumnExpr("column_name AS name, data_type AS type").
			Where("table_schema = current_schema()").Where("table_name = ?", table).OrderExpr("ordinal_position")
	}
	if err := q.Scan(ctx, &found); err != nil {
		return nil, err
	}
	columns := make([]Column, len(found))
	for i, column := range found {
		kind, known := kinds[column.Type]
		if !known {
			return nil, fmt.Errorf("column %s has a type that backups do not know: %s", column.Name, column.Type)
		}
		columns[i] = Column{column.Name, kind}
	}
	return columns, nil
}

// saying puts what was done before an error, and says when it was the database
// that did not answer.
func (s *Store) saying(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, gaveUp(translate(ctx, err)))
}
