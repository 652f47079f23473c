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

// Kind is the kind of the wake-ups of one webhook's due deliveries, identified by the webhook's id.
const Kind = "webhook_deliveries"

const (
	// defaultSlots is how many deliveries a process sends at the same time.
	defaultSlots = 1024
	// noSlotPause is how long deliveries wait when no slot is free, or when another transaction has
	// locked their webhook.
	noSlotPause = time.Second
	// failedPause is how long due deliveries wait when they could not be claimed.
	failedPause = 5 * time.Second
	// claimBatch is of how many webhooks a transaction claims deliveries, and claimBatches how many
	// such transactions run at once. A transaction waits for others that hold one of its webhooks.
	claimBatch   = 50
	claimBatches = 4
	// roundPause is the shortest time between two rounds of the fan-out or of the claims. What
	// becomes due meanwhile shares a transaction.
	roundPause = 25 * time.Millisecond
	// batchLimit bounds the transaction of a batch.
	batchLimit = 15 * time.Second
	// stopGrace is how long tries in progress may go on when the worker stops.
	stopGrace = 2 * time.Second
)

// Options are the ports and settings of a Worker.
type Options struct {
	Webhooks   ports.Webhooks
	Deliveries ports.Deliveries
	Tries      *Tries
	Queue      ports.Queue
	// Logged receives a value after this process has logged events. Events of other processes are
	// found within two seconds.
	Logged <-chan struct{}
	Now    func() time.Time
	Log    *slog.Logger
	// Slots is how many deliveries the process sends at the same time, 1,024 by default. Endpoints
	// that are not proven get a part of them, see webhook.Standing.
	Slots int
	// Keep is how long deliveries are kept; 0 keeps them forever.
	Keep time.Duration
}

// Worker sends the deliveries of all accounts. An endpoint that hangs occupies no handler of the
// queue. A handler only notes that a webhook is due. The tries have slots of their own. The claims
// limit the tries of one endpoint over all processes (webhook.Standing.Concurrent), and the slots
// limit the tries of this process.
type Worker struct {
	Options

	slots    *slots
	sending  context.Context // of all tries
	cancel   context.CancelFunc
	loops    panics.Group    // of Start
	looping  context.Context // of the loops
	endLoops context.CancelFunc

	mu sync.Mutex
	// due has the times at which deliveries of webhooks are to be claimed, by the machine's clock.
	// It is a hint: the sweep finds what is missing.
	due   map[ports.DueWebhook]time.Time
	woken chan struct{} // receives a value when due has changed
}

// NewWorker returns a worker that does nothing yet.
func NewWorker(o Options) *Worker {
	w := &Worker{Options: o, slots: newSlots(cmp.Or(o.Slots, defaultSlots)), due: map[ports.DueWebhook]time.Time{}, woken: make(chan struct{}, 1)}
	w.sending, w.cancel = context.WithCancel(context.Background())
	w.looping, w.endLoops = context.WithCancel(context.Background())
	return w
}

// Start starts the fan-out and the claims of this process, which run until Stop. Each process reads
// the logs by itself. A wake-up in the queue would add a job for each event, and after a crash the
// events of its account would wait until the queue rescues the job.
func (w *Worker) Start() { w.start(w.repeatFanOut, w.repeatClaims) }

func (w *Worker) start(loops ...func(context.Context)) {
	for _, loop := range loops {
		w.loops.Go(func() { loop(w.looping) })
	}
}

func (w *Worker) repeatFanOut(ctx context.Context) {
	w.repeat(ctx, "webhooks wait: the fan-out of events fails and keeps trying", w.FanOut, func() time.Duration { return pollInterval }, w.Logged)
}

func (w *Worker) repeatClaims(ctx context.Context) {
	w.repeat(ctx, "webhooks wait: claiming deliveries fails and keeps trying", w.Claim, w.untilDue, w.woken)
}

// repeat runs rounds until ctx ends. After a round that leaves nothing it pauses, until it is
// woken. It logs failure for the first of several rounds that fail.
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

// wakeup returns the wake-up of a webhook's deliveries. Each account has a fairness group of its
// own for deliveries, so that they do not delay its other jobs.
func wakeup(owner access.AccountID, id string) ports.Wakeup {
	return ports.Wakeup{Kind: Kind, ID: id, Account: owner, SeparateGroup: true}
}

// Handle notes that a webhook has due deliveries. It is the handler of Kind.
func (w *Worker) Handle(_ context.Context, wakeup ports.Wakeup) error {
	w.claimIn(0, ports.DueWebhook{Account: wakeup.Account, ID: wakeup.ID})
	return nil
}

// claimIn makes deliveries of webhooks be claimed after a pause, unless they already are earlier.
// It uses the machine's clock: the sandbox's clock may be hours ahead.
func (w *Worker) claimIn(pause time.Duration, webhooks ...ports.DueWebhook) {
	at := time.Now().Add(pause)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range webhooks {
		if known, found := w.due[d]; !found || at.Before(known) {
			w.due[d] = at
		}
	}
	select {
	case w.woken <- struct{}{}:
	default: // the claims have not taken the last value yet
	}
}

// untilDue returns how long no webhook is due.
func (w *Worker) untilDue() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := time.Now().Add(time.Hour)
	for _, at := range w.due {
		if at.Before(first) {
			first = at
		}
	}
	return time.Until(first)
}

// takeDue takes at most n webhooks that are due, in random order.
func (w *Worker) takeDue(n int) (taken []ports.DueWebhook) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for d, at := range w.due {
		if len(taken) < n && !at.After(now) {
			taken = append(taken, d)
			delete(w.due, d)
		}
	}
	return taken
}

// Claim runs one round of the claims: it claims due deliveries of the webhooks that are due, and
// starts their tries. What it leaves because an endpoint is busy is claimed after a try. more is
// true if more webhooks may be due.
func (w *Worker) Claim(ctx context.Context) (more bool, err error) {
	due := w.takeDue(claimBatches * claimBatch)
	errs := make([]error, claimBatches)
	var batches panics.Group
	for i, batch := range slices.Collect(slices.Chunk(due, claimBatch)) {
		batches.Go(func() { errs[i] = w.claim(context.WithoutCancel(ctx), batch) })
	}
	batches.Wait()
	return len(due) == claimBatches*claimBatch, errors.Join(errs...)
}

// claim claims due deliveries of webhooks in one transaction.
func (w *Worker) claim(ctx context.Context, due []ports.DueWebhook) error {
	ctx, cancel := context.WithTimeout(ctx, batchLimit)
	defer cancel()
	slots, closed := w.slots.take(len(due) * webhook.MaxConcurrent)
	if closed || slots.All == 0 {
		w.claimIn(noSlotPause, due...)
		return nil
	}
	now := w.now()
	claimed, err := w.Deliveries.ClaimDeliveries(ctx, due, slots, lease, now)
	w.startTries(slots, claimed.Deliveries)
	if err != nil {
		w.claimIn(failedPause, due...)
		return err
	}
	w.claimIn(noSlotPause, claimed.Waiting...)
	for d, at := range claimed.Next {
		w.claimIn(at.Sub(now), d)
	}
	return nil
}

// startTries starts the tries of claimed deliveries and gives the other slots back.
func (w *Worker) startTries(taken ports.Slots, claimed []ports.ClaimedDelivery) {
	for _, d := range claimed {
		taken.Take(d.Standing)
		t := w.slots.begin(d.WebhookID, d.Standing)
		panics.Go(func() {
			defer w.slots.end(t)
			w.try(d, t)
		}, func(e *panics.Error) { w.Log.Error("panic", "kind", Kind, "type", e.Type, "stack", e.Stack) })
	}
	w.slots.giveBack(taken)
}

// try sends a delivery, and then notes when the webhook is due again.
func (w *Worker) try(d ports.ClaimedDelivery, t *startedTry) {
	tried, err := w.Tries.try(w.sending, d, func(r webhook.Response) { w.slots.answered(d.WebhookID, t, r.Accepted()) })
	own := ports.DueWebhook{Account: d.Webhook.Account, ID: d.WebhookID}
	switch {
	case w.sending.Err() != nil:
	case err != nil:
		w.Log.WarnContext(w.sending, "deliveries of a webhook wait for the next sweep", "webhook", d.WebhookID, "error", err)
	case tried.Due:
		w.claimIn(0, own)
	case tried.Delivery.Status == webhook.Pending:
		w.claimIn(tried.Delivery.NextAttemptAt.Sub(w.now()), own)
	}
}

// Stop starts no new tries and ends the loops of Start. Tries in progress may go on for two
// seconds. Then they are interrupted: they do not count, and the next process repeats them. It
// fails if they have not ended when ctx ends.
func (w *Worker) Stop(ctx context.Context) error {
	w.slots.close()
	w.endLoops()
	w.loops.Wait()
	ended := make(chan struct{})
	panics.Go(func() { w.slots.waitIdle(); close(ended) }, func(*panics.Error) {})
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-ended:
		return nil
	case <-grace.C:
	case <-ctx.Done():
	}
	w.cancel()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return errors.New("webhooks: some deliveries did not end in time")
	}
}

func (w *Worker) now() time.Time { return w.Now().UTC().Truncate(time.Microsecond) }
