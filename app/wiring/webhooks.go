// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/adapters/webhookhttp"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// webhookSweepEvery is the interval of the sweep that wakes due deliveries without a wake-up.
const webhookSweepEvery = 30 * time.Second

// initWebhooks builds the use cases and the worker of webhooks. It fails when the metrics cannot be
// registered.
func (s *Service) initWebhooks(c settings.Config, sealer ports.Sealer, o Overrides) error {
	measured, err := telemetry.NewWebhooks()
	if err != nil {
		return err
	}
	sender := failpointSender{webhookhttp.New(webhookhttp.Options{AllowPrivate: c.WebhooksAllowPrivate})}
	tries := &webhooks.Tries{
		Deliveries: s.Store, Sender: sender, Sealer: sealer, Now: o.Now, Chance: mathrand.Float64, Log: s.Log,
		Tried: func(ctx context.Context, t webhooks.Tried) { measured.RecordTry(ctx, t.Response, t.Lag) },
	}
	s.webhooks = &webhooks.Service{
		Webhooks: s.Store, Deliveries: s.Store, Sender: sender, Sealer: sealer, Tries: tries, Queue: s.Queue, Random: rand.Reader, Now: o.Now,
	}
	s.WebhookWorker = webhooks.NewWorker(webhooks.Options{
		Webhooks: s.Store, Deliveries: s.Store, Tries: tries, Queue: s.Queue, Logged: s.Store.EventsLogged(), Now: o.Now, Log: s.Log,
		Keep: time.Duration(c.KeepLogDays) * 24 * time.Hour, // as long as their events
	})
	return nil
}

// failpointSender has a failpoint before and after each message.
type failpointSender struct{ ports.WebhookSender }

func (f failpointSender) Send(ctx context.Context, m webhook.Message) webhook.Response {
	failpoint.Before("webhook send")
	r := f.WebhookSender.Send(ctx, m)
	if r.Accepted() {
		failpoint.After("webhook send")
	}
	return r
}

// webhookGauges observes the webhooks of all accounts.
type webhookGauges struct {
	endpoints, pending, late metric.Float64ObservableGauge
}

func newWebhookGauges(gauge func(name, description string) metric.Float64ObservableGauge) webhookGauges {
	return webhookGauges{
		endpoints: gauge("tenantry.webhook.endpoints", "Webhooks by state: working, failing (enabled, and the last try failed) and disabled."),
		pending:   gauge("tenantry.webhook.deliveries.pending", "Deliveries that are not accepted yet and will be tried again."),
		late:      gauge("tenantry.webhook.late.seconds", "How long the delivery that waits longest has been due, of webhooks that are not failing."),
	}
}

// all returns every gauge, for registration with the callback.
func (g webhookGauges) all() []metric.Observable {
	return []metric.Observable{g.endpoints, g.pending, g.late}
}

func (g webhookGauges) observe(o metric.Observer, h ports.WebhookHealth, now time.Time) {
	for state, n := range map[string]int{"working": h.Enabled - h.Failing, "failing": h.Failing, "disabled": h.Disabled} {
		o.ObserveFloat64(g.endpoints, float64(n), labels("state", state))
	}
	o.ObserveFloat64(g.pending, float64(h.Pending))
	late := 0.0
	if !h.OldestDue.IsZero() {
		late = max(0, now.Sub(h.OldestDue).Seconds())
	}
	o.ObserveFloat64(g.late, late)
}
