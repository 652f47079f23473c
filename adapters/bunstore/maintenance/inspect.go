// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/migrations"
)

// Inspection is a database that is open for checks only. Unlike database.Open, Inspect does not
// create a database or change the journal mode. Inspect can run while other processes use the
// database.
type Inspection struct {
	Kind    string // SQLite or PostgreSQL
	Version string
	File    string      // SQLite: its path
	Mode    fs.FileMode // SQLite: the file's permissions
	Journal string      // SQLite: the journal mode, which database.Open sets to wal
	db      *bun.DB
	// fileWriteErr is the error of opening the SQLite file for writing, or nil.
	fileWriteErr error
}

// Inspect connects to a database. It returns fs.ErrNotExist for a missing SQLite file and
// fs.ErrPermission for a file that the user may not read. Other errors are plain text for the
// operator, without secrets.
func Inspect(ctx context.Context, url string) (*Inspection, error) {
	i := &Inspection{Kind: "PostgreSQL"}
	var db *bun.DB
	var err error
	versionQuery := "SHOW server_version"
	if strings.HasPrefix(url, "sqlite:") {
		i.Kind, versionQuery = "SQLite", "SELECT sqlite_version()"
		db, err = i.openFile(url)
	} else {
		db, err = database.OpenPool(url, database.Options{MaxConns: 2})
	}
	if err != nil {
		return nil, err
	}
	i.db = db
	if err = db.NewRaw(versionQuery).Scan(ctx, &i.Version); err == nil && i.File != "" {
		err = db.NewRaw("PRAGMA journal_mode").Scan(ctx, &i.Journal)
	}
	if err != nil {
		return nil, errors.Join(database.OperatorError(err), db.Close())
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
	// SQLite's own error does not say why it cannot read the file, and SQLite reports no error if
	// it cannot write the file. openFile therefore checks both accesses. It does so before SQLite
	// opens the file, because closing the file later would release SQLite's locks.
	if err := openAndClose(i.File, os.O_RDONLY); err != nil {
		return nil, err
	}
	i.fileWriteErr = openAndClose(i.File, os.O_RDWR)
	// The cache is small, so that SQLite writes the pages of checkDiskSpace to the disk although
	// checkDiskSpace does not commit.
	query := url.Values{"mode": {"rw"}, "_txlock": {"immediate"}, "_pragma": {"busy_timeout(3000)", "cache_size(10)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: i.File}).EscapedPath()+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return bun.NewDB(db, sqlitedialect.New()), nil
}

// openAndClose opens an existing file with a flag of os.OpenFile, and closes it. It returns the
// first error.
func openAndClose(path string, flag int) error {
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// Close closes the connections.
func (i *Inspection) Close() error { return i.db.Close() }

// Writable returns an error if the database does not accept writes. The error is fs.ErrPermission
// for a SQLite file that the user may not write, and database.ErrDiskFull if the disk has no space.
// Writable rolls its transaction back. While it runs, it holds the write lock of SQLite.
func (i *Inspection) Writable(ctx context.Context) error {
	if i.fileWriteErr != nil { // SQLite would begin a read transaction without an error
		return i.fileWriteErr
	}
	tx, err := i.db.BeginTx(ctx, nil)
	if err != nil {
		return database.OperatorError(err)
	}
	defer func() { _ = tx.Rollback() }()
	if database.IsPostgres(i.db) {
		err = checkPrivileges(ctx, tx)
	}
	if err == nil {
		err = checkDiskSpace(ctx, tx)
	}
	if err != nil {
		return database.OperatorError(err)
	}
	return nil
}

// checkPrivileges returns an error if the PostgreSQL user may not write the table schema_release.
// It runs an update that changes no row. If the database was never migrated, it checks the
// privilege to create tables.
func checkPrivileges(ctx context.Context, tx bun.Tx) error {
	exists, err := database.HasTable(ctx, tx, "schema_release")
	if err == nil && exists {
		_, err = tx.NewRaw("UPDATE schema_release SET min_release = min_release WHERE false").Exec(ctx)
	} else if err == nil {
		err = checkMayCreate(ctx, tx)
	}
	return err
}

// checkDiskSpace returns an error if the disk has no space for 256 kB, which is more than most
// transactions of the service write. It fills a new table, which needs new pages, and relies on the
// caller to roll the transaction back. On PostgreSQL the table is temporary: PostgreSQL allocates
// its pages at once, and writes no log for it. SQLite has temporary tables in a different file, so
// there the table is not temporary. Its pages do not fit into SQLite's cache, so SQLite writes them
// to its log.
func checkDiskSpace(ctx context.Context, tx bun.Tx) error {
	create := []string{"CREATE TABLE doctor_disk_space (filler TEXT)"}
	if database.IsPostgres(tx) {
		create = []string{"SET LOCAL temp_tablespaces = ''", "CREATE TEMPORARY TABLE doctor_disk_space (filler TEXT)"}
	}
	for _, statement := range create {
		if _, err := tx.NewRaw(statement).Exec(ctx); database.Forbidden(err) {
			return nil // the user may not create temporary tables, so the space stays unchecked
		} else if err != nil {
			return err
		}
	}
	_, err := tx.NewRaw(`INSERT INTO doctor_disk_space
		WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 256) SELECT ? FROM numbers`,
		strings.Repeat("x", 1000)).Exec(ctx)
	return err
}

func checkMayCreate(ctx context.Context, tx bun.Tx) error {
	var mayCreate sql.NullBool
	if err := tx.NewRaw("SELECT has_schema_privilege(current_schema(), 'CREATE')").Scan(ctx, &mayCreate); err != nil {
		return err
	}
	if !mayCreate.Bool {
		return errors.New("the user may not create tables")
	}
	return nil
}

// Migrations are the migrations of a database, compared with the migrations of this binary.
type Migrations struct {
	Applied        int
	Pending, Newer []string // Newer lists the applied migrations that this binary does not have
	// RequiredRelease is the schema release that the database requires if this binary is too old,
	// otherwise 0.
	RequiredRelease int
}

// Migrations reads which migrations were applied to the database, and which release the database
// requires.
func (i *Inspection) Migrations(ctx context.Context) (Migrations, error) {
	var m Migrations
	set, err := database.Discover()
	if err != nil {
		return m, err
	}
	applied, err := appliedMigrations(ctx, i.db)
	if err != nil {
		return m, database.OperatorError(err)
	}
	for _, migration := range set.Sorted() {
		if index := slices.Index(applied, migration.Name); index >= 0 {
			m.Applied++
			applied = slices.Delete(applied, index, index+1)
			continue
		}
		m.Pending = append(m.Pending, migration.Name+"_"+migration.Comment)
	}
	m.Newer = applied
	if m.Applied == 0 {
		return m, nil
	}
	var requiredRelease int
	if err := i.db.NewRaw("SELECT min_release FROM schema_release").Scan(ctx, &requiredRelease); err != nil {
		return m, database.OperatorError(err)
	}
	if requiredRelease > migrations.Release {
		m.RequiredRelease = requiredRelease
	}
	return m, nil
}

// HasSealedValues returns the result of database.HasSealedValues.
func (i *Inspection) HasSealedValues(ctx context.Context) (bool, error) {
	sealed, err := database.HasSealedValues(ctx, i.db)
	if err != nil {
		return false, database.OperatorError(err)
	}
	return sealed, nil
}

// SealedPrefixes returns the result of database.SealedPrefixes.
func (i *Inspection) SealedPrefixes(ctx context.Context) (map[string][][]byte, error) {
	prefixes, err := database.SealedPrefixes(ctx, i.db)
	if err != nil {
		return nil, database.OperatorError(err)
	}
	return prefixes, nil
}

// ClockSkew returns how far the server's clock is ahead of this machine's clock. It returns false
// for SQLite, which has no server.
func (i *Inspection) ClockSkew(ctx context.Context) (time.Duration, bool, error) {
	if !database.IsPostgres(i.db) {
		return 0, false, nil
	}
	var serverTime time.Time
	began := time.Now()
	if err := i.db.NewRaw("SELECT clock_timestamp()").Scan(ctx, &serverTime); err != nil {
		return 0, true, database.OperatorError(err)
	}
	return serverTime.Sub(began.Add(time.Since(began) / 2)), true, nil
}
