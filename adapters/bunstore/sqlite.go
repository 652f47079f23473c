// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	_ "modernc.org/sqlite" // the driver
)

const defaultSQLiteConns = 4

func connectSQLite(raw string, o Options) (*bun.DB, error) {
	path, ok := strings.CutPrefix(raw, "sqlite://")
	memory := raw == Memory
	if !memory && (!ok || path == "") {
		return nil, fmt.Errorf("open database: a SQLite URL is sqlite:///path")
	}
	if !memory {
		if err := private(path); err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
	}
	db, err := sql.Open("sqlite", sqliteDSN(path, memory, cmp.Or(o.Synchronous, "NORMAL")))
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	most := cmp.Or(o.MaxConns, defaultSQLiteConns)
	if memory {
		most = 1 // each connection would be a database of its own
	}
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most) // opening one costs more than a read
	return bun.NewDB(db, sqlitedialect.New()), nil
}

// sqliteDSN asks for write transactions from the start: one that reads first
// could not be upgraded while another writes, and waiting would not help it.
func sqliteDSN(path string, memory bool, synchronous string) string {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(5000)", "foreign_keys(1)", "journal_mode(WAL)", "synchronous(" + synchronous + ")",
	}}
	if memory {
		return "file::memory:?" + q.Encode()
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// private makes the file before SQLite does, which would let others read it.
// The files beside it (WAL) inherit its mode.
func private(path string) error {
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
