// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tenantry/tenantry/core/fault"
)

// What the two databases say in their own ways. A duplicate and a parent that
// is gone are tried again like any lost race: the second look finds the
// other's row, or no tenant.
var (
	errDuplicate = errors.New("the row exists")
	errLost      = errors.New("lost against another transaction")
	errNoParent  = errors.New("the row that this one belongs to does not exist")
	errAway      = errors.New("the database does not answer")
	errNoPlace   = fmt.Errorf("%w: all connections are in use", errAway)
)

const awayRetry = 5 * time.Second

// translate is the one place that knows the databases' own errors. The end of
// the caller's context passes through as it is.
func translate(ctx context.Context, err error) error {
	var refusal *fault.Error
	if errors.As(err, &refusal) {
		return err
	}
	if over := ended(ctx); over != nil {
		return over
	}
	if kind := kindOf(err); kind != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

// ended is why ctx is over, or nil. A connection notices the deadline by a
// timer of its own, which may go off just before that of ctx.
func ended(ctx context.Context) error {
	if deadline, has := ctx.Deadline(); has && ctx.Err() == nil && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

func kindOf(err error) error {
	var pg *pgconn.PgError
	var lite *sqlite.Error
	switch {
	case errors.As(err, &pg):
		return postgresKind(pg.Code)
	case errors.As(err, &lite):
		return sqliteKind(lite.Code())
	case unreachable(err):
		return errAway
	default:
		return nil
	}
}

func postgresKind(code string) error {
	switch code {
	case "23505":
		return errDuplicate
	case "23503":
		return errNoParent
	case "40001", "40P01", "55P03", // serialization, deadlock, lock not available
		"0A000": // a prepared statement's columns are those of the schema before a migration; the driver drops it
		return errLost
	case "57P01", "57P02", "57P03", "53300", "25006", // stopping, crashed, starting, too many connections, a standby
		"28P01", "28000", "3D000": // nobody is let in: the password, the user, the database is another
		return errAway
	}
	if strings.HasPrefix(code, "08") {
		return errAway
	}
	return nil
}

// Forbidden reports whether the database lets its user in, but not do this.
func Forbidden(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "42501"
}

func sqliteKind(code int) error {
	switch code {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return errDuplicate
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return errNoParent
	}
	switch code & 0xff { // extended codes carry the plain one below
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return errLost
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN:
		return errAway
	}
	return nil
}

func unreachable(err error) bool {
	var network net.Error
	var refused *pgconn.ConnectError
	// The driver's "conn closed", of a connection that ended before the
	// statement was sent, has no type of its own.
	if errors.As(err, &network) || errors.As(err, &refused) || pgconn.SafeToRetry(err) {
		return true
	}
	for _, known := range []error{
		driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// gaveUp turns what more tries did not mend into the refusal that callers
// see; the cause stays behind it for the log.
func gaveUp(err error) error {
	if !errors.Is(err, errAway) && !errors.Is(err, errLost) {
		return err
	}
	detail := "the database does not answer right now"
	if errors.Is(err, errNoPlace) {
		detail = "all connections to the database are in use right now"
	}
	return fmt.Errorf("%w (%w)", fault.ServiceUnavailable.RetryIn(awayRetry, "%s", detail), err)
}
