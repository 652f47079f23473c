// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/wiring"
)

// groupAndOtherPerm are the permission bits that the SQLite file must not have, because it contains
// customers' data.
const groupAndOtherPerm fs.FileMode = 0o077

const fixDatabase = "start the database and check its disk and memory, or correct database_url (`tenantry config` shows its value)"

// checkDatabase checks that the database answers and accepts writes. For SQLite it also checks the
// permissions of the file and the journal mode.
func (e *examination) checkDatabase(ctx context.Context) finding {
	if problem := e.settingProblems["database_url"]; problem != "" {
		return failedFinding("correct database_url (TENANTRY_DATABASE_URL)", "%s", problem)
	}
	db, err := e.openDatabase()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return warningFinding("run `tenantry migrate`, which creates the database, or correct database_url",
			"there is no database yet: %s", strings.TrimPrefix(e.config.DatabaseURL, "sqlite://"))
	case errors.Is(err, fs.ErrPermission):
		return failedFinding(cli.FixFileAccess, "%s", cli.FirstLine(err))
	case err != nil:
		return failedFinding(fixDatabase, "%s", cli.FirstLine(err))
	}
	if err := db.Writable(ctx); err != nil {
		fix := "give the database user the privilege to write"
		switch {
		case errors.Is(err, database.ErrDiskFull):
			fix = "free space on the disk of the database, or enlarge the disk"
		case errors.Is(err, fs.ErrPermission):
			fix = cli.FixFileAccess
		case db.File != "":
			fix = "make file and folder writable for the user of the service: " + db.File
		}
		return failedFinding(fix, "%s %s can be read but not written: %s", db.Kind, db.Version, cli.FirstLine(err))
	}
	if db.File == "" {
		return okFinding("%s %s answers and accepts writes", db.Kind, db.Version)
	}
	if db.Mode&groupAndOtherPerm != 0 {
		return warningFinding("chmod 600 "+db.File, "%s is open to users other than its owner (mode %#o)", db.File, db.Mode)
	}
	if db.Journal != "wal" {
		return warningFinding("start `tenantry serve` once, which changes the journal mode", "%s has the journal mode %s instead of wal", db.File, db.Journal)
	}
	return okFinding("%s %s, %s, accepts writes", db.Kind, db.Version, db.File)
}

// checkMigrations checks that all migrations of this version are applied, for the tables and for
// the job queue.
func (e *examination) checkMigrations(ctx context.Context) finding {
	db, err := e.openDatabase()
	if err != nil {
		return skippedFinding("database")
	}
	m, err := db.Migrations(ctx)
	if err == nil && len(m.Pending) == 0 && m.RequiredRelease == 0 {
		m.Pending, err = wiring.PendingQueueMigrations(ctx, e.config)
	}
	switch {
	case err != nil:
		return failedFinding("if the database is not tenantry's, correct database_url", "the migrations cannot be read: %s", cli.FirstLine(err))
	case m.RequiredRelease > 0:
		return failedFinding("install a newer tenantry", "a newer tenantry migrated the database, and this version is too old for it (it needs schema release %d)", m.RequiredRelease)
	case len(m.Pending) > 0 && db.File != "":
		return warningFinding("run `tenantry migrate`, or start `tenantry serve`, which migrates too", "%d migrations are pending", len(m.Pending))
	case len(m.Pending) > 0:
		return failedFinding(wiring.FixMigrations, "%d migrations are pending", len(m.Pending))
	case len(m.Newer) > 0:
		return okFinding("all %d applied, and %d compatible migrations of a newer tenantry", m.Applied, len(m.Newer))
	default:
		return okFinding("all %d applied", m.Applied)
	}
}

// checkRedis checks that Redis answers, if it is configured.
func (e *examination) checkRedis(ctx context.Context) finding {
	if problem := e.settingProblems["redis_url"]; problem != "" {
		return failedFinding("correct redis_url (TENANTRY_REDIS_URL): redis://:PASSWORD@HOST:6379/0, or rediss:// with TLS", "%s", problem)
	}
	if e.config.RedisURL == "" {
		return okFinding("not configured: counters are kept in the process")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := limiter.Ping(ctx, e.config.RedisURL); err != nil {
		return failedFinding("start Redis, or correct redis_url (TENANTRY_REDIS_URL), its password included", "Redis does not answer: %s", cli.FirstLine(err))
	}
	return okFinding("Redis answers")
}
