// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// DomainChecks makes the counter of the reads by which the DNS of domains is
// looked at again. It shows a 0 for each result at once.
func DomainChecks(results ...string) (count func(ctx context.Context, result string), err error) {
	checks, err := otel.Meter(scope).Int64Counter("tenantry.domain.checks",
		metric.WithDescription("Reads of the DNS of verified domains, made by the service itself, by result."))
	if err != nil {
		return nil, err
	}
	by := func(result string) metric.MeasurementOption {
		return metric.WithAttributes(attribute.String("result", result))
	}
	for _, result := range results {
		checks.Add(context.Background(), 0, by(result))
	}
	return func(ctx context.Context, result string) { checks.Add(ctx, 1, by(result)) }, nil
}
