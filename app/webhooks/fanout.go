// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"slices"
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
	// fanOutBatch is how many accounts one transaction serves, and maxClaims how many deliveries it
	// claims. The other slots stay free for tries that end meanwhile.
	fanOutBatch = 50
	maxClaims   = 512
	// roundPause is the shortest time between two rounds. Events that are logged meanwhile share a
	// transaction.
	roundPause = 25 * time.Millisecond
	// batchLimit bounds the transaction of a batch.
	batchLimit = 15 * time.Second
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
		wait(ctx, roundPause, nil)
		if !more || failing {
			wait(ctx, pollInterval, w.Logged)
		}
	}
}

// wait waits until the time has passed, or one of the others has happened.
func wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// FanOut runs one round of the fan-out: it adds the deliveries of new events, and starts their
// tries. more is true if events are left. The accounts come in random order, so an account that fails
// does not affect the same others in the next round.
func (w *Worker) FanOut(ctx context.Context) (more bool, err error) {
	accounts, err := w.Deliveries.AccountsBehind(ctx, maxAccounts)
	if err != nil {
		return false, err
	}
	more = len(accounts) == maxAccounts
	var errs []error
	for batch := range slices.Chunk(accounts, fanOutBatch) {
		if ctx.Err() != nil {
			break
		}
		left, err := w.fanOutAccounts(context.WithoutCancel(ctx), batch)
		more, errs = more || left, append(errs, err)
	}
	return more, errors.Join(errs...)
}

// fanOutAccounts adds the deliveries of some accounts and starts their tries. What finds no slot waits
// in the queue, which is fair between accounts.
func (w *Worker) fanOutAccounts(ctx context.Context, owners []access.AccountID) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchLimit)
	defer cancel()
	slots, stopped := w.takeSlots(maxClaims)
	if stopped {
		return false, nil
	}
	fanned, err := w.Deliveries.FanOut(ctx, owners, maxEvents, slots, lease, w.now())
	w.startTries(slots, fanned.Claimed)
	if err != nil || len(fanned.Waiting) == 0 {
		return fanned.More, err
	}
	return fanned.More, w.wake(ctx, fanned.Waiting)
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
	return w.wake(ctx, due)
}

// wake wakes the due deliveries of webhooks.
func (w *Worker) wake(ctx context.Context, due []ports.DueWebhook) error {
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
