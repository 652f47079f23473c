// SPDX-License-Identifier: Apache-2.0

// Package bunstore implements the store ports on PostgreSQL and SQLite, with the bun query builder.
// One Store implements every store port. A method is one statement or one transaction, and every
// condition names the account that owns the rows.
//
// Start reading at Open in store.go, then transaction.go, then one resource such as domains.go. Row
// types and helpers are in the same file as the queries that use them.
//
//	store.go              Options, Store, Open, the connections to both databases
//	transaction.go        run, inTransaction, snapshot: timeouts, retries, connection slots
//	errors.go             the databases' errors translated into errors of this package
//	prepared.go           prepared statements for the most frequent reads
//	tracing.go            spans and the duration metric of each statement
//	migrate.go            Migrate, Pending, the check of the schema's release
//	inspect.go            Inspect: read-only checks of a database for the operator
//	dump.go, load.go      Snapshot and Load: logical backup and restore
//	accounts.go           accounts: create, change, suspend, close
//	apikeys.go            API keys and account members
//	audit.go              the operators' own log
//	auditchain.go         the chain of audit entries of each account
//	auditacts.go          acts of requests: stored with the change, ended with the answer
//	idempotency.go        Idempotency-Key records, their leases and stored answers
//	connectflows.go       consent flows that connect a tenant
//	tenants.go            tenants, attaching, managed assignments
//	domains.go            domains, reservations, stale DNS checks
//	mailboxes.go          mailboxes and reservations
//	discovery.go          merging the platform's lists into domains and mailboxes
//	dnsconnections.go     connections to DNS providers, records written through them
//	dnsruns.go            provisioning runs and jobs
//	integrations.go       integrations with sending platforms
//	connections.go        mailbox connections to an integration
//	sessions.go           OAuth sessions of mailboxes
//	sendlimits.go         send limit policies
//	sendruns.go           enforcement runs: due tenants, leases, time zones
//	sendcounts.go         counts of sent messages, licences, health of enforcement
//	sendblocks.go         blocked mailboxes, block reasons, intents
//	enforcementevents.go  the log of enforcement events and its counts
//	events.go             the log of events of each account
//	changes.go            the events of changed objects; deleting domains and mailboxes
//	readiness.go          the readiness of tenants that events have shown
//	webhooks.go           webhooks and their positions in the log
//	webhookdeliveries.go  deliveries of events to webhooks
package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	_ "modernc.org/sqlite" // the driver

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// Memory is the URL of a new SQLite database that is kept in memory until its Store is closed.
const Memory = "sqlite::memory:"

// Options configures a Store. The zero value is valid.
type Options struct {
	Log *slog.Logger
	// MaxConns limits the number of connections. The default is 20 on PostgreSQL and 4 on SQLite.
	// PostgreSQL needs at least 2, because the migration lock holds one.
	MaxConns int
	// Synchronous is SQLite's synchronous pragma. The default, NORMAL, can lose the last commits at
	// a power loss but not at a crash. FULL loses none.
	Synchronous string
	// Operator is the name that audit events record for changes made through this Store.
	Operator string
	// Now is the clock of events, time.Now by default.
	Now func() time.Time
	// AllowNoSMTPAuth is true if operators accept tenants without SMTP AUTH, so that it is no
	// condition of the readiness that events show.
	AllowNoSMTPAuth bool
	TracerProvider  trace.TracerProvider
	MeterProvider   metric.MeterProvider

	openTimeout time.Duration // only tests set it; openTimeout by default
}

// Store implements the store ports on one database. It is safe for concurrent use.
type Store struct {
	db                     *bun.DB
	hooks                  []bun.QueryHook
	log                    *slog.Logger
	operator               string
	now                    func() time.Time
	requireSMTPAuth        bool
	eventsLogged           chan struct{} // see EventsLogged
	queryTimeout, connWait time.Duration
	// connSlots limits how many statements use a connection at once; nil on SQLite. writeSlot
	// admits one writer at a time on SQLite; nil on PostgreSQL.
	connSlots, writeSlot chan struct{}

	execMode       pgx.QueryExecMode // of PostgreSQL's driver
	callerByHash   *preparedRead
	tenantsOfOwner *preparedRead
}

var _ interface {
	ports.Accounts
	ports.IssuedKeys
	ports.Keys
	ports.AccountKeys
	ports.Tenants
	ports.Assignments
	ports.Discoveries
	ports.Domains
	ports.DomainChecks
	ports.MailboxStore
	ports.Removals
	ports.ConnectFlows
	ports.ConnectSessions
	ports.AccountSettings
	ports.DNSConnections
	ports.DNSWrites
	ports.DNSRuns
	ports.DNSJobs
	ports.Integrations
	ports.Connections
	ports.SendPolicies
	ports.TenantTimeZones
	ports.SendRuns
	ports.EnforcementEvents
	ports.Audit
	ports.AuditChains
	ports.EventLogs
	ports.Webhooks
	ports.Deliveries
	ports.WebhookWatch
	ports.Idempotency
} = (*Store)(nil)

// Open connects to sqlite:///path, Memory or postgres://… It fails with ErrTooOld if a newer
// release has closed the database to this release. It does not migrate.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	return open(ctx, url, o)
}

func open(ctx context.Context, url string, o Options, hooks ...bun.QueryHook) (*Store, error) {
	db, err := connect(url, o)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, log: o.Log, operator: storedText(cmp.Or(o.Operator, "unknown")), now: o.Now, eventsLogged: make(chan struct{}, 1), requireSMTPAuth: !o.AllowNoSMTPAuth, queryTimeout: cmp.Or(o.openTimeout, openTimeout), connWait: connWait}
	if s.postgres() {
		s.connSlots = make(chan struct{}, db.Stats().MaxOpenConnections)
	} else {
		s.writeSlot = make(chan struct{}, 1)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(s.addHooks(o, hooks), s.prepare(url)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := s.checkRelease(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	s.queryTimeout = queryTimeout
	return s, nil
}

// addHooks adds hooks to every statement. The hook that notes changes and the tracing hook come
// last.
func (s *Store) addHooks(o Options, hooks []bun.QueryHook) error {
	traced, err := newTracing(s.telemetryName(), o)
	s.hooks = append(hooks, changeHook{}, traced)
	for _, hook := range s.hooks {
		s.db = s.db.WithQueryHook(hook)
	}
	return err
}

// telemetryName returns the database's name in spans and metrics.
func (s *Store) telemetryName() string {
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
		// The URL is not quoted: it may hold a password.
		return nil, fault.InvalidRequest.With("a database URL is sqlite:///path or postgres://user:password@host/name")
	}
}

// Close closes all connections.
func (s *Store) Close() error { return s.db.Close() }

// Ping returns an error if the database does not answer.
func (s *Store) Ping(ctx context.Context) error {
	return s.run(ctx, "ping", func(ctx context.Context, db bun.IDB) error {
		var one int
		return db.NewSelect().ColumnExpr("1").Scan(ctx, &one)
	})
}

func (s *Store) postgres() bool { return s.db.Dialect().Name() == dialect.PG }

// lockRows makes a select lock the rows of table until the transaction ends. NO KEY UPDATE does not
// conflict with the lock of a foreign key check. On SQLite a transaction is the only writer, so no
// lock is needed.
func (s *Store) lockRows(q *bun.SelectQuery, table string) *bun.SelectQuery {
	if s.postgres() {
		return q.For("NO KEY UPDATE OF ?", bun.Ident(table))
	}
	return q
}

// storedText replaces bytes that PostgreSQL rejects, because texts from providers can contain
// anything. It inserts a mark instead of deleting the byte, so that "a\x00b" does not become "ab".
func storedText(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// storedTime returns t in UTC and with the microsecond precision of both databases.
func storedTime(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

const defaultSQLiteConns = 4

func connectSQLite(raw string, o Options) (*bun.DB, error) {
	path, ok := strings.CutPrefix(raw, "sqlite://")
	memory := raw == Memory
	if !memory && (!ok || path == "") {
		return nil, fmt.Errorf("open database: a SQLite URL is sqlite:///path")
	}
	if !memory {
		if err := createPrivateFile(path); err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
	}
	db, err := sql.Open("sqlite", sqliteDSN(path, memory, cmp.Or(o.Synchronous, "NORMAL")))
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	maxConns := cmp.Or(o.MaxConns, defaultSQLiteConns)
	if memory {
		maxConns = 1 // each connection would open a separate database
	}
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns) // opening a connection costs more than a read
	return bun.NewDB(db, sqlitedialect.New()), nil
}

// sqliteDSN returns the driver's address of a file. It makes transactions take the write lock when
// they begin, because SQLite cannot upgrade a reading transaction while a different transaction
// writes.
func sqliteDSN(path string, memory bool, synchronous string) string {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(5000)", "foreign_keys(1)", "journal_mode(WAL)", "synchronous(" + synchronous + ")",
	}}
	if memory {
		return "file::memory:?" + q.Encode()
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// createPrivateFile creates the file with mode 0600. SQLite itself would create a file that other
// users can read. SQLite's WAL files inherit the mode.
func createPrivateFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Chmod(0o600)
}

const defaultPostgresConns = 20

// errUnreadableURL replaces the driver's own error, which could quote the password.
var errUnreadableURL = errors.New("open database: the postgres URL cannot be read")

// connectPostgres returns a pool that has no connection yet. It uses the simple protocol: bun
// writes values into the SQL text, so a prepared statement would never be reused. The quoting rules
// are fixed to those that bun assumes.
func connectPostgres(url string, o Options) (*bun.DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errUnreadableURL
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.RuntimeParams["standard_conforming_strings"] = "on"
	config.RuntimeParams["client_encoding"] = "UTF8"
	config.RuntimeParams["timezone"] = "UTC"
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "tenantry"
	}
	db := stdlib.OpenDB(*config)
	maxConns := max(2, cmp.Or(o.MaxConns, defaultPostgresConns))
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	return bun.NewDB(db, pgdialect.New()), nil
}
