// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

const (
	// pollInterval is how often a process checks for events that other processes have logged.
	pollInterval = 2 * time.Second
	// A round of the fan-out serves at most maxAccounts accounts, and at most maxEvents events for
	// each webhook, so that an account with many events does not delay the other accounts.
	maxAccounts = 200
	maxEvents   = 100
	// One transaction serves at most fanOutBatch accounts, and locks their webhooks until it ends.
	// It claims at most maxClaims deliveries, so that slots stay free for other claims.
	fanOutBatch = 20
	maxClaims   = 256
	// One sweep wakes at most maxWoken webhooks and disables at most maxDisabled webhooks.
	maxWoken    = 1000
	maxDisabled = 100
	// dropBatch is the maximum number of deliveries that one statement deletes.
	dropBatch = 1000
)

// FanOut runs one round of the fan-out: it adds the deliveries of new events, and starts their
// tries. more is true if events may be left. The accounts come in random order, so that an account
// that makes its batch fail does not delay the same accounts in each round.
func (w *Worker) FanOut(ctx context.Context) (more bool, err error) {
	accounts, err := w.Deliveries.AccountsWithNewEvents(ctx, maxAccounts)
	if err != nil {
		return false, err
	}
	more = len(accounts) == maxAccounts
	var errs []error
	for batch := range slices.Chunk(accounts, fanOutBatch) {
		if ctx.Err() != nil {
			break
		}
		eventsLeft, err := w.fanOutAccounts(ctx, batch)
		more, errs = more || eventsLeft, append(errs, err)
	}
	return more, errors.Join(errs...)
}

// fanOutAccounts adds the deliveries for the new events of some accounts. It starts the tries of
// the deliveries that it could claim, and schedules the claim of the others.
func (w *Worker) fanOutAccounts(ctx context.Context, owners []access.AccountID) (more bool, err error) {
	ctx, cancel := w.batchContext(ctx)
	defer cancel()
	slots, closed := w.slots.take(maxClaims)
	if closed {
		return false, nil
	}
	result, err := w.Deliveries.FanOut(ctx, owners, maxEvents, slots, deliveryLease, w.now())
	w.startTries(slots, result.Claimed)
	w.scheduleClaim(noSlotPause, result.Waiting...)
	return result.More, err
}

// Handlers returns the handler of the wake-ups of this package.
func (w *Worker) Handlers() map[string]ports.Handler {
	return map[string]ports.Handler{Kind: w.Handle}
}

// Periodic returns the background jobs. One wakes due deliveries whose wake-up was lost, and
// disables failing webhooks. The other deletes old deliveries.
func (w *Worker) Periodic(sweepInterval time.Duration) []ports.Periodic {
	return []ports.Periodic{
		{Kind: "webhook_sweep", Every: sweepInterval, Do: w.Sweep},
		{Kind: "webhook_retention", Every: time.Hour, Do: w.DeleteOldDeliveries},
	}
}

// Sweep disables webhooks that failed for too long, and wakes due deliveries.
func (w *Worker) Sweep(ctx context.Context) error {
	_, err := w.Webhooks.DisableFailing(ctx, w.now().Add(-webhook.DisableAfter), maxDisabled)
	if err != nil {
		return err
	}
	due, err := w.Deliveries.DueWebhooks(ctx, w.now(), maxWoken)
	if err != nil {
		return err
	}
	wakeups := make([]ports.Wakeup, 0, len(due))
	for _, d := range due {
		wakeups = append(wakeups, wakeup(d.Account, d.ID))
	}
	return w.Queue.Wake(ctx, wakeups...)
}

// DeleteOldDeliveries deletes deliveries that are older than Retention, unless Retention is 0.
func (w *Worker) DeleteOldDeliveries(ctx context.Context) error {
	for dropped := dropBatch; w.Retention > 0 && dropped == dropBatch; {
		var err error
		if dropped, err = w.Deliveries.DropDeliveries(ctx, w.now().Add(-w.Retention), dropBatch); err != nil {
			return err
		}
	}
	return nil
}
