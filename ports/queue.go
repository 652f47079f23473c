// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/access"
)

// Wakeup requests that a job be processed. Only the job's row says whether there is work. A lost
// wake-up delays the job until the next Sweep, and a duplicate has no effect.
type Wakeup struct {
	// Kind selects the handler.
	Kind string
	// ID is the id of the job. Of several waiting wake-ups of a job, only the earliest counts.
	ID string
	// Account is the account whose fair share the job uses. It is empty for the service's own jobs.
	Account access.AccountID
	// SeparateGroup puts the job into a fairness group of its account and kind, so that bulk work
	// does not delay the account's other jobs.
	SeparateGroup bool
	// At is the due time. A zero or past time means at once.
	At time.Time
	// Trace is the traceparent of the request that caused the job. If it is empty, Wake uses the
	// traceparent of its context. The context of a handler carries the traceparent of the request
	// that caused the job.
	Trace string
}

// Queue runs the handlers of jobs when the jobs are due. It may run the handler of a wake-up more
// than once. It can also lose a wake-up if the process ends. Sweep finds the jobs whose wake-up was
// lost.
//
// Accounts are served round-robin. The handlers of one account never use all handler slots of a
// process, so that slots usually stay free for accounts that have no running handler. The contract
// checks that 10,000 due jobs of one account delay the first job of a different account by at most
// 5 s. Wake-ups with SeparateGroup set are scheduled as if each pair of account and kind were an
// account of its own.
type Queue interface {
	// Wake enqueues wake-ups. Call it only after the job's row is committed. A handler that starts
	// after the call to Wake sees the committed row. A wake-up for a job whose handler is running
	// makes the handler run again.
	Wake(ctx context.Context, wakeups ...Wakeup) error
}

// Handler processes a job. Its context has a deadline, and Worker.Stop can cancel it. If the
// handler fails or panics, the Worker logs the error and retries the wake-up. The pauses before
// retries grow up to a maximum, until the handler succeeds. A new wake-up of the job can end the
// current pause, but does not make the next pauses shorter. Two handlers may run at the same time
// for one job, so a handler's writes must check the epoch in the job's row.
type Handler func(ctx context.Context, w Wakeup) error

// Periodic is recurring work. It runs when a worker starts, and then once for all replicas at every
// multiple of Every in UTC (see time.Time.Truncate). A run starts only after the previous run has
// ended. If a process is killed during a run, the queue must notice this first. After an error a
// run is retried like a Handler.
type Periodic struct {
	// Kind must differ from the kinds of all handlers.
	Kind  string
	Every time.Duration
	Do    func(ctx context.Context) error
}

// Work is the work that a Worker runs.
type Work struct {
	Handlers map[string]Handler
	Periodic []Periodic
}

// Worker is a queue that also runs the handlers in this process.
type Worker interface {
	Queue
	// Start starts the work, which runs until Stop. It may be called once. ctx limits only the
	// start itself.
	Start(ctx context.Context, w Work) error
	// Stop prevents new work and waits for running handlers until ctx ends. Shortly before ctx
	// ends, Stop cancels the contexts of the handlers. It fails if handlers have not returned by
	// then. Unfinished jobs are woken again by a different replica or after a restart. Wake may
	// still be called.
	Stop(ctx context.Context) error
	// Backlog returns the waiting wake-ups of each kind, sorted by kind. Kinds without waiting
	// wake-ups are omitted. The backlog of a shared queue covers all replicas.
	Backlog(ctx context.Context) ([]Backlog, error)
}

// Backlog describes the waiting wake-ups of one kind.
type Backlog struct {
	Kind string
	// Waiting is the number of wake-ups that no handler has started, including those that are not
	// due.
	Waiting int
	// Lateness is how long the oldest due wake-up has been due, 0 if none is due.
	Lateness time.Duration
}

// Sweep returns the periodic work that wakes jobs whose wake-up was lost. due lists the jobs that
// are due and not leased.
func Sweep(kind string, every time.Duration, q Queue, due func(ctx context.Context) ([]Wakeup, error)) Periodic {
	return Periodic{Kind: kind, Every: every, Do: func(ctx context.Context) error {
		missed, err := due(ctx)
		if err != nil {
			return fmt.Errorf("list due jobs: %w", err)
		}
		return q.Wake(ctx, missed...)
	}}
}
