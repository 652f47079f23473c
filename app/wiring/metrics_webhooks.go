// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/ports"
)

// webhookGauges observes the webhooks of all accounts.
type webhookGauges struct {
	webhooks, pending, lateness metric.Float64ObservableGauge
}

func newWebhookGauges(gauge func(name, description string) metric.Float64ObservableGauge) webhookGauges {
	return webhookGauges{
		webhooks: gauge("tenantry.webhook.endpoints", "Webhooks by state: working, failing (enabled, and a try has failed since the last success) and disabled."),
		pending:  gauge("tenantry.webhook.deliveries.pending", "Deliveries to enabled webhooks of active accounts that will be tried for the first time or again."),
		lateness: gauge("tenantry.webhook.late.seconds", "For how many seconds the oldest due delivery has been due. Deliveries to failing webhooks do not count."),
	}
}

// instruments returns every gauge, for registration with the callback.
func (g webhookGauges) instruments() []metric.Observable {
	return []metric.Observable{g.webhooks, g.pending, g.lateness}
}

func (g webhookGauges) observe(o metric.Observer, h ports.WebhookHealth, now time.Time) {
	for state, count := range map[string]int{"working": h.Enabled - h.Failing, "failing": h.Failing, "disabled": h.Disabled} {
		o.ObserveFloat64(g.webhooks, float64(count), labels("state", state))
	}
	o.ObserveFloat64(g.pending, float64(h.Pending))
	lateSeconds := 0.0
	if !h.OldestDue.IsZero() {
		lateSeconds = max(0, now.Sub(h.OldestDue).Seconds())
	}
	o.ObserveFloat64(g.lateness, lateSeconds)
}
