// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// maxTries is how often a statement or transaction is tried when it loses a conflict. A transaction
// that lost was rolled back, so a retry is safe.
const maxTries = 3

// dbFunc runs on the database or in a transaction. It can run more than once, so it must reset its
// results.
type dbFunc func(ctx context.Context, db bun.IDB) error

// queryTimeout is the time limit of a statement or transaction. Without it, a database that hangs
// with open connections would block requests and look like a slow provider.
const queryTimeout = 10 * time.Second

// openTimeout is the time limit of the first statement, which waits for the first connection.
const openTimeout = 45 * time.Second

// run runs a single statement. operation names the statement in errors.
func (s *Store) run(ctx context.Context, operation string, w dbFunc) error {
	return s.retry(ctx, operation, s.singleStatement(ctx, w))
}

// runWrite runs a single statement that writes.
func (s *Store) runWrite(ctx context.Context, operation string, w dbFunc) error {
	return s.retry(ctx, operation, s.withWriteSlot(ctx, s.singleStatement(ctx, w)))
}

func (s *Store) singleStatement(ctx context.Context, w dbFunc) func() error {
	return func() error {
		return withTimeout(ctx, s.queryTimeout, func(ctx context.Context) error { return w(ctx, s.db) })
	}
}

// inTransaction runs w in one transaction. Its last steps store the events that w emitted, and then
// the audit entries and the act of the request, always in this order. It notes a change if w
// succeeded and changed rows, even if the commit failed, because the outcome of a failed commit is
// unknown. It notes a completion only after the commit.
func (s *Store) inTransaction(ctx context.Context, operation string, w dbFunc) error {
	return s.retry(ctx, operation, s.withWriteSlot(ctx, func() error {
		var inside ports.Effects
		var rolledBack error
		entries := pendingEntries{act: ports.ActOf(ctx)}
		var logged bool
		err := withTimeout(ctx, s.queryTimeout, func(ctx context.Context) error {
			return s.db.RunInTx(ports.WithEffects(ctx, &inside), nil, func(ctx context.Context, tx bun.Tx) error {
				var events pendingEvents
				inner := context.WithValue(context.WithValue(ctx, pendingEventsKey{}, &events), pendingEntriesKey{}, &entries)
				rolledBack = w(inner, tx)
				changed := inside.Seen().Changed
				if rolledBack == nil {
					rolledBack = s.storeEvents(context.WithValue(ctx, pendingEventsKey{}, &events), tx, &events)
				}
				if rolledBack == nil {
					rolledBack = entries.store(ctx, s, tx, changed)
				}
				logged = len(events.all) > 0
				return rolledBack
			})
		})
		if rolledBack == nil && inside.Seen().Changed {
			ports.RecordChange(ctx)
		}
		if err == nil && inside.Seen().Completed {
			ports.RecordCompletion(ctx)
		}
		if rolledBack == nil {
			entries.committed(err == nil)
		}
		if err == nil && logged {
			s.signalEvents()
		}
		return err
	}))
}

// snapshot runs reads that all see the database at the same moment.
func (s *Store) snapshot(ctx context.Context, operation string, w dbFunc) error {
	o := sql.TxOptions{ReadOnly: true}
	if s.postgres() {
		o.Isolation = sql.LevelRepeatableRead // SQLite's transactions always are
	}
	return s.retry(ctx, operation, func() error {
		return withTimeout(ctx, s.queryTimeout, func(ctx context.Context) error {
			return s.db.RunInTx(ctx, &o, func(ctx context.Context, tx bun.Tx) error { return w(ctx, tx) })
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

// changeHook notes in the context that a statement changed rows.
type changeHook struct{}

func (changeHook) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

// AfterQuery counts a statement without a result as a change: it returned rows, or its answer was
// lost.
func (changeHook) AfterQuery(ctx context.Context, event *bun.QueryEvent) {
	if !slices.Contains([]string{"INSERT", "UPDATE", "DELETE"}, event.Operation()) || errors.Is(event.Err, sql.ErrNoRows) {
		return
	}
	if event.Err == nil && event.Result != nil {
		if n, err := event.Result.RowsAffected(); err == nil && n == 0 {
			return
		}
	}
	ports.RecordChange(ctx)
}

// retry runs attempt until it succeeds, fails for good, or was tried maxTries times. An error is
// marked with fault.FromStore. Refusals that are created outside of retry have the same mark.
func (s *Store) retry(ctx context.Context, operation string, attempt func() error) error {
	failpoint.Before(operation)
	var err error
	for attemptNo := range maxTries {
		if attemptNo > 0 && !backOff(ctx, attemptNo) {
			break
		}
		if err = s.withConnSlot(ctx, attempt); err == nil {
			failpoint.After(operation)
			return nil
		}
		if err = translate(ctx, err); !retryable(err) {
			break
		}
		s.log.DebugContext(ctx, "database statement lost against another", "doing", operation, "try", attemptNo+1)
	}
	return fault.FromStore(fmt.Errorf("%s: %w", operation, unavailableFault(err)))
}

// connWait is how long a request waits for a free connection. A longer wait would only make the
// queue longer.
const connWait = 3 * time.Second

// withConnSlot runs attempt when a connection is free.
func (s *Store) withConnSlot(ctx context.Context, attempt func() error) error {
	return withSlot(ctx, s.connSlots, s.connWait, attempt)
}

// withWriteSlot makes attempt wait for the other writers of SQLite in this process. SQLite itself
// would poll, with pauses of up to 100 ms.
func (s *Store) withWriteSlot(ctx context.Context, attempt func() error) func() error {
	return func() error { return withSlot(ctx, s.writeSlot, s.connWait, attempt) }
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
	return errors.Is(err, errConflict) || errors.Is(err, errDuplicate) || errors.Is(err, errMissingParent)
}

// backOff waits so that the other transaction can finish. It returns false if ctx ended.
func backOff(ctx context.Context, attemptNo int) bool {
	wait := time.Duration(attemptNo) * (5*time.Millisecond + rand.N(20*time.Millisecond))
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}
