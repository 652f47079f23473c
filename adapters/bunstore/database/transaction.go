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

// maxTries is how often a statement or transaction is tried when it conflicts with a concurrent
// one. After a conflict the transaction was rolled back, so a retry is safe.
const maxTries = 3

// Func runs on the database or in a transaction. It can run more than once, so it must reset its
// results.
type Func func(ctx context.Context, db bun.IDB) error

// Run runs a single statement. operation names the statement in errors.
func (d *DB) Run(ctx context.Context, operation string, w Func) error {
	return d.retry(ctx, operation, d.singleStatement(ctx, w))
}

// RunWrite runs a single statement that writes.
func (d *DB) RunWrite(ctx context.Context, operation string, w Func) error {
	return d.retry(ctx, operation, d.withWriteSlot(ctx, d.singleStatement(ctx, w)))
}

func (d *DB) singleStatement(ctx context.Context, w Func) func() error {
	return func() error {
		return withTimeout(ctx, d.timeouts.Query, func(ctx context.Context) error { return w(ctx, d.DB) })
	}
}

// RetryWrite runs attempt, which writes, until it succeeds, fails with an error that is not
// retryable, or was tried maxTries times. Use it with Transaction if each attempt of a transaction
// needs new variables.
func (d *DB) RetryWrite(ctx context.Context, operation string, attempt func() error) error {
	return d.retry(ctx, operation, d.withWriteSlot(ctx, attempt))
}

// Transaction runs w once, in one transaction. Call it in an attempt of RetryWrite.
func (d *DB) Transaction(ctx context.Context, w Func) error {
	return withTimeout(ctx, d.timeouts.Query, func(ctx context.Context) error {
		return d.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return w(ctx, tx) })
	})
}

// Snapshot runs reads that all see the database at the same moment.
func (d *DB) Snapshot(ctx context.Context, operation string, w Func) error {
	o := sql.TxOptions{ReadOnly: true}
	if IsPostgres(d) {
		o.Isolation = sql.LevelRepeatableRead // a transaction of SQLite always reads one snapshot
	}
	return d.retry(ctx, operation, func() error {
		return withTimeout(ctx, d.timeouts.Query, func(ctx context.Context) error {
			return d.RunInTx(ctx, &o, func(ctx context.Context, tx bun.Tx) error { return w(ctx, tx) })
		})
	})
}

// withTimeout runs attempt with a time limit. It returns errUnavailable if the limit passes. It
// returns the error unchanged if the caller's own deadline passed.
func withTimeout(ctx context.Context, limit time.Duration, attempt func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := attempt(limited)
	if err != nil && contextError(limited) != nil && contextError(ctx) == nil {
		return fmt.Errorf("%w in %s: %w", errUnavailable, limit, err)
	}
	return err
}

// LockRows makes a select lock the rows of table until the transaction ends. NO KEY UPDATE does not
// conflict with the lock of a foreign key check. On SQLite a transaction is the only writer, so no
// lock is needed.
func (d *DB) LockRows(q *bun.SelectQuery, table string) *bun.SelectQuery {
	if IsPostgres(d) {
		return q.For("NO KEY UPDATE OF ?", bun.Ident(table))
	}
	return q
}

// LockFreeRows is LockRows, but the select leaves out the rows that another transaction has locked.
func (d *DB) LockFreeRows(q *bun.SelectQuery, table string) *bun.SelectQuery {
	if IsPostgres(d) {
		return q.For("NO KEY UPDATE OF ? SKIP LOCKED", bun.Ident(table))
	}
	return q
}

// LockRowsToDelete makes a select lock the rows of table that the transaction deletes. The lock
// conflicts with the locks of foreign key checks. The transaction therefore waits first for the
// transactions that added children of these rows. At that time it does not hold a lock for which
// they could wait.
func (d *DB) LockRowsToDelete(q *bun.SelectQuery, table string) *bun.SelectQuery {
	if IsPostgres(d) {
		return q.For("UPDATE OF ?", bun.Ident(table))
	}
	return q
}

// retry runs attempt until it succeeds, fails with an error that is not retryable, or was tried
// maxTries times. It marks the error with fault.FromStore: the store caused it, and not the answer of
// a provider.
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
		if err = Translate(ctx, err); !retryable(err) {
			break
		}
		d.log.DebugContext(ctx, "database statement lost against another", "doing", operation, "try", attemptNo+1)
	}
	return fault.FromStore(fmt.Errorf("%s: %w", operation, unavailableFault(err)))
}

// withConnSlot runs attempt when a connection is free.
func (d *DB) withConnSlot(ctx context.Context, attempt func() error) error {
	return withSlot(ctx, d.connSlots, d.timeouts.Slot, attempt)
}

// withWriteSlot makes attempt wait for the other writers of SQLite in this process. SQLite itself
// would poll, with pauses of up to 100 ms.
func (d *DB) withWriteSlot(ctx context.Context, attempt func() error) func() error {
	return func() error { return withSlot(ctx, d.writeSlot, d.timeouts.Slot, attempt) }
}

// withSlot runs attempt when a slot is free. It returns errPoolExhausted if none is free within
// limit. Nil slots do not limit.
func withSlot(ctx context.Context, slots chan struct{}, limit time.Duration, attempt func() error) error {
	if slots == nil {
		return attempt()
	}
	select {
	case slots <- struct{}{}:
	default:
		wait := time.NewTimer(limit)
		defer wait.Stop()
		select {
		case slots <- struct{}{}:
		case <-wait.C:
			return errPoolExhausted
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-slots }()
	return attempt()
}

// retryable reports whether a second attempt may have a different outcome.
func retryable(err error) bool {
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
