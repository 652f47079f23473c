// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/migrate"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
)

// seededTables already have rows in a new database, because migrations insert them. Load replaces
// these rows with the rows of the backup.
var seededTables = []string{"plans", "schema_release"}

// auditTable may have rows before Load, because some commands of the operator add rows to it. Load
// keeps these rows, in addition to the rows of the backup.
const auditTable = "audit_events"

// UnknownMigrations returns the applied migrations that this release does not have.
func UnknownMigrations(applied []string) ([]string, error) {
	set, err := database.Discover()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(applied), func(name string) bool {
		return slices.ContainsFunc(set.Sorted(), func(m migrate.Migration) bool { return m.Name == name })
	}), nil
}

// ErrNotEmpty reports that tables of a database have rows (see CheckEmpty).
var ErrNotEmpty = errors.New("the database is not empty")

// CheckEmpty returns ErrNotEmpty if a table has rows. It ignores auditTable and seededTables.
func CheckEmpty(ctx context.Context, db *database.DB) error {
	tables, err := Tables(ctx, db)
	if err != nil {
		return err
	}
	return checkTablesEmpty(ctx, db, tables)
}

func checkTablesEmpty(ctx context.Context, db bun.IDB, tables []Table) error {
	for _, t := range tables {
		if t.Name == auditTable || slices.Contains(seededTables, t.Name) {
			continue
		}
		hasRows, err := db.NewSelect().TableExpr("?", bun.Ident(t.Name)).Exists(ctx)
		if err != nil {
			return database.Wrap(ctx, "read "+t.Name, err)
		}
		if hasRows {
			return fmt.Errorf("%w: there are rows in %s", ErrNotEmpty, t.Name)
		}
	}
	return nil
}

// Loading is the transaction that fills a database from a backup.
type Loading struct {
	tx     bun.Tx
	tables []Table
}

// Load calls fill to write the rows of a backup into a migrated, empty database, in one
// transaction. applied lists the migrations that were applied to the database of the backup. Load
// marks all other migrations as not applied, so that Migrate runs them on the loaded rows.
func Load(ctx context.Context, db *database.DB, applied []string, fill func(context.Context, *Loading) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return database.Wrap(ctx, "begin restore", err)
	}
	defer func() { _ = tx.Rollback() }()
	l := &Loading{tx: tx}
	if err := l.prepareTables(ctx); err != nil {
		return err
	}
	if err := fill(ctx, l); err != nil {
		return err
	}
	if _, err := tx.NewDelete().TableExpr("bun_migrations").Where("name NOT IN (?)", bun.List(applied)).Exec(ctx); err != nil {
		return database.Wrap(ctx, "mark migrations", err)
	}
	return database.Wrap(ctx, "commit restore", tx.Commit())
}

// prepareTables checks the tables like CheckEmpty, and deletes the rows that migrations seeded. On
// PostgreSQL it first locks all tables, so that no other transaction adds rows. On SQLite the
// transaction is the only writer.
func (l *Loading) prepareTables(ctx context.Context) (err error) {
	if l.tables, err = Tables(ctx, l.tx); err != nil {
		return err
	}
	if database.IsPostgres(l.tx) {
		names := make([]bun.Ident, len(l.tables))
		for i, t := range l.tables {
			names[i] = bun.Ident(t.Name)
		}
		if _, err := l.tx.NewRaw("LOCK TABLE ? IN EXCLUSIVE MODE", bun.List(names)).Exec(ctx); err != nil {
			return database.Wrap(ctx, "lock tables", err)
		}
	}
	if err := checkTablesEmpty(ctx, l.tx, l.tables); err != nil {
		return err
	}
	for _, name := range seededTables {
		if _, err := l.tx.NewDelete().TableExpr("?", bun.Ident(name)).Where("TRUE").Exec(ctx); err != nil {
			return database.Wrap(ctx, "replace "+name, err)
		}
	}
	return nil
}

// CheckTable returns an error if this database lacks the table t of a backup or one of its columns,
// or if a column has a different kind.
func (l *Loading) CheckTable(t Table) error {
	index := slices.IndexFunc(l.tables, func(own Table) bool { return own.Name == t.Name })
	if index < 0 {
		return fmt.Errorf("this version has no table %s", t.Name)
	}
	for _, column := range t.Columns {
		if !slices.Contains(l.tables[index].Columns, column) {
			return fmt.Errorf("this version has no column %s of kind %s in table %s", column.Name, column.Kind, t.Name)
		}
	}
	return nil
}

// Insert writes rows in the form that Snapshot.Rows passes.
func (l *Loading) Insert(ctx context.Context, t Table, rows [][]byte) error {
	if len(rows) == 0 {
		return nil
	}
	values := make([]bun.TupleValues, len(rows))
	for i, row := range rows {
		parsed, err := parseRow(t, row)
		if err != nil {
			return fmt.Errorf("row of %s: %w", t.Name, err)
		}
		values[i] = bun.Tuple(parsed)
	}
	columns := make([]bun.Ident, len(t.Columns))
	for i, column := range t.Columns {
		columns[i] = bun.Ident(column.Name)
	}
	_, err := l.tx.NewRaw("INSERT INTO ? (?) VALUES ?", bun.Ident(t.Name), bun.List(columns), bun.List(values)).Exec(ctx)
	return database.Wrap(ctx, "fill "+t.Name, err)
}

func parseRow(t Table, row []byte) ([]any, error) {
	var values []any
	decoder := json.NewDecoder(bytes.NewReader(row))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		return nil, errors.New("it is not a JSON array")
	}
	if len(values) != len(t.Columns) {
		return nil, fmt.Errorf("it does not have %d columns", len(t.Columns))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("there is data after the row")
	}
	for i, column := range t.Columns {
		var err error
		if values[i], err = parseValue(column.Kind, values[i]); err != nil {
			return nil, fmt.Errorf("column %s is not of kind %s", column.Name, column.Kind)
		}
	}
	return values, nil
}

func parseValue(kind Kind, value any) (any, error) {
	switch v := value.(type) {
	case nil:
		return bun.Safe("NULL"), nil // bun.Tuple does not accept nil
	case bool:
		return v, kindError(kind == Bool)
	case json.Number:
		n, err := v.Int64()
		if err == nil {
			err = kindError(kind == Int)
		}
		return n, err
	case string:
		switch kind {
		case Text:
			return v, kindError(!strings.ContainsRune(v, 0))
		case Bytes:
			return base64.StdEncoding.DecodeString(v)
		case Time:
			return time.Parse(time.RFC3339Nano, v)
		}
	}
	return nil, errWrongKind
}

var errWrongKind = errors.New("of another kind")

func kindError(ok bool) error {
	if ok {
		return nil
	}
	return errWrongKind
}
