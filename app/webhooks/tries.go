// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// deliveryLease is how long a claim of a delivery is valid. It is longer than a try (15 s) plus
// twice saveTimeout, because a result can wait for the batch before its own. After a crash, the
// delivery is sent again when the lease has expired. The repeated message has the same webhook-id
// header.
const deliveryLease = 40 * time.Second

// saveTimeout is the timeout for storing a batch of results, or for releasing a delivery.
const saveTimeout = 10 * time.Second

const (
	// storePause is the shortest time between two batches of results.
	storePause = 20 * time.Millisecond
	// storeRetry is the pause after the database could not store a batch.
	storeRetry = 500 * time.Millisecond
	// maxStored is the maximum number of results that one transaction stores. It is about
	// defaultSlots, so one transaction can store the results that had to wait while a fan-out held
	// the locks.
	maxStored = 1000
)

// Tries sends claimed deliveries and stores the results. Results that arrive while a batch is being
// stored form the next batch.
type Tries struct {
	Deliveries ports.Deliveries
	Sender     ports.WebhookSender
	Sealer     ports.Sealer
	Now        func() time.Time
	// Chance returns a random number in [0, 1), for the jitter of pauses.
	Chance func() float64
	Log    *slog.Logger
	// OnTry, if set, is called for each try that counts (see Try). It is for metrics.
	OnTry func(ctx context.Context, t TryResult)

	mu             sync.Mutex // guards the fields below
	waitingResults []*pendingResult
	storing        bool // a goroutine stores the waiting results
}

// TryResult is a delivery after a try.
type TryResult struct {
	Delivery webhook.Delivery
	Response webhook.Response
	// Lag is the time from the event to the end of its first try. It is negative for a later try,
	// and if the event is no longer stored.
	Lag time.Duration
	// HasDue is true if the webhook has due deliveries that are not claimed.
	HasDue bool
}

// pendingResult is a try's result that waits to be stored.
type pendingResult struct {
	ports.TriedDelivery
	saved  ports.SavedDelivery
	err    error
	stored chan struct{} // closed when saved and err are set
}

// Try sends a claimed delivery once and stores the result. If ctx is cancelled before the endpoint
// accepts the message, the try does not count, and the delivery can be claimed again at once. If
// the result cannot be stored, Try fails, and the delivery is sent again when its lease has
// expired.
func (t *Tries) Try(ctx context.Context, d ports.ClaimedDelivery) (TryResult, error) {
	return t.try(ctx, d, func(webhook.Response) {})
}

// try does the work of Try. It calls answered before it stores the result, and also if the sender
// panics.
func (t *Tries) try(ctx context.Context, d ports.ClaimedDelivery, answered func(webhook.Response)) (TryResult, error) {
	began := t.now()
	response := t.send(ctx, d, answered)
	if ctx.Err() != nil && !response.Accepted() {
		saveCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
		defer cancel()
		return TryResult{Delivery: d.Delivery, Response: response}, t.Deliveries.ReleaseDelivery(saveCtx, d.Webhook.Account, d.Delivery)
	}
	tried := TryResult{Delivery: d.AfterTry(response, began, t.Chance()), Response: response, Lag: -1}
	if d.Event != nil && len(d.Attempts) == 0 {
		tried.Lag = max(0, began.Add(response.Duration).Sub(d.Event.At))
	}
	if t.OnTry != nil {
		t.OnTry(ctx, tried)
	}
	saved, err := t.store(ports.TriedDelivery{Delivery: tried.Delivery, Account: d.Webhook.Account, Gone: response.IsGone(), NotSent: response.NotSent})
	if err != nil {
		return tried, fmt.Errorf("store the result of a delivery: %w", err)
	}
	if !saved.Saved {
		t.Log.InfoContext(ctx, "the result of a delivery is not stored, because the delivery was claimed or changed again", "delivery", d.ID)
	}
	tried.HasDue = saved.HasDue
	return tried, nil
}

// store stores a result, in one batch with the results of other tries that ended at about the same
// time.
func (t *Tries) store(d ports.TriedDelivery) (ports.SavedDelivery, error) {
	waiting := &pendingResult{TriedDelivery: d, stored: make(chan struct{})}
	t.mu.Lock()
	t.waitingResults = append(t.waitingResults, waiting)
	if !t.storing {
		t.storing = true
		panics.Go(t.storeAll, func(*panics.Error) {}) // storeBatch catches panics
	}
	t.mu.Unlock()
	<-waiting.stored
	return waiting.saved, waiting.err
}

func (t *Tries) storeAll() {
	for {
		t.mu.Lock()
		batch := t.waitingResults[:min(len(t.waitingResults), maxStored)]
		t.waitingResults = t.waitingResults[len(batch):]
		t.storing = len(batch) > 0
		t.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		t.storeBatch(batch)
		time.Sleep(storePause)
	}
}

// storeBatch stores the results of a batch. While the database is unavailable, it tries again
// until saveTimeout has passed, because a message whose result is not stored is sent twice. A panic
// counts as an error of the whole batch.
func (t *Tries) storeBatch(batch []*pendingResult) {
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	tried := make([]ports.TriedDelivery, 0, len(batch))
	for _, r := range batch {
		tried = append(tried, r.TriedDelivery)
	}
	var saved []ports.SavedDelivery
	save := func() (err error) {
		saved, err = t.Deliveries.SaveDeliveries(ctx, tried, t.now())
		return err
	}
	err := panics.Catch(save)
	for errors.Is(err, fault.ServiceUnavailable) && ctx.Err() == nil {
		wait(ctx, storeRetry, nil)
		err = panics.Catch(save)
	}
	for i, r := range batch {
		if r.err = err; err == nil {
			r.saved = saved[i]
		}
		close(r.stored)
	}
}

// send sends the message of a delivery and calls answered with the response. If the event is no
// longer stored or the message cannot be signed, the try fails. If send panics, the response is
// empty.
func (t *Tries) send(ctx context.Context, d ports.ClaimedDelivery, answered func(webhook.Response)) (response webhook.Response) {
	defer func() { answered(response) }()
	if d.Event == nil {
		return webhook.Response{Error: "the event is no longer stored", Final: true, NotSent: true}
	}
	m, err := t.message(d)
	if err != nil {
		t.Log.ErrorContext(ctx, "a delivery cannot be signed", "webhook", d.WebhookID, "delivery", d.ID, "error", err)
		return webhook.Response{Error: "the message could not be signed", NotSent: true}
	}
	return t.Sender.Send(ctx, m)
}

// message returns the signed message of a delivery. The timestamp comes from the machine's clock,
// because an endpoint compares the timestamp with its own clock. The service's clock can differ
// from the machine's clock, because the sandbox can move the service's clock.
func (t *Tries) message(d ports.ClaimedDelivery) (webhook.Message, error) {
	w := d.Webhook
	var secrets []secret.Text
	for _, sealed := range w.Secrets.ValidAt(t.now()) {
		text, err := t.Sealer.Open(sealed, associatedData(w.Account, w.ID))
		if err != nil {
			return webhook.Message{}, err
		}
		secrets = append(secrets, text)
	}
	body, err := webhook.Body(*d.Event)
	if err != nil {
		return webhook.Message{}, err
	}
	return webhook.Message{URL: w.URL, ID: d.EventID, Timestamp: time.Now(), Body: body}.Sign(secrets...)
}

func (t *Tries) now() time.Time { return t.Now().UTC().Truncate(time.Microsecond) }
