// SPDX-License-Identifier: Apache-2.0

// Package queue wakes jobs when their time has come: River on PostgreSQL, for
// any number of replicas, and Local in the memory of the one process of the
// embedded mode.
package queue

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// Options of both adapters. Zero values are the defaults.
type Options struct {
	Log *slog.Logger
	// AtOnce is how many handlers run in this process at the same time, by
	// default 128.
	AtOnce int
	// Deadline is how long a handler may take, by default 45 s.
	Deadline time.Duration
	// Rescue is when a wake-up that a process took and never came back from is
	// given to another, by default 60 s. It is longer than Deadline. Local
	// has no use for it.
	Rescue time.Duration
	// Pause is the time until a wake-up whose handler failed comes again, by
	// default 5 s. It doubles with every failure, up to 60 times as long.
	Pause time.Duration
	// Poll is how often River looks for what fell due, by default 250 ms. What
	// is due at once it learns of at once.
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

// pause is how long to wait after the failure that followed so many others.
func (o Options) pause(failures int) time.Duration {
	return min(o.Pause<<min(failures, 10), 60*o.Pause)
}

// strangerPause is for kinds that this process has no handler for: a newer
// replica may have one.
const strangerPause = time.Minute

// turn is whose turn a wake-up takes.
func turn(w ports.Wakeup) access.AccountID {
	if w.Apart {
		return w.Account + access.AccountID("/"+w.Kind)
	}
	return w.Account
}

// share is how many handlers one of the accounts that have work may run at
// the same time. There is a share more than there are accounts: what it keeps
// free is for the first job of the next one.
func share(atOnce, accounts int) int { return max(1, atOnce/(accounts+1)) }

// next is when a periodic comes again.
func next(p ports.Periodic, now time.Time) time.Time {
	return now.UTC().Truncate(p.Every).Add(p.Every)
}
