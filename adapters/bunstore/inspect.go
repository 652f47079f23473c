// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/migrate"

	"github.com/tenantry/tenantry/migrations"
)

// Inspection is a database that is only looked at: unlike Open, Inspect makes
// no file, changes no pragma and migrates nothing, also while others work on
// the database.
type Inspection struct {
	Kind    string // SQLite or PostgreSQL
	Version string
	File    string      // SQLite: where it is
	Mode    fs.FileMode // SQLite: the file's permissions
	Journal string      // SQLite: the journal mode, wal in ours
	store   *Store
}

// Inspect connects to a database. It reports fs.ErrNotExist for a SQLite file
// that is not there, and fs.ErrPermission for one that this user may not read;
// other errors are words for people, without a secret.
func Inspect(ctx context.Context, url string) (*Inspection, error) {
	i := &Inspection{Kind: "PostgreSQL"}
	var db *bun.DB
	var err error
	ask := "SHOW server_version"
	if strings.HasPrefix(url, "sqlite:") {
		i.Kind, ask = "SQLite", "SELECT sqlite_version()"
		db, err = i.openFile(url)
	} else {
		db, err = connect(url, Options{MaxConns: 2})
	}
	if err != nil {
		return nil, err
	}
	i.store = &Store{db: db}
	if err = db.NewRaw(ask).Scan(ctx, &i.Version); err == nil && i.File != "" {
		err = db.NewRaw("PRAGMA journal_mode").Scan(ctx, &i.Journal)
	}
	if err != nil {
		return nil, errors.Join(inWords(url, err), db.Close())
	}
	return i, nil
}

func (i *Inspection) openFile(address string) (*bun.DB, error) {
	i.File = strings.TrimPrefix(address, "sqlite://")
	info, err := os.Stat(i.File)
	if err != nil {
		return nil, err
	}
	i.Mode = info.Mode().Perm()
	if f, err := os.Open(i.File); err != nil { // SQLite does not say why it cannot
		return nil, err
	} else if err := f.Close(); err != nil {
		return nil, err
	}
	query := url.Values{"mode": {"rw"}, "_txlock": {"immediate"}, "_pragma": {"busy_timeout(3000)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: i.File}).EscapedPath()+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return bun.NewDB(db, sqlitedialect.New()), nil
}

// Close ends the connections.
func (i *Inspection) Close() error { return i.store.Close() }

// Writable begins a write and takes it back.
func (i *Inspection) Writable(ctx context.Context) error {
	tx, err := i.store.db.BeginTx(ctx, nil) // on SQLite this takes the lock for writing
	if err != nil {
		return inWords("", err)
	}
	defer func() { _ = tx.Rollback() }()
	if !i.store.postgres() {
		return nil
	}
	ready, err := i.store.hasTable(ctx, tx, "schema_release")
	if err == nil && ready {
		_, err = tx.NewRaw("UPDATE schema_release SET min_release = min_release WHERE false").Exec(ctx)
	} else if err == nil {
		err = mayCreate(ctx, tx)
	}
	if err != nil {
		return inWords("", err)
	}
	return nil
}

func mayCreate(ctx context.Context, tx bun.Tx) error {
	var may sql.NullBool
	if err := tx.NewRaw("SELECT has_schema_privilege(current_schema(), 'CREATE')").Scan(ctx, &may); err != nil {
		return err
	}
	if !may.Bool {
		return errors.New("the user may not create tables")
	}
	return nil
}

// Migrations compares the migrations of a database with this binary's.
type Migrations struct {
	Applied        int
	Pending, Newer []string
	// Closed is the release that the database asks for, where it is closed to
	// this binary.
	Closed int
	// InUse tells that there are accounts.
	InUse bool
}

// Migrations reads which migrations the database has.
func (i *Inspection) Migrations(ctx context.Context) (Migrations, error) {
	var m Migrations
	set := migrate.NewMigrations()
	if err := set.Discover(migrations.Files); err != nil {
		return m, fmt.Errorf("read migrations: %w", err)
	}
	applied, err := i.applied(ctx)
	if err != nil {
		return m, inWords("", err)
	}
	for _, ours := range set.Sorted() {
		if _, there := applied[ours.Name]; there {
			m.Applied++
			delete(applied, ours.Name)
			continue
		}
		m.Pending = append(m.Pending, ours.Name+"_"+ours.Comment)
	}
	for name := range applied {
		m.Newer = append(m.Newer, name)
	}
	if m.Applied == 0 {
		return m, nil
	}
	var oldest int
	if err := i.store.db.NewRaw("SELECT min_release FROM schema_release").Scan(ctx, &oldest); err != nil {
		return m, inWords("", err)
	}
	if oldest > migrations.Release {
		m.Closed = oldest
	}
	return m, i.store.db.NewRaw("SELECT EXISTS (SELECT 1 FROM accounts)").Scan(ctx, &m.InUse)
}

func (i *Inspection) applied(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	there, err := i.store.hasTable(ctx, i.store.db, "bun_migrations")
	if err != nil || !there {
		return all, err
	}
	var names []string
	err = i.store.db.NewRaw("SELECT name FROM bun_migrations").Scan(ctx, &names)
	for _, name := range names {
		all[name] = true
	}
	return all, err
}

// Ahead tells how far the server's clock is before ours. It reports false for
// SQLite, which has none.
func (i *Inspection) Ahead(ctx context.Context) (time.Duration, bool, error) {
	if !i.store.postgres() {
		return 0, false, nil
	}
	var there time.Time
	began := time.Now()
	if err := i.store.db.NewRaw("SELECT clock_timestamp()").Scan(ctx, &there); err != nil {
		return 0, true, inWords("", err)
	}
	return there.Sub(began.Add(time.Since(began) / 2)), true, nil
}

// inWords says what is wrong with a database in words for the operator. What
// the servers say does not hold the password.
func inWords(address string, err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the database does not answer in time")
	case errors.As(err, &pg) && (pg.Code == "28P01" || pg.Code == "28000"):
		return errors.New("the server refuses the user or its password")
	case errors.As(err, &pg) && pg.Code == "3D000":
		return errors.New("the server has no such database")
	case errors.As(err, &pg) && pg.Code == "25006":
		return errors.New("the server takes no writes: it is a standby, or read-only")
	case errors.As(err, &pg):
		return fmt.Errorf("the server says %s (%s)", pg.Message, pg.Code)
	case unreachable(err):
		return fmt.Errorf("the server does not answer%s%s", at(address), because(err))
	default:
		return err
	}
}

// because tells the usual reasons of a connection that does not come about.
func because(err error) string {
	var untrusted *tls.CertificateVerificationError
	var unknown *net.DNSError
	var failed *net.OpError
	switch {
	case errors.As(err, &untrusted):
		return ": its certificate is not trusted"
	case strings.Contains(err.Error(), "refused TLS"):
		return ": it offers no TLS, and sslmode asks for it"
	case errors.As(err, &unknown):
		return ": its name does not resolve"
	case errors.As(err, &failed):
		return ": " + failed.Err.Error()
	default:
		return ""
	}
}

func at(address string) string {
	config, err := pgx.ParseConfig(address)
	if err != nil || address == "" {
		return ""
	}
	return " at " + net.JoinHostPort(config.Host, fmt.Sprint(cmp.Or(config.Port, 5432)))
}
