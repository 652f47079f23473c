// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"
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
	return s.again(ctx, doing, func() error {
		return inTime(ctx, s.patience, func(ctx context.Context) error { return w(ctx, s.db) })
	})
}

// atomically runs w in one transaction.
func (s *Store) atomically(ctx context.Context, doing string, w work) error {
	return s.again(ctx, doing, func() error {
		return inTime(ctx, s.patience, func(ctx context.Context) error {
			return s.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return w(ctx, tx) })
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

func (s *Store) again(ctx context.Context, doing string, attempt func() error) error {
	var err error
	for try := range tries {
		if try > 0 && !pause(ctx, try) {
			break
		}
		if err = attempt(); err == nil {
			return nil
		}
		if err = translate(ctx, err); !worthAnother(err) {
			break
		}
		s.log.DebugContext(ctx, "database statement lost against another", "doing", doing, "try", try+1)
	}
	return fmt.Errorf("%s: %w", doing, gaveUp(err))
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
