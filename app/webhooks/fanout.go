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
	// pollInterval is how often a process looks for events that other processes have logged.
	pollInterval = 2 * time.Second
	// maxAccounts is how many accounts a round of the fan-out serves, and maxEvents how many events
	// of each. An account with many events therefore does not delay the others.
	maxAccounts = 200
	maxEvents   = 100
	// fanOutBatch is how many accounts one transaction serves, which locks their webhooks meanwhile.
	// maxClaims is how many deliveries it claims. The other slots stay free for other claims.
	fanOutBatch = 20
	maxClaims   = 256
	// maxSweep is how many webhooks one sweep wakes, and maxDisabled how many it disables.
	maxSweep    = 1000
	maxDisabled = 100
	// dropBatch is how many deliveries one statement deletes.
	dropBatch = 1000
)

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

// fanOutAccounts adds the deliveries of some accounts and starts their tries. What finds no slot is
// claimed later.
func (w *Worker) fanOutAccounts(ctx context.Context, owners []access.AccountID) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchLimit)
	defer cancel()
	slots, closed := w.slots.take(maxClaims)
	if closed {
		return false, nil
	}
	fanned, err := w.Deliveries.FanOut(ctx, owners, maxEvents, slots, lease, w.now())
	w.startTries(slots, fanned.Claimed)
	w.claimIn(noSlotPause, fanned.Waiting...)
	return fanned.More, err
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
		all = append(all, wakeup(d.Account, d.ID))
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
