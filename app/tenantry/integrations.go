// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
)

const (
	// sessionSweepEvery is how often sign-ins are looked for that are over and
	// that nobody asked about.
	sessionSweepEvery = time.Minute
	// refreshEvery is how old what is known of a sending platform gets before it
	// is read again. It is far below what platforms allow: each of them takes
	// dozens of pages a minute.
	refreshEvery = 6 * time.Hour
)

// sendingIntegrations makes the use cases of integrations and what they do by
// themselves.
func (s *service) sendingIntegrations(sealer ports.Sealer, o outside) error {
	drift, err := otel.Meter("github.com/tenantry/tenantry/app/tenantry").Int64Counter("tenantry.sending.drift",
		metric.WithDescription("Changes at sending platforms that nobody asked for here, by kind, as refreshes find them."))
	if err != nil {
		return err
	}
	s.integrations = &integrations.Service{
		Integrations: s.store, Connections: s.store, Tenants: s.store, Platforms: s.sending, Sealer: sealer, Queue: s.queue, Random: rand.Reader,
		Now: o.now, Drift: func(provider string, kind integration.Drift) {
			drift.Add(context.Background(), 1, labels("provider", provider, "kind", string(kind)))
		},
	}
	s.sessionSweep = cmp.Or(o.jobSweep, sessionSweepEvery)
	return nil
}
