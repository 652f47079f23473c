// SPDX-License-Identifier: Apache-2.0

// Package queue implements ports.Worker: it enqueues wake-ups and calls the handler of a job when a
// wake-up of the job is due. A wake-up is a request to run the handler of a job at a given time.
// Accounts are served round-robin, and the number of handlers that run for one account at the same
// time is limited.
//
// There are two implementations. The type River keeps wake-ups in PostgreSQL, for any number of
// replicas. It lets the library riverqueue/river, called the library River, run the handlers. The
// type Local keeps wake-ups in memory, for the single process of a service that uses SQLite.
//
//   - queue.go: Options and the rules that both queues share. Start here.
//   - handlers.go: how a handler is called: deadline, trace, panics, retries, periodic work.
//   - local.go, scheduler.go: Local, and the order in which it starts wake-ups.
//   - river.go: the type River: how wake-ups are added and handled.
//   - admission.go: which due wake-ups the library River gets, so that accounts have fair shares.
//   - wakeups.go: the table of wake-ups and its statements.
//   - river_migrate.go: Migrate, which creates the queue's tables.
package queue

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// Options configure both queues. A zero field has its default value.
type Options struct {
	Log *slog.Logger
	// MaxHandlers is the maximum number of handlers that run in this process at the same time, 128
	// by default. It must be between 2 and 10,000.
	MaxHandlers int
	// HandlerTimeout is the time limit of a handler, 45 s by default.
	HandlerTimeout time.Duration
	// RescueAfter is the time after which the handler of a wake-up runs again if its end was not
	// recorded, 60 s by default. It must be longer than HandlerTimeout. Local checks this, but
	// does not use it.
	RescueAfter time.Duration
	// RetryDelay is the delay before the first retry of a handler that failed, 5 s by default. The
	// delay doubles with every failure, up to 60 times RetryDelay.
	RetryDelay time.Duration
	// PollInterval is the maximum time between two reads of the table of wake-ups while a wake-up
	// that this process admitted is in progress, 250 ms by default. The handler of such a wake-up
	// can end in a different process. Without such a wake-up the maximum is 2 s. Local ignores
	// PollInterval.
	PollInterval time.Duration
}

func (o Options) withDefaults() (Options, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.MaxHandlers = cmp.Or(o.MaxHandlers, 128)
	o.HandlerTimeout = cmp.Or(o.HandlerTimeout, 45*time.Second)
	o.RescueAfter = cmp.Or(o.RescueAfter, time.Minute)
	o.RetryDelay = cmp.Or(o.RetryDelay, 5*time.Second)
	o.PollInterval = cmp.Or(o.PollInterval, 250*time.Millisecond)
	if o.MaxHandlers < 2 || o.MaxHandlers > 10_000 {
		return o, fmt.Errorf("queue: MaxHandlers must be between 2 and 10000, got %d", o.MaxHandlers)
	}
	if o.RescueAfter <= o.HandlerTimeout {
		return o, fmt.Errorf("queue: RescueAfter is %s, but must be longer than HandlerTimeout, which is %s", o.RescueAfter, o.HandlerTimeout)
	}
	return o, nil
}

// retryDelay returns the delay before the next attempt. failures is the number of consecutive
// failures, without the latest one.
func (o Options) retryDelay(failures int) time.Duration {
	return min(o.RetryDelay<<min(failures, 10), 60*o.RetryDelay)
}

// unknownKindDelay is the retry delay of wake-ups for which this process has no handler. A newer
// replica may have a handler.
const unknownKindDelay = time.Minute

// fairnessGroup returns the group of a wake-up. Each group gets a share of the handlers (see
// handlersPerGroup). The group is the account, or the account and the kind if SeparateGroup is set.
func fairnessGroup(w ports.Wakeup) access.AccountID {
	if w.SeparateGroup {
		return w.Account + access.AccountID("/"+w.Kind)
	}
	return w.Account
}

// handlersPerGroup returns the maximum number of handlers that one fairness group may run at the
// same time. groups is the number of groups with work. The plus one usually leaves handlers free
// for the first job of a new group. The statement admitWakeups contains the same rule in SQL.
func handlersPerGroup(maxHandlers, groups int) int { return max(1, maxHandlers/(groups+1)) }

// nextRun returns the first time after now at which p runs.
func nextRun(p ports.Periodic, now time.Time) time.Time {
	return now.UTC().Truncate(p.Every).Add(p.Every)
}
