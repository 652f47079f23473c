// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
)

// preparedRead is a select whose text is constant, with $1 in place of its one value. The database
// parses and plans the text once per connection, which is most of the work of a short read. Use it
// for reads that nearly every request makes.
type preparedRead struct {
	text, table string

	mu   sync.Mutex
	stmt *sql.Stmt // SQLite only, prepared at the first read
}

// preparedArg stands for the value of a prepared statement.
const preparedArg = bun.Safe("$1")

func newPreparedRead(q *bun.SelectQuery) *preparedRead {
	return &preparedRead{text: q.String(), table: q.GetTableName()}
}

// prepare creates the prepared statements. PostgreSQL's driver keeps their plans unless
// default_query_exec_mode in the URL forbids it, as some connection poolers require.
func (s *Store) prepare(url string) error {
	s.callerByHash, s.tenantsOfOwner = callerByHash(s.db), tenantsOfOwner(s.db)
	if !s.postgres() {
		return nil
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return errUnreadableURL
	}
	s.execMode = config.DefaultQueryExecMode
	return nil
}

// readPrepared runs the statement with the hooks that all statements have. It passes each row to
// scanRow. scanRow must scan a nullable column into a pointer to a pointer.
func (s *Store) readPrepared(ctx context.Context, p *preparedRead, value any, scanRow func(row) error) (err error) {
	event := &bun.QueryEvent{DB: s.db, IQuery: p, Query: p.text, QueryTemplate: p.text, StartTime: time.Now()}
	for _, hook := range s.hooks {
		ctx = hook.BeforeQuery(ctx, event)
	}
	defer func() {
		event.Err = err
		for _, hook := range slices.Backward(s.hooks) {
			hook.AfterQuery(ctx, event)
		}
	}()
	if s.postgres() {
		return s.readPostgres(ctx, p, value, scanRow)
	}
	stmt, err := s.sqliteStatement(ctx, p) //lint:ignore sqlclosecheck the next read needs it too
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, value) //lint:ignore rowserrcheck each caller checks rows.Err
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	return eachRow(rows, scanRow)
}

// row is one row of a result, of either driver.
type row interface{ Scan(into ...any) error }

func eachRow(rows interface {
	row
	Next() bool
	Err() error
}, scanRow func(row) error,
) error {
	for rows.Next() {
		if err := scanRow(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readPostgres bypasses database/sql, which would box each value and take a fifth of the time of a
// list. It skips pooled connections that died while idle, for example because the server restarted.
func (s *Store) readPostgres(ctx context.Context, p *preparedRead, value any, scanRow func(row) error) (err error) {
	for range s.db.Stats().MaxOpenConnections + 1 {
		if err = s.readOnConn(ctx, p, value, scanRow); !errors.Is(err, driver.ErrBadConn) {
			break
		}
	}
	return err
}

// readOnConn returns driver.ErrBadConn if its connection proves dead before the first row.
func (s *Store) readOnConn(ctx context.Context, p *preparedRead, value any, scanRow func(row) error) error {
	conn, err := s.db.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.Raw(func(inner any) error {
		native, scanned := inner.(*stdlib.Conn).Conn(), false
		rows, err := native.Query(ctx, p.text, s.execMode, value)
		if err == nil {
			defer rows.Close()
			err = eachRow(rows, func(r row) error {
				scanned = true
				return scanRow(r)
			})
		}
		if err != nil && native.IsClosed() && !scanned && contextError(ctx) == nil {
			return driver.ErrBadConn
		}
		return err
	})
}

// sqliteStatement returns the prepared statement of SQLite, which stays open as long as the
// database.
func (s *Store) sqliteStatement(ctx context.Context, p *preparedRead) (*sql.Stmt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.stmt == nil {
		p.stmt, err = s.db.DB.PrepareContext(ctx, p.text)
	}
	return p.stmt, err
}

// preparedRead implements bun.Query, which the hooks need.

func (p *preparedRead) Operation() string    { return "SELECT" }
func (p *preparedRead) GetModel() bun.Model  { return nil }
func (p *preparedRead) GetTableName() string { return p.table }

func (p *preparedRead) AppendQuery(_ schema.QueryGen, b []byte) ([]byte, error) {
	return append(b, p.text...), nil
}
