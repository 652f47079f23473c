// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// Kind is the kind of the wake-ups for due deliveries. The id of a wake-up is the id of the
// webhook.
const Kind = "webhook_deliveries"

const (
	defaultSlots = 1024 // the default of Options.Slots
	// noSlotPause is the pause until the next claim of deliveries that could not be claimed,
	// usually because no slot was free.
	noSlotPause = time.Second
	// failedPause is how long due deliveries wait after the transaction of their claim has failed.
	failedPause = 5 * time.Second
	// claimBatch is the maximum number of webhooks whose deliveries one transaction claims. Up to
	// parallelClaims of these transactions run at the same time, so that a slow one does not delay
	// the other webhooks.
	claimBatch     = 50
	parallelClaims = 4
	// roundPause is the shortest pause between two rounds of the fan-out or of the claims.
	// Deliveries that become due in this time are claimed in one round.
	roundPause = 25 * time.Millisecond
	// batchTimeout is the timeout of the transaction of one batch.
	batchTimeout = 15 * time.Second
	// stopGrace is how long tries in progress may continue after Stop was called.
	stopGrace = 2 * time.Second
)

// Options are the ports and settings of a Worker.
type Options struct {
	Webhooks   ports.Webhooks
	Deliveries ports.Deliveries
	Tries      *Tries
	Queue      ports.Queue
	// Logged receives a value after this process has logged events. The worker finds events of
	// other processes within two seconds.
	Logged <-chan struct{}
	Now    func() time.Time
	Log    *slog.Logger
	// Slots is the maximum number of deliveries that the worker sends at the same time. It defaults
	// to 1,024. Unproven and failing endpoints get only some of the slots (see webhook.Standing).
	Slots int
	// Retention is how long deliveries are kept; 0 keeps them forever.
	Retention time.Duration
}

// Worker sends the deliveries of all accounts. The handler of the queue only records that a webhook
// is due, so an endpoint that hangs occupies no handler. The claims in the database limit the
// simultaneous tries of one webhook over all processes (webhook.Standing.MaxParallel). The slots
// limit the simultaneous tries of this Worker (see slots.go).
type Worker struct {
	Options

	slots         *slots
	triesCtx      context.Context // the context of the tries that this worker starts
	cancelTries   context.CancelFunc
	loops         panics.Group    // the fan-out and the claims
	loopsCtx      context.Context // the context of the loops
	endLoops      context.CancelFunc
	batchesCtx    context.Context // ends only if Stop runs out of time, see batchContext
	cancelBatches context.CancelFunc

	mu sync.Mutex // guards due
	// due holds the time of the next claim of webhooks, by the machine's clock. If due lacks a
	// webhook, for example after a restart, the sweep finds its due deliveries.
	due   map[ports.DueWebhook]time.Time
	woken chan struct{} // receives a value when due has changed
}

// NewWorker returns a worker that is not started.
func NewWorker(o Options) *Worker {
	w := &Worker{Options: o, slots: newSlots(cmp.Or(o.Slots, defaultSlots)), due: map[ports.DueWebhook]time.Time{}, woken: make(chan struct{}, 1)}
	w.triesCtx, w.cancelTries = context.WithCancel(context.Background())
	w.loopsCtx, w.endLoops = context.WithCancel(context.Background())
	w.batchesCtx, w.cancelBatches = context.WithCancel(context.Background())
	return w
}

// Start starts the fan-out and the claims, which run until Stop. The fan-out is not a job of the
// queue. Each event would add a job, and after a crash the events of an account would wait until
// the queue runs the account's interrupted job again.
func (w *Worker) Start() { w.start(w.repeatFanOut, w.repeatClaims) }

func (w *Worker) start(loops ...func(context.Context)) {
	for _, loop := range loops {
		w.loops.Go(func() { loop(w.loopsCtx) })
	}
}

func (w *Worker) repeatFanOut(ctx context.Context) {
	w.repeat(ctx, "new events do not reach webhooks: the fan-out failed and is tried again", w.FanOut, func() time.Duration { return pollInterval }, w.Logged)
}

func (w *Worker) repeatClaims(ctx context.Context) {
	w.repeat(ctx, "webhook deliveries wait: claiming them failed and is tried again", w.Claim, w.untilDue, w.woken)
}

// repeat runs rounds until ctx ends. After a round that fails or leaves no work, repeat waits until
// the pause has passed or wake receives a value. If several consecutive rounds fail, repeat logs
// only the first error, with failure as the message.
func (w *Worker) repeat(ctx context.Context, failure string, round func(context.Context) (more bool, err error), pause func() time.Duration, wake <-chan struct{}) {
	failing := false
	for ctx.Err() == nil {
		more := false
		err := panics.Catch(func() (err error) {
			more, err = round(ctx)
			return err
		})
		if err != nil && !failing && ctx.Err() == nil {
			w.Log.WarnContext(ctx, failure, "error", err)
		}
		failing = err != nil
		wait(ctx, roundPause, nil)
		if !more || failing {
			wait(ctx, pause(), wake)
		}
	}
}

// wait waits until the duration has passed, ctx ends, or wake has a value. wake can be nil.
func wait(ctx context.Context, duration time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// wakeup returns the wake-up of a webhook's deliveries. The wake-up is in a separate fairness group
// of the account, so that deliveries do not delay the account's other jobs.
func wakeup(owner access.AccountID, id string) ports.Wakeup {
	return ports.Wakeup{Kind: Kind, ID: id, Account: owner, SeparateGroup: true}
}

// Handle records that a webhook has due deliveries. It is the handler of Kind.
func (w *Worker) Handle(_ context.Context, wakeup ports.Wakeup) error {
	w.scheduleClaim(0, ports.DueWebhook{Account: wakeup.Account, ID: wakeup.ID})
	return nil
}

// scheduleClaim schedules the claim of the deliveries of webhooks after a pause. If an earlier
// claim of a webhook is already scheduled, scheduleClaim keeps the earlier time. scheduleClaim uses
// the machine's clock, because the service's clock may be hours ahead in the sandbox.
func (w *Worker) scheduleClaim(pause time.Duration, webhooks ...ports.DueWebhook) {
	claimAt := time.Now().Add(pause)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range webhooks {
		if scheduledAt, found := w.due[d]; !found || claimAt.Before(scheduledAt) {
			w.due[d] = claimAt
		}
	}
	select {
	case w.woken <- struct{}{}:
	default: // the loop of the claims has not received the last value yet
	}
}

// untilDue returns the time until the first webhook is due, at most an hour.
func (w *Worker) untilDue() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := time.Now().Add(time.Hour)
	for _, claimAt := range w.due {
		if claimAt.Before(first) {
			first = claimAt
		}
	}
	return time.Until(first)
}

// takeDue removes at most n due webhooks from w.due and returns them, in no particular order.
func (w *Worker) takeDue(n int) (taken []ports.DueWebhook) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for d, claimAt := range w.due {
		if len(taken) < n && !claimAt.After(now) {
			taken = append(taken, d)
			delete(w.due, d)
		}
	}
	return taken
}

// Claim runs one round of the claims: it claims due deliveries of the webhooks that are due, and
// starts their tries. Deliveries beyond the endpoint's MaxParallel are claimed when a try in
// progress at the endpoint ends. more is true if more webhooks may be due.
func (w *Worker) Claim(ctx context.Context) (more bool, err error) {
	due := w.takeDue(parallelClaims * claimBatch)
	errs := make([]error, parallelClaims)
	var batches panics.Group
	for i, batch := range slices.Collect(slices.Chunk(due, claimBatch)) {
		batches.Go(func() { errs[i] = w.claim(ctx, batch) })
	}
	batches.Wait()
	return len(due) == parallelClaims*claimBatch, errors.Join(errs...)
}

// batchContext returns the context for the transaction of one batch. The context does not end with
// loopCtx, so that a batch in progress can finish after Stop has ended the loops. It ends after
// batchTimeout, or when Stop runs out of time.
func (w *Worker) batchContext(loopCtx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(loopCtx), batchTimeout)
	unlink := context.AfterFunc(w.batchesCtx, cancel)
	return ctx, func() {
		unlink()
		cancel()
	}
}

// claim claims due deliveries of webhooks in one transaction.
func (w *Worker) claim(ctx context.Context, due []ports.DueWebhook) error {
	ctx, cancel := w.batchContext(ctx)
	defer cancel()
	slots, closed := w.slots.take(len(due) * webhook.MaxConcurrent)
	if closed || slots.Total == 0 {
		w.scheduleClaim(noSlotPause, due...)
		return nil
	}
	now := w.now()
	claimed, err := w.Deliveries.ClaimDeliveries(ctx, due, slots, deliveryLease, now)
	w.startTries(slots, claimed.Deliveries)
	if err != nil {
		w.scheduleClaim(failedPause, due...)
		return err
	}
	w.scheduleClaim(noSlotPause, claimed.Waiting...)
	for d, nextDue := range claimed.Next {
		w.scheduleClaim(nextDue.Sub(now), d)
	}
	return nil
}

// startTries starts the tries of claimed deliveries and releases the slots that they do not use.
func (w *Worker) startTries(taken ports.Slots, claimed []ports.ClaimedDelivery) {
	for _, d := range claimed {
		taken.Take(d.Standing)
		t := w.slots.beginTry(d.WebhookID, d.Standing)
		panics.Go(func() {
			defer w.slots.endTry(t)
			w.try(d, t)
		}, func(e *panics.Error) { w.Log.Error("panic", "kind", Kind, "type", e.Type, "stack", e.Stack) })
	}
	w.slots.release(taken)
}

// try sends a delivery, and then schedules the next claim if deliveries of the webhook are due or
// this delivery is still pending.
func (w *Worker) try(d ports.ClaimedDelivery, t *startedTry) {
	tried, err := w.Tries.try(w.triesCtx, d, func(r webhook.Response) { w.slots.recordAnswer(d.WebhookID, t, r.Accepted()) })
	due := ports.DueWebhook{Account: d.Webhook.Account, ID: d.WebhookID}
	switch {
	case w.triesCtx.Err() != nil:
	case err != nil:
		w.Log.WarnContext(w.triesCtx, "deliveries of a webhook wait for the next sweep", "webhook", d.WebhookID, "error", err)
	case tried.HasDue:
		w.scheduleClaim(0, due)
	case tried.Delivery.Status == webhook.Pending:
		w.scheduleClaim(tried.Delivery.NextAttemptAt.Sub(w.now()), due)
	}
}

// Stop ends the loops of Start. No new batch starts, but batches in progress may still claim
// deliveries and start tries. Stop gives tries the time stopGrace to end, and then interrupts them.
// An interrupted try does not count, and its delivery can be claimed again. If batches or tries are
// still in progress when ctx ends, Stop cancels both and fails.
func (w *Worker) Stop(ctx context.Context) error {
	w.slots.close()
	w.endLoops()
	ended := make(chan struct{})
	panics.Go(func() { w.loops.Wait(); w.slots.waitIdle(); close(ended) }, func(*panics.Error) {})
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-ended:
		return nil
	case <-grace.C:
	case <-ctx.Done():
	}
	w.cancelTries()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		w.cancelBatches()
		return errors.New("webhooks: some deliveries did not end in time")
	}
}

func (w *Worker) now() time.Time { return w.Now().UTC().Truncate(time.Microsecond) }
