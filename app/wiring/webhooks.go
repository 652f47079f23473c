// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/adapters/webhookhttp"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// webhookSweepEvery is the interval of the sweep that wakes due deliveries whose wake-up was lost.
const webhookSweepEvery = 30 * time.Second

// initWebhooks builds the use cases and the worker of webhooks. It fails when the metrics cannot be
// registered.
func (s *Service) initWebhooks(c settings.Config, sealer ports.Sealer, o Overrides) error {
	metrics, err := telemetry.NewWebhooks()
	if err != nil {
		return err
	}
	sender := failpointSender{webhookhttp.New(webhookhttp.Options{AllowPrivate: c.WebhooksAllowPrivate})}
	tries := &webhooks.Tries{
		Deliveries: s.Store, Sender: sender, Sealer: sealer, Now: o.Now, Chance: mathrand.Float64, Log: s.Log,
		OnTry: func(ctx context.Context, t webhooks.TryResult) { metrics.RecordTry(ctx, t.Response, t.Lag) },
	}
	s.webhooks = &webhooks.Service{
		Webhooks: s.Store, Deliveries: s.Store, Sender: sender, Sealer: sealer, Tries: tries, Queue: s.Queue, Random: rand.Reader, Now: o.Now,
	}
	s.WebhookWorker = webhooks.NewWorker(webhooks.Options{
		Webhooks: s.Store, Deliveries: s.Store, Tries: tries, Queue: s.Queue, Logged: s.Store.EventsLogged(), Now: o.Now, Log: s.Log,
		Retention: time.Duration(c.KeepLogDays) * 24 * time.Hour, // deliveries are kept as long as events
	})
	return nil
}

// failpointSender has a failpoint before each message and a failpoint after each accepted message.
type failpointSender struct{ ports.WebhookSender }

func (f failpointSender) Send(ctx context.Context, m webhook.Message) webhook.Response {
	failpoint.Before("webhook send")
	response := f.WebhookSender.Send(ctx, m)
	if response.Accepted() {
		failpoint.After("webhook send")
	}
	return response
}
