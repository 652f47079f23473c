// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"
)

// Snapshot is the database as it was at one moment.
type Snapshot struct {
	store *Store
	tx    bun.Tx
	// Migrations are those that were applied, by their numbers.
	Migrations []string
	Tables     []Table
}

// Snapshot gives read one consistent view of the database. Others may write
// meanwhile: on SQLite a reader stops nobody.
func (s *Store) Snapshot(ctx context.Context, read func(context.Context, *Snapshot) error) error {
	options := &sql.TxOptions{ReadOnly: true}
	if s.postgres() {
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := s.db.BeginTx(ctx, options)
	if err != nil {
		return s.saying(ctx, "begin snapshot", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	shot := &Snapshot{store: s, tx: tx}
	if shot.Migrations, err = s.applied(ctx, tx); err != nil {
		return s.saying(ctx, "read migrations", err)
	}
	if len(shot.Migrations) == 0 {
		return errors.New("the database was never migrated: there is nothing in it")
	}
	if shot.Tables, err = s.tables(ctx, tx); err != nil {
		return err
	}
	return read(ctx, shot)
}

func (s *Store) applied(ctx context.Context, db bun.IDB) (names []string, err error) {
	if there, err := s.hasTable(ctx, db, "bun_migrations"); err != nil || !there {
		return nil, err
	}
	err = db.NewSelect().TableExpr("bun_migrations").Column("name").OrderExpr("name").Scan(ctx, &names)
	return slices.Compact(names), err
}

// Rows gives each row of a table as a JSON array in the order of its columns.
// The array is each's own.
func (n *Snapshot) Rows(ctx context.Context, t Table, each func(row []byte) error) error {
	query := n.tx.NewSelect().TableExpr("?", bun.Ident(t.Name))
	for _, column := range t.Columns {
		query = query.ColumnExpr("?", bun.Ident(column.Name))
	}
	rows, err := query.Rows(ctx)
	if err != nil {
		return n.store.saying(ctx, "read "+t.Name, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		row, err := readRow(rows, t)
		if err != nil {
			return n.store.saying(ctx, "read "+t.Name, err)
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return n.store.saying(ctx, "read "+t.Name, rows.Err())
}

func readRow(rows *sql.Rows, t Table) ([]byte, error) {
	values, places := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	for i := range values {
		places[i] = &values[i]
	}
	if err := rows.Scan(places...); err != nil {
		return nil, err
	}
	for i, column := range t.Columns {
		var ok bool
		if values[i], ok = portable(column.Kind, values[i]); !ok {
			return nil, fmt.Errorf("column %s holds a %T and not a %s", column.Name, values[i], column.Kind)
		}
	}
	return json.Marshal(values)
}

// portable turns what a driver gives into what JSON keeps exactly. Bytes are
// base64 there.
func portable(kind Kind, value any) (any, bool) {
	switch v := value.(type) {
	case nil:
		return nil, true
	case string:
		return v, kind == Text
	case []byte:
		if kind == Text {
			return string(v), true
		}
		return append([]byte{}, v...), kind == Bytes // never nil: that would be NULL
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
