// SPDX-License-Identifier: Apache-2.0

// Package bunstore keeps everything that tenantry knows in PostgreSQL or
// SQLite. One Store implements every store port, one file a port. A method is
// one statement or one transaction, and names the owner in every condition.
package bunstore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// Memory is the URL of a fresh SQLite database that lives as long as its
// Store.
const Memory = "sqlite::memory:"

// Options are what a Store takes besides its URL. The zero value works.
type Options struct {
	Log *slog.Logger
	// MaxConns bounds the connections: 20 unless set, 4 on SQLite. At least
	// 2 on PostgreSQL: the lock around migrations holds one.
	MaxConns int
	// Synchronous is SQLite's pragma: NORMAL unless set, which can lose the
	// last commits at a power loss (never at a crash); FULL loses none.
	Synchronous string
	// Operator is who acts through this Store, for the audit.
	Operator       string
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
}

// Store is the database.
type Store struct {
	db                  *bun.DB
	hooks               []bun.QueryHook
	log                 *slog.Logger
	operator            string
	patience, placeTime time.Duration
	// places are the connections, for those who would have to wait for one, and
	// nil on SQLite; writers is the one place of those who write there.
	places, writers chan struct{}

	preparing      pgx.QueryExecMode // of PostgreSQL's driver
	callerByHash   *prepared
	tenantsOfOwner *prepared
}

var _ interface {
	ports.Accounts
	ports.IssuedKeys
	ports.Keys
	ports.Tenants
	ports.Assignments
	ports.Discovered
	ports.Domains
	ports.DomainChecks
	ports.MailboxStore
	ports.ConnectFlows
	ports.DNSConnections
	ports.DNSWrites
	ports.DNSRuns
	ports.DNSJobs
	ports.Integrations
	ports.Connections
	ports.SendPolicies
	ports.SendDays
	ports.SendRuns
	ports.EnforcementEvents
	ports.Audit
	ports.Idempotency
} = (*Store)(nil)

// Open connects to sqlite:///path, Memory or postgres://…, and refuses a
// database that a newer release has closed to this one. It does not migrate.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	return open(ctx, url, o)
}

func open(ctx context.Context, url string, o Options, hooks ...bun.QueryHook) (*Store, error) {
	db, err := connect(url, o)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, log: o.Log, operator: text(cmp.Or(o.Operator, "unknown")), patience: patience, placeTime: placeTime}
	if s.postgres() {
		s.places = make(chan struct{}, db.Stats().MaxOpenConnections)
	} else {
		s.writers = make(chan struct{}, 1)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(s.observe(o, hooks), s.prepare(url)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := s.checkRelease(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	return s, nil
}

// observe makes hooks see every statement, and tracing after them.
func (s *Store) observe(o Options, hooks []bun.QueryHook) error {
	traced, err := newTracing(s.system(), o)
	s.hooks = append(hooks, noting{}, traced)
	for _, hook := range s.hooks {
		s.db = s.db.WithQueryHook(hook)
	}
	return err
}

// system is the database's name in telemetry.
func (s *Store) system() string {
	if s.postgres() {
		return "postgresql"
	}
	return "sqlite"
}

func connect(url string, o Options) (*bun.DB, error) {
	scheme, _, _ := strings.Cut(url, ":")
	switch scheme {
	case "sqlite":
		return connectSQLite(url, o)
	case "postgres", "postgresql":
		return connectPostgres(url, o)
	default:
		// The URL itself may hold a password.
		return nil, fault.InvalidRequest.With("a database URL is sqlite:///path or postgres://user:password@host/name")
	}
}

// Close ends all connections.
func (s *Store) Close() error { return s.db.Close() }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return s.run(ctx, "ping", func(ctx context.Context, db bun.IDB) error {
		var one int
		return db.NewSelect().ColumnExpr("1").Scan(ctx, &one)
	})
}

func (s *Store) postgres() bool { return s.db.Dialect().Name() == dialect.PG }

// locked makes a select hold the rows of table until the transaction ends.
// NO KEY leaves foreign keys that point at them alone, which would else wait
// for each other. On SQLite every transaction is the only writer anyway.
func (s *Store) locked(q *bun.SelectQuery, table string) *bun.SelectQuery {
	if s.postgres() {
		return q.For("NO KEY UPDATE OF ?", bun.Ident(table))
	}
	return q
}

// text is a string as both databases take it. What providers say can hold
// anything; a mark in place of a bad byte keeps "a\x00b" from becoming "ab".
func text(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// micro is a time as both databases keep it.
func micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
