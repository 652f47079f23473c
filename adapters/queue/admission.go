// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/tenantry/tenantry/core/panics"
)

// admission decides which due wake-ups the library River gets. River starts jobs in the order in
// which they were inserted. Without admission, 10,000 jobs of one account would delay the first job
// of the next account. A wake-up therefore waits in the table wakeup until its fairness group
// (usually its account) has a free share of the handlers. admission works in rounds. A round with
// work runs one transaction. The transaction records the handlers that ended, rescues lost
// wake-ups, and gives River the due wake-ups whose groups have a free share.
//
// The table is authoritative. A wake-up whose River job is lost, or whose process died, is admitted
// again after Options.RescueAfter.
type admission struct {
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
	options Options

	triggered chan struct{} // receives a value when a round may have work
	stopped   chan struct{} // closed when the rounds have ended

	mu         sync.Mutex
	ended      []*endedHandler // handlers that ended and are not recorded yet
	isStopping bool            // true if rounds record ended handlers but admit no wake-ups
	isFailing  bool            // the last round failed; only logChange uses it
}

// endedHandler is a handler that has ended, and its result.
type endedHandler struct {
	handlerResult

	job      riverArgs
	recorded chan struct{} // closed when the end of the handler is stored in the table wakeup
}

func newAdmission(pool *pgxpool.Pool, client *river.Client[pgx.Tx], o Options) *admission {
	return &admission{
		pool: pool, client: client, options: o,
		triggered: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
}

// trigger makes the next round start soon.
func (a *admission) trigger() {
	select {
	case a.triggered <- struct{}{}:
	default:
	}
}

// finish records the end of a handler. It returns as soon as the end is stored in the table wakeup.
// It fails if the rounds stop before that.
func (a *admission) finish(h *endedHandler) error {
	h.recorded = make(chan struct{})
	a.mu.Lock()
	a.ended = append(a.ended, h)
	a.mu.Unlock()
	a.trigger()
	select {
	case <-h.recorded:
		return nil
	case <-a.stopped:
		return errStopped
	}
}

// stopAdmitting makes the next rounds only record the end of handlers.
func (a *admission) stopAdmitting() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.isStopping = true
}

// minRoundInterval is the shortest time between two rounds. A round handles everything that
// happened since the previous round in one transaction.
const minRoundInterval = 10 * time.Millisecond

// run runs rounds until ctx ends.
func (a *admission) run(ctx context.Context) {
	defer close(a.stopped)
	for {
		next, err := a.guardedRound(ctx)
		if ctx.Err() != nil {
			return
		}
		a.logChange(ctx, err)
		if !sleep(ctx, minRoundInterval, nil) || !sleep(ctx, next-minRoundInterval, a.triggered) {
			return
		}
	}
}

// guardedRound calls runRound. It logs a panic and returns it as an error, so that the rounds
// continue.
func (a *admission) guardedRound(ctx context.Context) (next time.Duration, err error) {
	next = a.options.PollInterval
	panics.Guarded(func() { next, err = a.runRound(ctx) }, func(e *panics.Error) {
		a.options.logPanic(e)
		err = e
	})()
	return next, err
}

// sleep returns after d, or earlier when wake receives a value or ctx ends. It returns false if ctx
// has ended.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// runRound records the handlers that ended and admits due wake-ups. It returns the maximum time
// until the next round. A round without work executes one statement.
func (a *admission) runRound(ctx context.Context) (next time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	a.mu.Lock()
	ended, stopping := a.ended, a.isStopping
	a.ended = nil
	a.mu.Unlock()
	isRecorded := false
	defer func() {
		if !isRecorded { // also after a panic
			a.mu.Lock()
			a.ended = append(ended, a.ended...)
			a.mu.Unlock()
			return
		}
		for _, h := range ended {
			close(h.recorded)
		}
	}()
	work, err := a.readRoundWork(ctx)
	if err != nil {
		return a.options.PollInterval, err
	}
	if len(ended) == 0 && (stopping || !work.hasDue && !work.hasLost) {
		return work.next(a.options), nil
	}
	err = pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error {
		secondsToNext, err := recordEnded(ctx, tx, ended)
		if err != nil || stopping {
			return err
		}
		work.secondsToNext = minOrNil(work.secondsToNext, secondsToNext)
		if work.hasLost {
			if _, err := tx.Exec(ctx, rescueWakeups, a.options.RescueAfter); err != nil {
				return fmt.Errorf("rescue wake-ups: %w", err)
			}
		}
		return a.admit(ctx, tx)
	})
	if err != nil {
		return a.options.PollInterval, err
	}
	isRecorded, work.hasAdmitted = true, true
	return work.next(a.options), nil
}

// roundWork is the work of one round, and what determines the time of the next round.
type roundWork struct {
	hasDue, hasLost bool     // whether there are due wake-ups, and wake-ups to rescue
	hasAdmitted     bool     // whether this process may have admitted wake-ups that have not ended
	secondsToNext   *float64 // seconds until the next wake-up becomes due, nil if there is none
}

func minOrNil(a, b *float64) *float64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// next returns the maximum time until the next round. It is at most PollInterval if the process has
// admitted wake-ups, because their handlers may end in a different process.
func (w roundWork) next(o Options) time.Duration {
	next := idlePollInterval
	if w.hasAdmitted {
		next = o.PollInterval
	}
	if w.secondsToNext != nil {
		next = min(next, time.Duration(*w.secondsToNext*float64(time.Second)))
	}
	return max(next, minRoundInterval)
}

// idlePollInterval is the maximum time between two rounds of a process without admitted wake-ups.
// Wake triggers no round in other processes. They find the new wake-up after this interval at the
// latest.
const idlePollInterval = 2 * time.Second

func (a *admission) readRoundWork(ctx context.Context) (work roundWork, err error) {
	err = a.pool.QueryRow(ctx, selectRoundWork, a.client.ID(), a.options.RescueAfter).Scan(&work.hasDue, &work.hasLost, &work.hasAdmitted, &work.secondsToNext)
	if err != nil {
		return work, fmt.Errorf("find wake-ups: %w", err)
	}
	return work, nil
}

// admit gives the library River the due wake-ups for which there is a free share of the handlers.
func (a *admission) admit(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, admitWakeups, a.client.ID(), a.options.MaxHandlers)
	if err != nil {
		return fmt.Errorf("admit wake-ups: %w", err)
	}
	jobs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p river.InsertManyParams, err error) {
		var j riverArgs
		err = row.Scan(&j.JobKind, &j.ID, &j.Account, &j.SeparateGroup, &j.Trace, &j.At, &j.Failures, &j.Admission)
		return river.InsertManyParams{Args: j, InsertOpts: &river.InsertOpts{Queue: riverQueue}}, err
	})
	if err != nil || len(jobs) == 0 {
		return err
	}
	if _, err := a.client.InsertManyFastTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("give wake-ups to River: %w", err)
	}
	return nil
}

// recordEnded stores that handlers have ended. A wake-up becomes due again if its handler is to be
// retried, or if the job was woken while the handler ran. recordEnded returns the number of seconds
// until the first of these wake-ups becomes due, or nil if no wake-up becomes due.
func recordEnded(ctx context.Context, tx pgx.Tx, ended []*endedHandler) (secondsToNext *float64, err error) {
	if len(ended) == 0 {
		return nil, nil
	}
	var kinds, ids []string
	var admissions []int64
	var delays []*float64 // in seconds, nil for a handler that succeeded
	var failures []int
	for _, h := range ended {
		kinds, ids, admissions = append(kinds, h.job.JobKind), append(ids, h.job.ID), append(admissions, h.job.Admission)
		var delay *float64
		if h.shouldRetry {
			seconds := h.delay.Seconds()
			delay = &seconds
		}
		delays, failures = append(delays, delay), append(failures, h.failures)
	}
	if err := tx.QueryRow(ctx, endWakeups, kinds, ids, admissions, delays, failures).Scan(&secondsToNext); err != nil {
		return nil, fmt.Errorf("record handlers that ended: %w", err)
	}
	if _, err := tx.Exec(ctx, deleteEndedWakeups, kinds, ids); err != nil {
		return nil, fmt.Errorf("delete wake-ups that ended: %w", err)
	}
	return secondsToNext, nil
}

// logChange logs only the first of several consecutive failures, and the first success after them.
func (a *admission) logChange(ctx context.Context, err error) {
	switch {
	case err != nil && !a.isFailing:
		a.options.Log.WarnContext(ctx, "jobs wait: the queue does not reach its database and keeps trying", "error", err)
	case err == nil && a.isFailing:
		a.options.Log.InfoContext(ctx, "the queue reaches its database again")
	}
	a.isFailing = err != nil
}
