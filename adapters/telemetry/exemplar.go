// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
)

// traceOnlyReservoirs returns reservoirs whose exemplars contain only the ids of trace and span. By
// default the SDK adds the attributes that a view has removed from the metric. These attributes can
// be longer than Prometheus allows, and every scrape would then report an error.
func traceOnlyReservoirs(aggregation sdkmetric.Aggregation) exemplar.ReservoirProvider {
	provider := sdkmetric.DefaultExemplarReservoirProviderSelector(aggregation)
	return func(attributes attribute.Set) exemplar.Reservoir { return withoutAttributes{provider(attributes)} }
}

// withoutAttributes omits from each measurement the attributes that a view has removed.
type withoutAttributes struct{ exemplar.Reservoir }

// Offer implements exemplar.Reservoir.
func (w withoutAttributes) Offer(ctx context.Context, at time.Time, value exemplar.Value, _ []attribute.KeyValue) {
	w.Reservoir.Offer(ctx, at, value, nil)
}
