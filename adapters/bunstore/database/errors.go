// SPDX-License-Identifier: Apache-2.0

package database

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

// Translate wraps a driver's error with the error of its class. errPoolExhausted and
// errWriteSlotTaken come from withSlot.
//
// ErrDuplicate and ErrMissingParent are retried like errConflict, because the second attempt sees
// what a concurrent transaction has added or deleted.
var (
	ErrDuplicate      = errors.New("the row exists")
	errConflict       = errors.New("conflict with another transaction")
	ErrMissingParent  = errors.New("the row that this one belongs to does not exist")
	errUnavailable    = errors.New("the database does not answer")
	errPoolExhausted  = errors.New("all connections are in use")
	errWriteSlotTaken = errors.New("another writer is active")
)

// UnavailableRetry is the time after which a caller may repeat a request that failed because the
// database is busy or does not answer.
const UnavailableRetry = 5 * time.Second

// Translate wraps a database error with the error of its class, if it has one. If ctx has ended,
// Translate returns the error of ctx instead. It never changes a fault.Error.
func Translate(ctx context.Context, err error) error {
	var classified *fault.Error
	if errors.As(err, &classified) {
		return err
	}
	if ctxErr := contextError(ctx); ctxErr != nil {
		return ctxErr
	}
	if kind := kindOf(err); kind != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

// contextError returns the reason why ctx has ended, or nil. The driver checks the deadline with
// its own timer, which may fire just before the timer of ctx. contextError therefore compares the
// deadline with the current time.
func contextError(ctx context.Context) error {
	if deadline, hasDeadline := ctx.Deadline(); hasDeadline && ctx.Err() == nil && !time.Now().Before(deadline) {
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
	case Unreachable(err):
		return errUnavailable
	default:
		return nil
	}
}

// readOnlyCode is the SQLSTATE with which a server refuses a write because the server is a standby,
// or because its operator made it read-only.
const readOnlyCode = "25006"

func postgresKind(code string) error {
	switch code {
	case "23505":
		return ErrDuplicate
	case "23503":
		return ErrMissingParent
	case "40001", "40P01", "55P03", // serialization failure, deadlock, lock not available
		"0A000": // a migration made a prepared statement invalid, so it must be prepared again
		return errConflict
	case "57P01", "57P02", "57P03", // the server stops, crashed or starts
		readOnlyCode,
		"58030",                   // an I/O error, for example of a broken disk
		"28P01", "28000", "3D000": // wrong password, user or database
		return errUnavailable
	}
	// Class 08: the connection failed. Class 53: the server lacks disk space, memory or
	// connections.
	if strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53") {
		return errUnavailable
	}
	return nil
}

// Forbidden reports whether err says that the database user lacks the privilege for a statement.
func Forbidden(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "42501"
}

// isDiskFull reports whether err says that the disk of the database is full.
func isDiskFull(err error) bool {
	var pg *pgconn.PgError
	var lite *sqlite.Error
	return errors.As(err, &pg) && pg.Code == "53100" || errors.As(err, &lite) && lite.Code() == sqlite3.SQLITE_FULL
}

func sqliteKind(code int) error {
	switch code {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return ErrDuplicate
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return ErrMissingParent
	}
	switch code & 0xff { // the low byte of an extended code is the primary code
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return errConflict
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN:
		return errUnavailable
	}
	return nil
}

// Unreachable reports whether err is an error of the connection to the server, such as a refused or
// lost connection.
func Unreachable(err error) bool {
	var network net.Error
	var refused *pgconn.ConnectError
	// pgconn.SafeToRetry covers the driver's error "conn closed", which has no type of its own.
	if errors.As(err, &network) || errors.As(err, &refused) || pgconn.SafeToRetry(err) {
		return true
	}
	for _, unreachable := range []error{
		driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, unreachable) {
			return true
		}
	}
	return false
}

// unavailableFault returns a fault for the caller if the same request may succeed later. It returns
// other errors unchanged.
func unavailableFault(err error) error {
	var detail string
	switch {
	case errors.Is(err, errPoolExhausted):
		detail = "all connections to the database are in use right now"
	case errors.Is(err, errWriteSlotTaken):
		detail = "the database is busy with the changes of other requests right now"
	case errors.Is(err, errUnavailable):
		detail = "the database does not answer right now"
	case errors.Is(err, errConflict):
		detail = "other changes in the database conflict with this request right now"
	default:
		return err
	}
	return fmt.Errorf("%w (%w)", fault.ServiceUnavailable.RetryIn(UnavailableRetry, "%s", detail), err)
}

// Wrap converts a database error with Translate and unavailableFault, and prefixes the operation.
// It returns nil for nil.
func Wrap(ctx context.Context, operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", operation, unavailableFault(Translate(ctx, err)))
}
