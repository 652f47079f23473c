// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/core/provisioning"
)

// Jobs records each step of a provisioning job as a span. If the job stores a traceparent, the span
// has a link to the request that caused the job. The span is not a child of the request's span,
// because the request may have ended long ago.
type Jobs struct {
	// CustomerData allows the tenant's GUID and the domain in spans.
	CustomerData bool
}

// Step runs a step inside a span. The error of run determines the outcome of the span.
func (o Jobs) Step(ctx context.Context, j provisioning.Job, s provisioning.Step, run func(context.Context) error) {
	attributes := []attribute.KeyValue{
		attribute.String("tenantry.job.id", j.ID), attribute.String("tenantry.job.stage", string(j.Stage)),
		attribute.String("tenantry.job.step", string(s)), attribute.Int("tenantry.job.attempt", j.Attempt),
	}
	if o.CustomerData {
		attributes = append(attributes, attribute.String("tenantry.tenant", string(j.TenantGUID)), attribute.String("tenantry.domain", j.DomainName))
	}
	options := []trace.SpanStartOption{trace.WithAttributes(attributes...)}
	remote := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": j.Trace})
	if request := trace.SpanContextFromContext(remote); request.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: request}))
	}
	ctx, span := otel.Tracer(instrumentationScope).Start(ctx, "dns job "+string(s), options...)
	defer span.End()
	err := run(ctx)
	result := resultOf(err)
	span.SetAttributes(attribute.String("tenantry.outcome", result))
	if _, failed := failureLevel(err); failed {
		span.SetStatus(codes.Error, result)
	}
}

// NewDomainCheckCounter registers the counter of repeated DNS checks of verified domains. It
// returns the function that counts a check by its result. The counter exists with the value 0 for
// each value of results.
func NewDomainCheckCounter(results ...string) (count func(ctx context.Context, result string), err error) {
	checks, err := otel.Meter(instrumentationScope).Int64Counter("tenantry.domain.checks",
		metric.WithDescription("Reads of the DNS of verified domains, made by the service itself, by result."))
	if err != nil {
		return nil, err
	}
	withResult := func(result string) metric.MeasurementOption {
		return metric.WithAttributes(attribute.String("result", result))
	}
	for _, result := range results {
		checks.Add(context.Background(), 0, withResult(result))
	}
	return func(ctx context.Context, result string) { checks.Add(ctx, 1, withResult(result)) }, nil
}
