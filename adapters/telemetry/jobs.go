// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/core/provisioning"
)

// Jobs makes each step of a provisioning job a span, with a link to the request
// that caused the job: that one may have ended two days ago.
type Jobs struct {
	// CustomerData lets spans carry the tenant's GUID and the domain.
	CustomerData bool
}

// Step does a step under its span.
func (o Jobs) Step(ctx context.Context, j provisioning.Job, s provisioning.Step, do func(context.Context) error) {
	about := []attribute.KeyValue{
		attribute.String("tenantry.job.id", j.ID), attribute.String("tenantry.job.stage", string(j.Stage)),
		attribute.String("tenantry.job.step", string(s)), attribute.Int("tenantry.job.attempt", j.Attempt),
	}
	if o.CustomerData {
		about = append(about, attribute.String("tenantry.tenant", string(j.TenantGUID)), attribute.String("tenantry.domain", j.DomainName))
	}
	options := []trace.SpanStartOption{trace.WithAttributes(about...)}
	from := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": j.Trace})
	if caused := trace.SpanContextFromContext(from); caused.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: caused}))
	}
	ctx, span := otel.Tracer(scope).Start(ctx, "dns job "+string(s), options...)
	defer span.End()
	err := do(ctx)
	result := resultOf(err)
	span.SetAttributes(attribute.String("tenantry.outcome", result))
	if _, failed := severity(err); failed {
		span.SetStatus(codes.Error, result)
	}
}
