// SPDX-License-Identifier: Apache-2.0

// Package database runs statements on PostgreSQL and SQLite, with the bun query builder. It opens
// both databases, migrates their schemas, limits, retries and traces statements and transactions,
// and translates errors. It does not know the row types of the store.
//
// Start reading at Open, then transaction.go.
//
//	open.go         Options, DB, Open, the connections to both databases
//	transaction.go  RunRead, RunWrite, Transaction, Snapshot: timeouts, retries, slots, row locks
//	errors.go       the databases' errors translated into errors of this package
//	operator.go     the databases' errors as texts for the operator
//	prepared.go     prepared statements for the most frequent reads
//	tracing.go      spans and the duration metric of each statement
//	migrate.go      ApplyMigrations, PendingMigrations, Discover, check of the schema's release
//	sealed.go       HasSealedValues, SealedPrefixes
package database

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	_ "modernc.org/sqlite" // the driver
)

// MemoryURL is the URL of a new SQLite database that is kept in memory until its DB is closed.
const MemoryURL = "sqlite::memory:"

// Options configures a DB. The zero value is valid.
type Options struct {
	Log *slog.Logger
	// MaxConns limits the number of connections. The default is 20 on PostgreSQL and 4 on SQLite.
	// On PostgreSQL 1 counts as 2, because the migration lock uses a connection. A database in
	// memory always has 1.
	MaxConns int
	// Synchronous is SQLite's synchronous pragma. The default, NORMAL, can lose the last commits in
	// a power failure, but not in a crash of the process. FULL does not lose commits.
	Synchronous string
	// RequirePrimary makes connections to a standby of PostgreSQL fail. The URL's parameter
	// target_session_attrs takes precedence unless its value is any. The service sets
	// RequirePrimary, because after a failover its pool could otherwise fill with connections to
	// the former primary.
	RequirePrimary bool
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	Timeouts       Timeouts
}

// Timeouts limit how long a DB waits. A zero field stands for its default.
type Timeouts struct {
	// Open is the time limit of the first read, which waits for the first connection. The default
	// is 45 seconds.
	Open time.Duration
	// Query is the time limit of each attempt of a statement or transaction. Without it, requests
	// would wait forever for a database that accepts connections and does not answer. The default
	// is 10 seconds.
	Query time.Duration
	// Slot is how long statements and transactions on PostgreSQL wait for a free connection, and
	// how long writes on SQLite wait for other writers. The default is 3 seconds.
	Slot time.Duration
}

// DB is a bun.DB with methods that limit and retry statements. It is safe for concurrent use.
// Statements on the embedded bun.DB are traced, but neither limited nor retried.
type DB struct {
	*bun.DB
	hooks    []bun.QueryHook
	log      *slog.Logger
	timeouts Timeouts
	// connSlots limits how many statements and transactions run at once on PostgreSQL. It is nil on
	// SQLite. writeSlot admits one writer at a time on SQLite. It is nil on PostgreSQL.
	connSlots, writeSlot chan struct{}

	execMode pgx.QueryExecMode // how PostgreSQL's driver runs prepared reads
}

// Open connects to sqlite:///path, MemoryURL or postgres://… It fails with ErrTooOld if the schema
// requires a newer release. It does not migrate. hooks run for every statement.
func Open(ctx context.Context, url string, o Options, hooks ...bun.QueryHook) (*DB, error) {
	pool, err := OpenPool(url, o)
	if err != nil {
		return nil, err
	}
	timeouts := Timeouts{cmp.Or(o.Timeouts.Open, 45*time.Second), cmp.Or(o.Timeouts.Query, 10*time.Second), cmp.Or(o.Timeouts.Slot, 3*time.Second)}
	opened := &DB{DB: pool, log: o.Log, timeouts: timeouts}
	if IsPostgres(pool) {
		opened.connSlots = make(chan struct{}, pool.Stats().MaxOpenConnections)
	} else {
		opened.writeSlot = make(chan struct{}, 1)
	}
	if opened.log == nil {
		opened.log = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(opened.addHooks(o, hooks), opened.readExecMode(url)); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	opened.timeouts.Query = timeouts.Open
	if err := opened.checkRelease(ctx); err != nil {
		_ = opened.Close()
		return nil, err
	}
	opened.timeouts.Query = timeouts.Query
	return opened, nil
}

func (d *DB) addHooks(o Options, hooks []bun.QueryHook) error {
	traced, err := newTracing(d.telemetryName(), o)
	d.hooks = append(hooks, traced)
	for _, hook := range d.hooks {
		d.DB = d.WithQueryHook(hook)
	}
	return err
}

// telemetryName returns the name of the database system for spans and metrics.
func (d *DB) telemetryName() string {
	if IsPostgres(d) {
		return "postgresql"
	}
	return "sqlite"
}

// OpenPool returns a pool, which opens its connections when they are first needed. Its statements
// have no hooks. OpenPool uses only the options MaxConns, Synchronous and RequirePrimary. It
// creates the file of a SQLite database if the file does not exist.
func OpenPool(url string, o Options) (*bun.DB, error) {
	if err := CheckURL(url); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if strings.HasPrefix(url, "sqlite:") {
		return connectSQLite(url, o)
	}
	return connectPostgres(url, o)
}

// CheckURL returns an error if url is not the URL of a database that Open supports, or if a file
// that a PostgreSQL URL names, such as a certificate, cannot be read. The error does not quote url,
// which may contain a password.
func CheckURL(url string) error {
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "sqlite":
		if url != MemoryURL && (!strings.HasPrefix(rest, "//") || rest == "//") {
			return errors.New("a SQLite URL is sqlite:///path")
		}
		return nil
	case "postgres", "postgresql":
		_, err := parsePostgresURL(url)
		return err
	default:
		return errors.New("a database URL is sqlite:///path or postgres://user:password@host/name")
	}
}

// Ping returns an error if the database does not answer.
func (d *DB) Ping(ctx context.Context) error {
	return d.RunRead(ctx, "ping", func(ctx context.Context, db bun.IDB) error {
		var result int
		return db.NewSelect().ColumnExpr("1").Scan(ctx, &result)
	})
}

// IsPostgres reports whether db is a PostgreSQL database. If not, it is a SQLite database.
func IsPostgres(db bun.IDB) bool { return db.Dialect().Name() == dialect.PG }

const defaultSQLiteConns = 4

func connectSQLite(raw string, o Options) (*bun.DB, error) {
	path, inMemory := strings.TrimPrefix(raw, "sqlite://"), raw == MemoryURL
	if !inMemory {
		if err := createPrivateFile(path); err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
	}
	db, err := sql.Open("sqlite", sqliteDSN(path, inMemory, cmp.Or(o.Synchronous, "NORMAL")))
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	maxConns := cmp.Or(o.MaxConns, defaultSQLiteConns)
	if inMemory {
		maxConns = 1 // each connection would open a separate database
	}
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns) // opening a connection costs more than a read
	return bun.NewDB(db, sqlitedialect.New()), nil
}

// sqliteDSN returns the address of a SQLite database for the driver. Transactions that are not
// read-only take the write lock when they begin, because SQLite cannot turn a reading transaction
// into a writing transaction while a different transaction writes.
func sqliteDSN(path string, inMemory bool, synchronous string) string {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(5000)", "foreign_keys(1)", "journal_mode(WAL)", "synchronous(" + synchronous + ")",
	}}
	if inMemory {
		return "file::memory:?" + q.Encode()
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// createPrivateFile creates the file and its folder if they do not exist, and sets the mode of the
// file to 0600. SQLite itself would create a file that other users can read. SQLite gives its WAL
// files the mode of the database file.
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

// maxConnLifetime is the maximum age of a connection to PostgreSQL. It limits how long a connection
// that is only used for reads can lead to a former primary. Other connections are replaced when the
// server refuses a write.
const maxConnLifetime = 10 * time.Minute

// parsePostgresURL parses a URL, and reads the files that the URL names, such as certificates. Its
// errors do not contain the driver's text, which could quote the password.
func parsePostgresURL(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	var file *fs.PathError
	switch {
	case errors.As(err, &file):
		return nil, fmt.Errorf("a file that the postgres URL names cannot be read: %w", file)
	case err != nil:
		return nil, errors.New("the postgres URL cannot be read; check its parameters, and percent-encode special characters of the password")
	}
	return config, nil
}

// connectPostgres returns a pool that has no connection yet. Statements other than prepared reads
// use the simple protocol of PostgreSQL: bun writes values into the SQL text, so prepared
// statements would rarely be reused. The settings standard_conforming_strings and client_encoding
// make PostgreSQL read quoted values as bun writes them.
func connectPostgres(url string, o Options) (*bun.DB, error) {
	config, err := parsePostgresURL(url)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.RuntimeParams["standard_conforming_strings"] = "on"
	config.RuntimeParams["client_encoding"] = "UTF8"
	config.RuntimeParams["timezone"] = "UTC"
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "tenantry"
	}
	if o.RequirePrimary && config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	}
	isUsable := config.OnPgError
	config.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		return isUsable(conn, err) && err.Code != readOnlyCode // a new connection may lead to the primary
	}
	db := stdlib.OpenDB(*config)
	maxConns := max(2, cmp.Or(o.MaxConns, defaultPostgresConns))
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	db.SetConnMaxLifetime(maxConnLifetime)
	return bun.NewDB(db, pgdialect.New()), nil
}
