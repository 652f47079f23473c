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

	"github.com/tenantry/tenantry/ports"
)

// tries is how often a statement or transaction is run that lost against
// another one. Losing left nothing behind, so running again is harmless.
const tries = 3

// work runs on the database or in a transaction. It must be fit to run again.
type work func(ctx context.Context, db bun.IDB) error

// patience is what a statement or transaction may take. A database that has
// stopped but not closed its connections would else hold a request for as long
// as that may take, and look like a slow provider.
const patience = 10 * time.Second

// run runs a single statement. doing says which, for errors.
func (s *Store) run(ctx context.Context, doing string, w work) error {
	return s.again(ctx, doing, s.single(ctx, w))
}

// runWriting runs a single statement that is known to write.
func (s *Store) runWriting(ctx context.Context, doing string, w work) error {
	return s.again(ctx, doing, s.written(ctx, s.single(ctx, w)))
}

func (s *Store) single(ctx context.Context, w work) func() error {
	return func() error {
		return inTime(ctx, s.patience, func(ctx context.Context) error { return w(ctx, s.db) })
	}
}

// atomically runs w in one transaction. Only one that was to be committed has
// changed anything; whether the commit succeeded may stay unknown.
func (s *Store) atomically(ctx context.Context, doing string, w work) error {
	return s.again(ctx, doing, s.written(ctx, func() error {
		var inside ports.Effects
		var rolledBack error
		err := inTime(ctx, s.patience, func(ctx context.Context) error {
			return s.db.RunInTx(ports.WithEffects(ctx, &inside), nil, func(ctx context.Context, tx bun.Tx) error {
				rolledBack = w(ctx, tx)
				return rolledBack
			})
		})
		if rolledBack == nil && inside.Seen().Changed {
			ports.NoteChanged(ctx)
		}
		return err
	}))
}

// snapshot runs reads that all see the database as of one moment.
func (s *Store) snapshot(ctx context.Context, doing string, w work) error {
	o := sql.TxOptions{ReadOnly: true}
	if s.postgres() {
		o.Isolation = sql.LevelRepeatableRead // SQLite's transactions are that anyway
	}
	return s.again(ctx, doing, func() error {
		return inTime(ctx, s.patience, func(ctx context.Context) error {
			return s.db.RunInTx(ctx, &o, func(ctx context.Context, tx bun.Tx) error { return w(ctx, tx) })
		})
	})
}

// inTime takes a database that needs longer than limit for one that is away.
// That the caller's own time is up stays the caller's business.
func inTime(ctx context.Context, limit time.Duration, attempt func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := attempt(limited)
	if err != nil && ended(limited) != nil && ended(ctx) == nil {
		return fmt.Errorf("%w in %s: %w", errAway, limit, err)
	}
	return err
}

// noting notes what changes rows.
type noting struct{}

func (noting) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

// AfterQuery takes a statement without a result for a change: it returned
// rows, or its answer was lost.
func (noting) AfterQuery(ctx context.Context, event *bun.QueryEvent) {
	if !slices.Contains([]string{"INSERT", "UPDATE", "DELETE"}, event.Operation()) || errors.Is(event.Err, sql.ErrNoRows) {
		return
	}
	if event.Err == nil && event.Result != nil {
		if n, err := event.Result.RowsAffected(); err == nil && n == 0 {
			return
		}
	}
	ports.NoteChanged(ctx)
}

func (s *Store) again(ctx context.Context, doing string, attempt func() error) error {
	var err error
	for try := range tries {
		if try > 0 && !pause(ctx, try) {
			break
		}
		if err = s.placed(ctx, attempt); err == nil {
			return nil
		}
		if err = translate(ctx, err); !worthAnother(err) {
			break
		}
		s.log.DebugContext(ctx, "database statement lost against another", "doing", doing, "try", try+1)
	}
	return fmt.Errorf("%s: %w", doing, gaveUp(err))
}

// placeTime is how long a request waits for a connection while others hold
// them all. A longer wait would only make the queue longer.
const placeTime = 3 * time.Second

// placed makes an attempt once a connection is free for it.
func (s *Store) placed(ctx context.Context, attempt func() error) error {
	return oneOf(ctx, s.places, s.placeTime, attempt)
}

// written makes an attempt that writes wait for the other writers of SQLite.
// Its own way of waiting is to look again after up to 100 ms.
func (s *Store) written(ctx context.Context, attempt func() error) func() error {
	return func() error { return oneOf(ctx, s.writers, s.placeTime, attempt) }
}

// oneOf makes an attempt once one of some places is free. It gives up after limit. Without
// places it makes the attempt at once.
func oneOf(ctx context.Context, places chan struct{}, limit time.Duration, attempt func() error) error {
	if places == nil {
		return attempt()
	}
	select {
	case places <- struct{}{}:
	default:
		wait := time.NewTimer(limit)
		defer wait.Stop()
		select {
		case places <- struct{}{}:
		case <-wait.C:
			return errNoPlace
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-places }()
	return attempt()
}

// worthAnother is true for what a second look may find different.
func worthAnother(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, errDuplicate) || errors.Is(err, errNoParent)
}

// pause lets the winner finish. It reports false when the caller is gone.
func pause(ctx context.Context, try int) bool {
	wait := time.Duration(try) * (5*time.Millisecond + rand.N(20*time.Millisecond))
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}
