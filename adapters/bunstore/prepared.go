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

// prepared is a read whose text is the same each time, with $1 where bun
// would write the value into it. A database then parses and plans it once a
// connection, and that is most of the work of a short read. It is for what
// nearly every request asks; the budget of the list read needs it.
type prepared struct {
	text, table string

	mu   sync.Mutex
	kept *sql.Stmt // on SQLite
}

// first is the place of a prepared statement's value.
const first = bun.Safe("$1")

func fixed(q *bun.SelectQuery) *prepared {
	return &prepared{text: q.String(), table: q.GetTableName()}
}

// prepare makes the prepared statements. PostgreSQL's driver keeps their plans
// unless the URL's default_query_exec_mode says otherwise, which a pooler
// between the two may need.
func (s *Store) prepare(url string) error {
	s.callerByHash, s.tenantsOfOwner = callerByHash(s.db), tenantsOfOwner(s.db)
	if !s.postgres() {
		return nil
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return errUnreadableURL
	}
	s.preparing = config.DefaultQueryExecMode
	return nil
}

// read runs the statement and takes each of its rows, with the hooks that all
// statements have. What may be null is taken into a pointer to a pointer.
func (s *Store) read(ctx context.Context, p *prepared, value any, take func(row) error) (err error) {
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
		return s.readNative(ctx, p, value, take)
	}
	kept, err := s.statement(ctx, p) //lint:ignore sqlclosecheck the next read needs it too
	if err != nil {
		return err
	}
	rows, err := kept.QueryContext(ctx, value) //lint:ignore rowserrcheck each caller checks rows.Err
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	return each(rows, take)
}

// row is one row of a result.
type row interface{ Scan(into ...any) error }

func each(rows interface {
	row
	Next() bool
	Err() error
}, take func(row) error,
) error {
	for rows.Next() {
		if err := take(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readNative asks the driver itself: database/sql would make an interface of
// each value, and that is a fifth of the work of a list. It passes over
// connections that have died while they were idle, as all do when the server
// restarts.
func (s *Store) readNative(ctx context.Context, p *prepared, value any, take func(row) error) (err error) {
	for range s.db.Stats().MaxOpenConnections + 1 {
		if err = s.readOn(ctx, p, value, take); !errors.Is(err, driver.ErrBadConn) {
			break
		}
	}
	return err
}

// readOn ends as driver.ErrBadConn when its connection turned out dead before
// it gave a row.
func (s *Store) readOn(ctx context.Context, p *prepared, value any, take func(row) error) error {
	conn, err := s.db.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.Raw(func(inner any) error {
		native, taken := inner.(*stdlib.Conn).Conn(), false
		rows, err := native.Query(ctx, p.text, s.preparing, value)
		if err == nil {
			defer rows.Close()
			err = each(rows, func(r row) error {
				taken = true
				return take(r)
			})
		}
		if err != nil && native.IsClosed() && !taken && ended(ctx) == nil {
			return driver.ErrBadConn
		}
		return err
	})
}

// statement is SQLite's, which lives as long as the database is open.
func (s *Store) statement(ctx context.Context, p *prepared) (*sql.Stmt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.kept == nil {
		p.kept, err = s.db.DB.PrepareContext(ctx, p.text)
	}
	return p.kept, err
}

// prepared is a bun.Query for the hooks.

func (p *prepared) Operation() string    { return "SELECT" }
func (p *prepared) GetModel() bun.Model  { return nil }
func (p *prepared) GetTableName() string { return p.table }

func (p *prepared) AppendQuery(_ schema.QueryGen, b []byte) ([]byte, error) {
	return append(b, p.text...), nil
}
