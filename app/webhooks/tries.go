// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// lease is how long a claim of a delivery is valid. It is longer than a try with the storing of its
// result. After a crash the delivery is sent again when the lease has ended, with the same
// webhook-id.
const lease = 30 * time.Second

// saveLimit bounds the storing of a result.
const saveLimit = 10 * time.Second

// Tries sends claimed deliveries.
type Tries struct {
	Deliveries ports.Deliveries
	Sender     ports.WebhookSender
	Sealer     ports.Sealer
	Now        func() time.Time
	// Chance returns a random number from 0 to below 1, for the jitter of pauses.
	Chance func() float64
	Log    *slog.Logger
	// Tried, if set, is called for each try. It is for metrics.
	Tried func(ctx context.Context, t Tried)
}

// Tried is a delivery after a try.
type Tried struct {
	Delivery webhook.Delivery
	Response webhook.Response
	// Lag is the time from the event to the end of its first try. It is negative for a later try.
	Lag time.Duration
}

// Try sends a claimed delivery once and stores the result. If ctx is cancelled meanwhile, the try
// does not count, and the delivery is free for the next claim. It fails if the result cannot be
// stored; the delivery is then sent again.
func (t *Tries) Try(ctx context.Context, w webhook.Webhook, d ports.ClaimedDelivery) (Tried, error) {
	at := t.now()
	r := t.send(ctx, w, d)
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveLimit)
	defer cancel()
	if ctx.Err() != nil && !r.Accepted() {
		return Tried{Delivery: d.Delivery, Response: r}, t.Deliveries.ReleaseDelivery(saving, w.Account, d.Delivery)
	}
	tried := Tried{Delivery: d.After(r, at, t.Chance()), Response: r, Lag: -1}
	if d.Event != nil && len(d.Attempts) == 0 {
		tried.Lag = max(0, at.Add(r.Duration).Sub(d.Event.At))
	}
	if t.Tried != nil {
		t.Tried(ctx, tried)
	}
	saved, err := t.Deliveries.SaveDelivery(saving, w.Account, tried.Delivery, r.Gone())
	if err == nil && !saved {
		t.Log.InfoContext(ctx, "the result of a delivery is not stored, because a later claim or change has it", "delivery", d.ID)
	}
	if err != nil {
		err = fmt.Errorf("store the result of a delivery: %w", err)
	}
	return tried, err
}

// send sends the message of a delivery. A message that cannot be made is a failed try.
func (t *Tries) send(ctx context.Context, w webhook.Webhook, d ports.ClaimedDelivery) webhook.Response {
	if d.Event == nil {
		return webhook.Response{Error: "the event is kept no longer", Final: true}
	}
	m, err := t.message(w, d)
	if err != nil {
		t.Log.ErrorContext(ctx, "a delivery cannot be signed", "webhook", w.ID, "delivery", d.ID, "error", err)
		return webhook.Response{Error: "the message could not be signed"}
	}
	return t.Sender.Send(ctx, m)
}

// message returns the signed message of a delivery. Its timestamp is that of the machine's clock:
// an endpoint compares it with its own clock, also in the sandbox, whose clock can be moved.
func (t *Tries) message(w webhook.Webhook, d ports.ClaimedDelivery) (webhook.Message, error) {
	var secrets []secret.Text
	for _, sealed := range w.Secrets.Valid(t.now()) {
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
