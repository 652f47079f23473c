// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/access"
)

// Wakeup asks that a job be looked at. The job's row is the truth: a wake-up
// that gets lost costs the time until the next sweep, a doubled one nothing.
type Wakeup struct {
	// Kind names the handler.
	Kind string
	// ID names the job. Of the wake-ups of a job that wait, those that come
	// after the earliest one add nothing.
	ID string
	// Account is whose turn it takes; empty is the service's own.
	Account access.AccountID
	// Apart says that it takes turns of its own beside the account's: work of
	// which much falls due at once keeps none of the rest waiting.
	Apart bool
	// At is when, at once where it is zero or past.
	At time.Time
	// Trace is the traceparent of the request that caused the job. Where it is
	// empty, Wake takes that of its context, which inside a handler is
	// still the one that caused the job.
	Trace string
}

// Queue wakes jobs when their time has come, at least once.
//
// Accounts take turns, and each has its share of the workers, of which one
// more is kept free: however much is due for some accounts, the first job of
// another begins as if it were alone, at most 5 s later. What stands apart is
// in all of that an account of its own, for each kind.
type Queue interface {
	// Wake asks for wake-ups. It is called after the job's row was committed,
	// also from handlers. A handler that begins after Wake was called sees
	// what was committed before: a wake-up for a job whose handler runs at
	// that moment makes it run again.
	Wake(ctx context.Context, wakeups ...Wakeup) error
}

// Handler works on a job. Its context has a deadline and ends early when the
// worker stops. After an error or a panic the same wake-up comes again, with
// pauses that grow; there it is logged. It may run twice at once for a job,
// and late: what it saves must be fenced by the row's epoch.
type Handler func(ctx context.Context, w Wakeup) error

// Periodic is work that comes again and again: once when a worker starts, then
// at every multiple of Every since midnight UTC, once for all replicas. After
// an error it comes again as a Handler does.
type Periodic struct {
	// Kind is no Handler's.
	Kind  string
	Every time.Duration
	Do    func(ctx context.Context) error
}

// Work is what a Worker does.
type Work struct {
	Handlers map[string]Handler
	Periodic []Periodic
}

// Worker is a queue that also runs the handlers in this process.
type Worker interface {
	Queue
	// Start begins to work, until Stop. It is called once; ctx only bounds
	// the start itself.
	Start(ctx context.Context, w Work) error
	// Stop begins nothing new and waits until ctx ends at the latest, shortly
	// before which the contexts of handlers that are still at it end. What is
	// unfinished is woken again by another replica or after a restart; what
	// did not come back in time is an error. Wake may still be called.
	Stop(ctx context.Context) error
	// Backlog counts what waits, by kind in alphabetical order, without the
	// kinds of which nothing does. On a shared queue it is everybody's.
	Backlog(ctx context.Context) ([]Backlog, error)
}

// Backlog is what waits of one kind.
type Backlog struct {
	Kind string
	// Waiting counts wake-ups that no handler has taken, also those whose time
	// has not come.
	Waiting int
	// Late is for how long the one is due that is due for longest; 0 for none.
	Late time.Duration
}

// Sweep is the periodic work that wakes what no wake-up covers: due lists the
// jobs whose time is past and that nobody works on.
func Sweep(kind string, every time.Duration, q Queue, due func(ctx context.Context) ([]Wakeup, error)) Periodic {
	return Periodic{Kind: kind, Every: every, Do: func(ctx context.Context) error {
		missed, err := due(ctx)
		if err != nil {
			return fmt.Errorf("look for due jobs: %w", err)
		}
		return q.Wake(ctx, missed...)
	}}
}
