// SPDX-License-Identifier: Apache-2.0

// Package maintenance reads, fills and checks whole databases for the operator. It does not use the
// row types of the store. It lists the tables from the database's catalogue, so backups contain new
// tables without a change here.
//
// Start reading at TakeSnapshot.
//
//	dump.go     Tables, TakeSnapshot: the rows of all tables at one moment
//	load.go     Load: fills an empty database with the rows of a backup
//	inspect.go  Inspect: checks of a database that change nothing
package maintenance

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
)

// Kind is the type of a column, the same for both databases.
type Kind string

// The kinds of columns. A backup stores UUIDs and JSON as text, like SQLite.
const (
	Text  Kind = "text"
	Bytes Kind = "bytes"
	Time  Kind = "time"
	Bool  Kind = "bool"
	Int   Kind = "int"
)

// kinds maps the column types of both databases. If a migration uses a new type, add the type here
// and to oddValue in dump_test.go.
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

// Table is a table of the schema. Tables omits the tables in which bun records migrations.
type Table struct {
	Name    string
	Columns []Column
}

// Tables returns all tables, each table after the tables that it references.
func Tables(ctx context.Context, db bun.IDB) ([]Table, error) {
	names, err := tableNames(ctx, db)
	if err != nil {
		return nil, database.Wrap(ctx, "list tables", err)
	}
	parents := map[string][]string{}
	for _, name := range names {
		if parents[name], err = parentsOf(ctx, db, name); err != nil {
			return nil, database.Wrap(ctx, "list foreign keys", err)
		}
	}
	var tables []Table
	for _, name := range parentsFirst(names, parents) {
		columns, err := columnsOf(ctx, db, name)
		if err != nil {
			return nil, database.Wrap(ctx, "list columns of "+name, err)
		}
		tables = append(tables, Table{name, columns})
	}
	return tables, nil
}

func tableNames(ctx context.Context, db bun.IDB) (names []string, err error) {
	q := db.NewSelect().TableExpr("sqlite_master").Column("name").Where("type = 'table'").Where("name NOT LIKE 'sqlite_%'")
	if database.IsPostgres(db) {
		q = db.NewSelect().TableExpr("pg_catalog.pg_tables").ColumnExpr("tablename AS name").Where("schemaname = current_schema()")
	}
	if err = q.OrderExpr("1").Scan(ctx, &names); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "bun_") }), nil
}

func parentsOf(ctx context.Context, db bun.IDB, table string) (names []string, err error) {
	q := db.NewSelect().TableExpr("pragma_foreign_key_list(?)", table).ColumnExpr(`DISTINCT "table"`)
	if database.IsPostgres(db) {
		q = db.NewSelect().TableExpr("pg_catalog.pg_constraint AS k").Join("JOIN pg_catalog.pg_class AS p ON p.oid = k.confrelid").
			ColumnExpr("DISTINCT p.relname").Where("k.contype = 'f'").Where("k.conrelid = to_regclass(?)", table)
	}
	err = q.Scan(ctx, &names)
	return names, err
}

// parentsFirst orders tables so that each comes after the tables that it references.
func parentsFirst(names []string, parents map[string][]string) []string {
	var ordered []string
	var add func(name string, children []string)
	add = func(name string, children []string) {
		if slices.Contains(ordered, name) || slices.Contains(children, name) {
			return
		}
		for _, parent := range parents[name] {
			add(parent, append(children, name))
		}
		ordered = append(ordered, name)
	}
	for _, name := range names {
		add(name, nil)
	}
	return ordered
}

func columnsOf(ctx context.Context, db bun.IDB, table string) ([]Column, error) {
	var types []struct{ Name, Type string }
	q := db.NewSelect().TableExpr("pragma_table_info(?)", table).ColumnExpr("name, lower(type) AS type").OrderExpr("cid")
	if database.IsPostgres(db) {
		q = db.NewSelect().TableExpr("information_schema.columns").ColumnExpr("column_name AS name, data_type AS type").
			Where("table_schema = current_schema()").Where("table_name = ?", table).OrderExpr("ordinal_position")
	}
	if err := q.Scan(ctx, &types); err != nil {
		return nil, err
	}
	columns := make([]Column, len(types))
	for i, column := range types {
		kind, known := kinds[column.Type]
		if !known {
			return nil, fmt.Errorf("column %s has a type that backups do not know: %s", column.Name, column.Type)
		}
		columns[i] = Column{column.Name, kind}
	}
	return columns, nil
}

// Snapshot is a consistent view of the whole database at one moment.
type Snapshot struct {
	tx bun.Tx
	// Migrations holds the numbers of the applied migrations.
	Migrations []string
	Tables     []Table
}

// TakeSnapshot calls read with one consistent view of the database. Other transactions can write
// while read runs.
func TakeSnapshot(ctx context.Context, db *database.DB, read func(context.Context, *Snapshot) error) error {
	options := &sql.TxOptions{ReadOnly: true}
	if database.IsPostgres(db) {
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := db.BeginTx(ctx, options)
	if err != nil {
		return database.Wrap(ctx, "begin snapshot", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	snapshot := &Snapshot{tx: tx}
	if snapshot.Migrations, err = appliedMigrations(ctx, tx); err != nil {
		return database.Wrap(ctx, "read migrations", err)
	}
	if len(snapshot.Migrations) == 0 {
		return errors.New("the database was never migrated: there is nothing in it")
	}
	if snapshot.Tables, err = Tables(ctx, tx); err != nil {
		return err
	}
	return read(ctx, snapshot)
}

func appliedMigrations(ctx context.Context, db bun.IDB) (names []string, err error) {
	if exists, err := database.HasTable(ctx, db, "bun_migrations"); err != nil || !exists {
		return nil, err
	}
	err = db.NewSelect().TableExpr("bun_migrations").Column("name").OrderExpr("name").Scan(ctx, &names)
	return slices.Compact(names), err
}

// SealedPrefixes returns the result of database.SealedPrefixes.
func (s *Snapshot) SealedPrefixes(ctx context.Context) (map[string][][]byte, error) {
	prefixes, err := database.SealedPrefixes(ctx, s.tx)
	return prefixes, database.Wrap(ctx, "read the keys of encrypted values", err)
}

// Rows reads a table and calls handle once for every row. row is a JSON array of the values, in the
// order of t.Columns. handle may keep row.
func (s *Snapshot) Rows(ctx context.Context, t Table, handle func(row []byte) error) error {
	query := s.tx.NewSelect().TableExpr("?", bun.Ident(t.Name))
	for _, column := range t.Columns {
		query = query.ColumnExpr("?", bun.Ident(column.Name))
	}
	rows, err := query.Rows(ctx)
	if err != nil {
		return database.Wrap(ctx, "read "+t.Name, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		row, err := readRow(rows, t)
		if err != nil {
			return database.Wrap(ctx, "read "+t.Name, err)
		}
		if err := handle(row); err != nil {
			return err
		}
	}
	return database.Wrap(ctx, "read "+t.Name, rows.Err())
}

func readRow(rows *sql.Rows, t Table) ([]byte, error) {
	values, targets := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	for i := range values {
		targets[i] = &values[i]
	}
	if err := rows.Scan(targets...); err != nil {
		return nil, err
	}
	for i, column := range t.Columns {
		converted, ok := toJSONValue(column.Kind, values[i])
		if !ok {
			return nil, fmt.Errorf("column %s has a value of the type %T, want %s", column.Name, values[i], column.Kind)
		}
		values[i] = converted
	}
	return json.Marshal(values)
}

// toJSONValue converts a driver's value for json.Marshal, which writes bytes as base64. It returns
// false if the value is not of this kind.
func toJSONValue(kind Kind, value any) (any, bool) {
	switch v := value.(type) {
	case nil:
		return nil, true
	case string:
		return v, kind == Text
	case []byte:
		if kind == Text {
			return string(v), true
		}
		return append([]byte{}, v...), kind == Bytes // not nil, which would become NULL
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano), kind == Time
	case bool:
		return v, kind == Bool
	case int64:
		if kind == Bool {
			return v != 0, true
		}
		return v, kind == Int
	default:
		return value, false
	}
}
