// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// maxTries is the maximum number of attempts at a statement or transaction that fails with a
// retryable error (see isRetryable). A retry is safe, because the database rolls back a failed
// attempt.
const maxTries = 3

// Func runs on the database or in a transaction. It can run more than once, so it must reset its
// results.
type Func func(ctx context.Context, db bun.IDB) error

// RunRead runs work, which writes nothing, outside a transaction. operation names work in errors
// and logs, and for package failpoint.
func (d *DB) RunRead(ctx context.Context, operation string, work Func) error {
	return d.retry(ctx, operation, d.outsideTransaction(ctx, work))
}

// RunWrite runs work, which is a single writing statement. On SQLite it first waits for the other
// writers of this process.
func (d *DB) RunWrite(ctx context.Context, operation string, work Func) error {
	return d.retry(ctx, operation, d.withWriteSlot(ctx, d.outsideTransaction(ctx, work)))
}

func (d *DB) outsideTransaction(ctx context.Context, work Func) func() error {
	return func() error {
		return withTimeout(ctx, d.timeouts.Query, func(ctx context.Context) error { return work(ctx, d.DB) })
	}
}

// RetryWrite runs attempt, which writes, with the slots and retries of RunWrite. Use it with
// Transaction if each attempt of a transaction needs variables of its own.
func (d *DB) RetryWrite(ctx context.Context, operation string, attempt func() error) error {
	return d.retry(ctx, operation, d.withWriteSlot(ctx, attempt))
}

// Transaction runs work once, in one transaction. Call it in the attempt function of RetryWrite.
func (d *DB) Transaction(ctx context.Context, work Func) error {
	return withTimeout(ctx, d.timeouts.Query, func(ctx context.Context) error {
		return d.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return work(ctx, tx) })
	})
}

// Snapshot runs reads that all see the same state of the database.
func (d *DB) Snapshot(ctx context.Context, operation string, work Func) error {
	options := sql.TxOptions{ReadOnly: true}
	if IsPostgres(d) {
		options.Isolation = sql.LevelRepeatableRead // a transaction of SQLite always reads one snapshot
	}
	return d.retry(ctx, operation, func() error {
		return withTimeout(ctx, d.timeouts.Query, func(ctx context.Context) error {
			return d.RunInTx(ctx, &options, func(ctx context.Context, tx bun.Tx) error { return work(ctx, tx) })
		})
	})
}

// withTimeout runs attempt with a timeout. If the timeout ends attempt, it returns errUnavailable.
// If the caller's own deadline passes first, it returns the error of attempt unchanged.
func withTimeout(ctx context.Context, timeout time.Duration, attempt func(context.Context) error) error {
	limitedCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := attempt(limitedCtx)
	if err != nil && contextError(limitedCtx) != nil && contextError(ctx) == nil {
		return fmt.Errorf("%w in %s: %w", errUnavailable, timeout, err)
	}
	return err
}

// LockRows makes a query lock the rows of one table that the query returns. The locks last until
// the transaction ends. table is the alias of the table. NO KEY UPDATE does not conflict with the
// lock of a foreign key check, so other transactions can still add children of the rows. On SQLite
// a transaction is the only writer, so no lock is needed.
func (d *DB) LockRows(q *bun.SelectQuery, table string) *bun.SelectQuery {
	if IsPostgres(d) {
		return q.For("NO KEY UPDATE OF ?", bun.Ident(table))
	}
	return q
}

// LockFreeRows works like LockRows, but the select omits the rows that another transaction has
// locked.
func (d *DB) LockFreeRows(q *bun.SelectQuery, table string) *bun.SelectQuery {
	if IsPostgres(d) {
		return q.For("NO KEY UPDATE OF ? SKIP LOCKED", bun.Ident(table))
	}
	return q
}

// LockRowsToDelete works like LockRows, for rows that the transaction deletes later. The lock
// conflicts with the locks of foreign key checks. The transaction therefore waits for the
// transactions that are adding children of these rows.
func (d *DB) LockRowsToDelete(q *bun.SelectQuery, table string) *bun.SelectQuery {
	if IsPostgres(d) {
		return q.For("UPDATE OF ?", bun.Ident(table))
	}
	return q
}

// retry runs attempt at most maxTries times, until it succeeds, fails with an error that is not
// retryable, or ctx ends. retry marks the error with fault.FromStore, because the store caused it
// and not a provider.
func (d *DB) retry(ctx context.Context, operation string, attempt func() error) error {
	failpoint.Before(operation)
	var err error
	for attemptNo := range maxTries {
		if attemptNo > 0 && !backOff(ctx, attemptNo) {
			break
		}
		if err = d.withConnSlot(ctx, attempt); err == nil {
			failpoint.After(operation)
			return nil
		}
		if err = Translate(ctx, err); !isRetryable(err) {
			break
		}
		d.log.DebugContext(ctx, "database statement failed, but may succeed if it is repeated", "doing", operation, "try", attemptNo+1, "error", err)
	}
	return fault.FromStore(fmt.Errorf("%s: %w", operation, unavailableFault(err)))
}

func (d *DB) withConnSlot(ctx context.Context, attempt func() error) error {
	return d.withSlot(ctx, d.connSlots, errPoolExhausted, attempt)
}

// withWriteSlot returns a function that runs attempt when no other writer of SQLite in this process
// is active. Without this slot, SQLite would poll its lock, with pauses of up to 100 ms.
func (d *DB) withWriteSlot(ctx context.Context, attempt func() error) func() error {
	return func() error { return d.withSlot(ctx, d.writeSlot, errWriteSlotTaken, attempt) }
}

// withSlot runs attempt as soon as a slot is free. It returns errTaken if no slot becomes free in
// time. It runs attempt at once if slots is nil.
func (d *DB) withSlot(ctx context.Context, slots chan struct{}, errTaken error, attempt func() error) error {
	if slots == nil {
		return attempt()
	}
	select {
	case slots <- struct{}{}:
	default:
		wait := time.NewTimer(d.timeouts.Slot)
		defer wait.Stop()
		select {
		case slots <- struct{}{}:
		case <-wait.C:
			return errTaken
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-slots }()
	return attempt()
}

// isRetryable reports whether a concurrent transaction or migration can have caused err.
func isRetryable(err error) bool {
	return errors.Is(err, errConflict) || errors.Is(err, ErrDuplicate) || errors.Is(err, ErrMissingParent)
}

// backOff waits so that the conflicting transaction can finish. It returns false if ctx ended.
func backOff(ctx context.Context, attemptNo int) bool {
	wait := time.Duration(attemptNo) * (5*time.Millisecond + rand.N(20*time.Millisecond))
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}
