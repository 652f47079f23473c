// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// behindAfter is when a tenant's count is too old: two looks did not count it.
const behindAfter = 2 * sendlimit.Latest

// sendGauges show how the enforcement of send limits goes.
type sendGauges struct {
	late, tenants, behind, blocked, stranded metric.Float64ObservableGauge
}

func newSendGauges(gauge func(name, about string) metric.Float64ObservableGauge) sendGauges {
	return sendGauges{
		late:     gauge("tenantry.enforcement.late.seconds", "For how long the tenant is due to be looked at that is due for longest and that nobody works on."),
		tenants:  gauge("tenantry.enforcement.tenants", "Tenants in which a send limit is enforced and which let us in."),
		behind:   gauge("tenantry.enforcement.tenants.behind", "Those among them whose messages were not counted for an hour."),
		blocked:  gauge("tenantry.enforcement.mailboxes.blocked", "Mailboxes that are blocked."),
		stranded: gauge("tenantry.enforcement.mailboxes.stranded", "Blocked mailboxes of tenants that do not let us in, so that nobody releases them."),
	}
}

func (g sendGauges) all() []metric.Observable {
	return []metric.Observable{g.late, g.tenants, g.behind, g.blocked, g.stranded}
}

func (g sendGauges) observe(o metric.Observer, h ports.SendHealth, now time.Time) {
	late := 0.0
	if !h.Due.IsZero() {
		late = max(0, now.Sub(h.Due).Seconds())
	}
	o.ObserveFloat64(g.late, late)
	o.ObserveFloat64(g.tenants, float64(h.Limited))
	o.ObserveFloat64(g.behind, float64(h.Behind))
	o.ObserveFloat64(g.blocked, float64(h.Blocked))
	o.ObserveFloat64(g.stranded, float64(h.Stranded))
}
