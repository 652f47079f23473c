// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

const (
	// pollInterval is how often a process looks for events that other processes have logged.
	pollInterval = 2 * time.Second
	// maxAccounts is how many accounts a round of the fan-out serves, and maxEvents how many events
	// of each. An account with many events therefore does not delay the others.
	maxAccounts = 200
	maxEvents   = 100
	// fanOutWorkers is how many accounts a round serves at the same time.
	fanOutWorkers = 4
	// roundLimit bounds a round.
	roundLimit = time.Minute
	// maxSweep is how many webhooks one sweep wakes, and maxDisabled how many it disables.
	maxSweep    = 1000
	maxDisabled = 100
	// dropBatch is how many deliveries one statement deletes.
	dropBatch = 1000
)

// Start starts the fan-out of this process, which runs until Stop. Each process reads the logs by
// itself. A wake-up in the queue would add a job for each event, and after a crash the events of
// its account would wait until the queue rescues the job.
func (w *Worker) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	w.endFan, w.fanOut = cancel, make(chan struct{})
	panics.Go(func() {
		defer close(w.fanOut)
		w.run(ctx)
	}, func(e *panics.Error) {
		w.Log.Error("panic", "kind", "webhook_fan_out", "type", e.Type, "stack", e.Stack)
	})
}

func (w *Worker) run(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		more, err := false, error(nil)
		panics.Guarded(func() { more, err = w.FanOut(ctx) }, func(e *panics.Error) { err = e })()
		if err != nil && !failing && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "webhooks wait: the fan-out of events fails and keeps trying", "error", err)
		}
		failing = err != nil
		if more && !failing {
			continue
		}
		poll := time.NewTimer(pollInterval)
		select {
		case <-ctx.Done():
		case <-w.Logged:
		case <-poll.C:
		}
		poll.Stop()
	}
}

// FanOut runs one round of the fan-out: it adds the deliveries of new events, and starts their
// tries. more is true if events are left. An account that fails does not affect the others.
func (w *Worker) FanOut(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	accounts, err := w.Deliveries.AccountsBehind(ctx, maxAccounts)
	if err != nil {
		return false, err
	}
	queue := make(chan access.AccountID, len(accounts))
	for _, owner := range accounts {
		queue <- owner
	}
	close(queue)
	more = len(accounts) == maxAccounts
	var mu sync.Mutex // guards more and errs
	var errs []error
	var workers panics.Group
	for range fanOutWorkers {
		workers.Go(func() {
			for owner := range queue {
				left, err := w.fanOutAccount(ctx, owner)
				mu.Lock()
				more, errs = more || left, append(errs, err)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return more, errors.Join(errs...)
}

func (w *Worker) fanOutAccount(ctx context.Context, owner access.AccountID) (more bool, err error) {
	receiving, more, err := w.Deliveries.FanOut(ctx, owner, maxEvents, w.now())
	if err != nil {
		return false, err
	}
	for _, id := range receiving {
		err = errors.Join(err, w.dispatch(ctx, owner, id))
	}
	return more, err
}

// Handlers returns the handlers of this package's job kinds.
func (w *Worker) Handlers() map[string]ports.Handler {
	return map[string]ports.Handler{Kind: w.Handle}
}

// Periodic returns the background jobs: waking due deliveries without a wake-up, disabling failing
// webhooks, and deleting old deliveries.
func (w *Worker) Periodic(sweep time.Duration) []ports.Periodic {
	return []ports.Periodic{
		{Kind: "webhook_sweep", Every: sweep, Do: w.Sweep},
		{Kind: "webhook_retention", Every: time.Hour, Do: w.dropOld},
	}
}

// Sweep disables webhooks that failed for too long, and wakes due deliveries.
func (w *Worker) Sweep(ctx context.Context) error {
	_, err := w.Webhooks.DisableFailing(ctx, w.now().Add(-webhook.DisableAfter), maxDisabled)
	if err != nil {
		return err
	}
	due, err := w.Deliveries.DueWebhooks(ctx, w.now(), maxSweep)
	if err != nil {
		return err
	}
	all := make([]ports.Wakeup, 0, len(due))
	for _, d := range due {
		all = append(all, wakeup(d.Account, d.ID, time.Time{}))
	}
	return w.Queue.Wake(ctx, all...)
}

// dropOld deletes deliveries that are older than Keep, in batches.
func (w *Worker) dropOld(ctx context.Context) error {
	for dropped := dropBatch; w.Keep > 0 && dropped == dropBatch; {
		var err error
		if dropped, err = w.Deliveries.DropDeliveries(ctx, w.now().Add(-w.Keep), dropBatch); err != nil {
			return err
		}
	}
	return nil
}
