// SPDX-License-Identifier: Apache-2.0

// Package queue implements ports.Worker: it enqueues wake-ups and calls a job's handler when its
// wake-up is due. Accounts are served round-robin, each with a limited share of the handlers.
//
// There are two implementations. River stores wake-ups in PostgreSQL, for any number of replicas.
// Local keeps them in memory, for the single process of the embedded mode.
//
//   - queue.go: Options and the rules that both queues share. Start here.
//   - handlers.go: how a handler is called: deadline, trace, panics, retries, periodic work.
//   - local.go, scheduler.go: Local, and the order in which it starts wake-ups.
//   - river.go: River, its configuration and its metrics.
//   - river_wake.go: how wake-ups are inserted and duplicates avoided.
//   - river_driver.go: fairDriver, which replaces how River fetches jobs.
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
	// AtOnce is the maximum number of handlers that run in this process at the same time, 128 by
	// default. It must be between 2 and 10,000.
	AtOnce int
	// Deadline is the time limit of a handler, 45 s by default.
	Deadline time.Duration
	// Rescue is how long after its claim an unfinished wake-up may be claimed again, 60 s by
	// default. It must be longer than Deadline. Local ignores it.
	Rescue time.Duration
	// Pause is the delay before the first retry of a handler that failed, 5 s by default. It
	// doubles with every failure, up to 60 times Pause.
	Pause time.Duration
	// Poll is how often River checks for wake-ups that became due, 250 ms by default. A wake-up
	// that is due at once does not wait for the next check. Local ignores it.
	Poll time.Duration
}

func (o Options) withDefaults() (Options, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.AtOnce = cmp.Or(o.AtOnce, 128)
	o.Deadline = cmp.Or(o.Deadline, 45*time.Second)
	o.Rescue = cmp.Or(o.Rescue, time.Minute)
	o.Pause = cmp.Or(o.Pause, 5*time.Second)
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	if o.AtOnce < 2 || o.AtOnce > 10_000 {
		return o, fmt.Errorf("queue: %d handlers at once, want 2 to 10000", o.AtOnce)
	}
	if o.Rescue <= o.Deadline {
		return o, fmt.Errorf("queue: a rescue after %s would take work from handlers that have %s", o.Rescue, o.Deadline)
	}
	return o, nil
}

// retryDelay returns the delay before the next attempt, after a number of earlier failures.
func (o Options) retryDelay(failures int) time.Duration {
	return min(o.Pause<<min(failures, 10), 60*o.Pause)
}

// unknownKindDelay is the retry delay of wake-ups for which this process has no handler. A newer
// replica may have one.
const unknownKindDelay = time.Minute

// fairnessGroup returns the group whose share of the handlers a wake-up uses: the account, or the
// account and the kind if the wake-up is Apart.
func fairnessGroup(w ports.Wakeup) access.AccountID {
	if w.Apart {
		return w.Account + access.AccountID("/"+w.Kind)
	}
	return w.Account
}

// handlersPerGroup returns the maximum number of handlers that one fairness group may run at the
// same time. It divides by one more than the number of groups, which keeps handlers free for the
// first job of a further group.
func handlersPerGroup(maxHandlers, groups int) int { return max(1, maxHandlers/(groups+1)) }

// nextRun returns the first time after now at which p runs.
func nextRun(p ports.Periodic, now time.Time) time.Time {
	return now.UTC().Truncate(p.Every).Add(p.Every)
}
