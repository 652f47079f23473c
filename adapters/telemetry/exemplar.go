// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
)

// traceOnly keeps exemplars, which lead from a point on a graph to a trace, but
// not the attributes that a view took off the series. The SDK would hand them
// on with each exemplar: they can be longer than Prometheus allows, which is an
// error at every scrape, and they were taken off for a reason.
func traceOnly(kept sdkmetric.Aggregation) exemplar.ReservoirProvider {
	provider := sdkmetric.DefaultExemplarReservoirProviderSelector(kept)
	return func(attributes attribute.Set) exemplar.Reservoir { return bare{provider(attributes)} }
}

type bare struct{ exemplar.Reservoir }

// Offer implements exemplar.Reservoir.
func (b bare) Offer(ctx context.Context, at time.Time, value exemplar.Value, _ []attribute.KeyValue) {
	b.Reservoir.Offer(ctx, at, value, nil)
}
