// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
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
// statements have.
func (s *Store) read(ctx context.Context, p *prepared, value any, take func(*sql.Rows) error) (err error) {
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
	rows, err := s.query(ctx, p, value)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := take(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *Store) query(ctx context.Context, p *prepared, value any) (*sql.Rows, error) {
	if s.postgres() {
		return s.db.DB.QueryContext(ctx, p.text, s.preparing, value)
	}
	kept, err := s.statement(ctx, p) //nolint:sqlclosecheck // the next read needs it too
	if err != nil {
		return nil, err
	}
	return kept.QueryContext(ctx, value)
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
