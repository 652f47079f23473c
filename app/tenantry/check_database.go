// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/tenantry/tenantry/app/cli"
)

// openToOthers are the permissions that a file with customers' data or secrets
// should not have.
const openToOthers fs.FileMode = 0o077

const fixDatabase = "start the database, or correct database_url (`tenantry config` shows what is set)"

func (e *examination) database(ctx context.Context) finding {
	db, err := e.open()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return doubtful("run `tenantry migrate`, which makes it, or correct database_url",
			"there is no database yet: %s", strings.TrimPrefix(e.config.DatabaseURL, "sqlite://"))
	case errors.Is(err, fs.ErrPermission):
		return broken(cli.FixUser, "%s", cli.OneLine(err))
	case err != nil:
		return broken(fixDatabase, "%s", cli.OneLine(err))
	}
	if err := db.Writable(ctx); err != nil {
		fix := "give the database's user the right to write"
		if db.File != "" {
			fix = "make file and folder writable for the user of the service: " + db.File
		}
		return broken(fix, "%s %s can be read but not written: %s", db.Kind, db.Version, cli.OneLine(err))
	}
	if db.File == "" {
		return fine("%s %s answers and takes writes", db.Kind, db.Version)
	}
	if db.Mode&openToOthers != 0 {
		return doubtful("chmod 600 "+db.File, "%s is open to others (mode %#o)", db.File, db.Mode)
	}
	if db.Journal != "wal" {
		return doubtful("start `tenantry serve` once, which switches it", "%s has the journal mode %s instead of wal", db.File, db.Journal)
	}
	return fine("%s %s, %s, takes writes", db.Kind, db.Version, db.File)
}

func (e *examination) migrations(ctx context.Context) finding {
	db, err := e.open()
	if err != nil {
		return unchecked("database")
	}
	m, err := db.Migrations(ctx)
	if err == nil && len(m.Pending) == 0 && m.Closed == 0 {
		m.Pending, err = pendingQueue(ctx, e.config)
	}
	switch {
	case err != nil:
		return broken("if the database is not tenantry's, correct database_url", "the migrations cannot be read: %s", cli.OneLine(err))
	case m.Closed > 0:
		return broken("install a newer tenantry", "a newer tenantry migrated the database and closed it to this one (it asks for schema release %d)", m.Closed)
	case len(m.Pending) > 0 && db.File != "":
		return doubtful("run `tenantry migrate`, or start `tenantry serve`, which does it", "%d migrations are pending", len(m.Pending))
	case len(m.Pending) > 0:
		return broken(fixMigrations, "%d migrations are pending", len(m.Pending))
	case len(m.Newer) > 0:
		return fine("all %d applied, and %d of a newer tenantry that this one can live with", m.Applied, len(m.Newer))
	default:
		return fine("all %d applied", m.Applied)
	}
}
