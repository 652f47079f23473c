// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// Kind is the job kind of the due deliveries of one webhook, identified by the webhook's id.
const Kind = "webhook_deliveries"

const (
	// defaultSlots is how many deliveries a process sends at the same time.
	defaultSlots = 1024
	// noSlotPause is how long deliveries wait when no slot is free.
	noSlotPause = time.Second
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
	// Slots is how many deliveries the process sends at the same time, 1,024 by default. Failing
	// webhooks get at most half of them.
	Slots int
	// Keep is how long deliveries are kept; 0 keeps them forever.
	Keep time.Duration
}

// Worker sends the deliveries of all accounts. An endpoint that hangs occupies no handler of the
// queue. A handler claims deliveries and starts their tries, which have slots of their own. The
// claims limit the tries of one endpoint over all processes (webhook.Webhook.Concurrent), and the
// slots limit the tries of this process.
type Worker struct {
	Options

	sending context.Context // of all tries
	cancel  context.CancelFunc
	fanOut  chan struct{} // closed when the fan-out of Start has ended
	endFan  context.CancelFunc

	mu       sync.Mutex // guards the fields below
	idle     *sync.Cond // signalled when no slot is in use
	used     ports.Slots
	stopping bool
}

// NewWorker returns a worker that does nothing yet.
func NewWorker(o Options) *Worker {
	o.Slots = cmp.Or(o.Slots, defaultSlots)
	w := &Worker{Options: o}
	w.idle = sync.NewCond(&w.mu)
	w.sending, w.cancel = context.WithCancel(context.Background())
	return w
}

// wakeup returns the wake-up of a webhook's deliveries. Each account has a fairness group of its
// own for deliveries, so that they do not delay its other jobs.
func wakeup(owner access.AccountID, id string, at time.Time) ports.Wakeup {
	return ports.Wakeup{Kind: Kind, ID: id, Account: owner, SeparateGroup: true, At: at}
}

// Handle starts the tries of a webhook's due deliveries. It is the handler of Kind.
func (w *Worker) Handle(ctx context.Context, wakeup ports.Wakeup) error {
	return w.dispatch(ctx, wakeup.Account, wakeup.ID)
}

// dispatch claims due deliveries of a webhook and starts their tries. It sets a wake-up for the next
// delivery that is not due yet. What it leaves because the endpoint is busy is claimed after a try.
func (w *Worker) dispatch(ctx context.Context, owner access.AccountID, id string) error {
	slots, stopped := w.takeSlots(webhook.MaxConcurrent)
	if stopped {
		return nil
	}
	if slots.All == 0 {
		return w.wakeAfter(ctx, owner, id, noSlotPause)
	}
	now := w.now()
	claimed, err := w.Deliveries.ClaimDeliveries(ctx, owner, id, slots, lease, now)
	w.startTries(slots, claimed.Deliveries)
	switch {
	case err != nil:
		return err
	case claimed.Waiting:
		return w.wakeAfter(ctx, owner, id, noSlotPause)
	case !claimed.Next.IsZero():
		return w.wakeAfter(ctx, owner, id, claimed.Next.Sub(now))
	default:
		return nil
	}
}

// startTries starts the tries of claimed deliveries and gives the other slots back.
func (w *Worker) startTries(slots ports.Slots, claimed []ports.ClaimedDelivery) {
	for _, d := range claimed {
		failing := d.Webhook.Failing()
		slots.Take(failing)
		own := ports.Slots{All: 1}
		if failing {
			own.Failing = 1
		}
		panics.Go(func() {
			defer w.giveBack(own)
			w.try(d)
		}, func(e *panics.Error) { w.Log.Error("panic", "kind", Kind, "type", e.Type, "stack", e.Stack) })
	}
	w.giveBack(slots)
}

// wakeAfter sets a wake-up. It uses the machine's clock, as queues do: the sandbox's clock may be
// hours ahead.
func (w *Worker) wakeAfter(ctx context.Context, owner access.AccountID, id string, pause time.Duration) error {
	return w.Queue.Wake(ctx, wakeup(owner, id, time.Now().Add(pause)))
}

// try sends a delivery. Then it starts the tries of the webhook's due deliveries, or sets the wake-up
// of the next try.
func (w *Worker) try(d ports.ClaimedDelivery) {
	tried, err := w.Tries.Try(w.sending, d)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.sending), saveLimit)
	defer cancel()
	switch owner := d.Webhook.Account; {
	case err != nil || w.sending.Err() != nil:
	case tried.Due:
		err = w.dispatch(ctx, owner, d.WebhookID)
	case tried.Delivery.Status == webhook.Pending:
		err = w.wakeAfter(ctx, owner, d.WebhookID, tried.Delivery.NextAttemptAt.Sub(w.now()))
	}
	if err != nil {
		w.Log.WarnContext(ctx, "deliveries of a webhook wait for the next sweep", "webhook", d.WebhookID, "error", err)
	}
}

// takeSlots takes at most n slots for tries. stopped is true if the worker is stopping and starts
// no tries.
func (w *Worker) takeSlots(n int) (taken ports.Slots, stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping {
		return taken, true
	}
	taken.All = min(n, w.Slots-w.used.All)
	taken.Failing = min(taken.All, w.Slots/2-w.used.Failing)
	w.used.All += taken.All
	w.used.Failing += taken.Failing
	return taken, false
}

// giveBack gives back slots.
func (w *Worker) giveBack(s ports.Slots) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used.All -= s.All
	w.used.Failing -= s.Failing
	if w.used.All == 0 {
		w.idle.Broadcast()
	}
}

// waitIdle waits until no slot is in use.
func (w *Worker) waitIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.used.All > 0 {
		w.idle.Wait()
	}
}

// Stop starts no new tries and ends the fan-out. Tries in progress may go on for two seconds. Then
// they are interrupted: they do not count, and the next process repeats them. It fails if they have
// not ended when ctx ends.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()
	if w.endFan != nil {
		w.endFan()
		<-w.fanOut
	}
	ended := make(chan struct{})
	panics.Go(func() { w.waitIdle(); close(ended) }, func(*panics.Error) {})
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
