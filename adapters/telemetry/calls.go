// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/core/outcome"
)

const scope = "github.com/tenantry/tenantry/adapters/telemetry"

// What a call is about. These are customer data: they stand in spans only
// where CallOptions allow it, and never in metrics or the log.
const (
	aboutTenant  = "tenantry.tenant"
	aboutDomain  = "tenantry.domain"
	aboutMailbox = "tenantry.mailbox"
	aboutZone    = "tenantry.zone"
)

// CallOptions say what is told of the calls of one provider.
type CallOptions struct {
	Provider string
	// Log takes a line for each call that brought no answer.
	Log *slog.Logger
	// CustomerData lets spans carry the tenant's GUID, domains and addresses.
	CustomerData bool
}

// calls measures the calls of one provider: each is a span, and a point in
// the histogram tenantry.provider.call.duration by provider, operation and
// outcome.
type calls struct {
	CallOptions

	tracer   trace.Tracer
	duration metric.Float64Histogram
}

func newCalls(o CallOptions) (calls, error) {
	duration, err := otel.Meter(scope).Float64Histogram("tenantry.provider.call.duration",
		metric.WithUnit("s"), metric.WithDescription("Time a provider call took, by provider, operation and outcome."),
		metric.WithExplicitBucketBoundaries(.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120))
	return calls{o, otel.Tracer(scope), duration}, err
}

// about are the customer's things that a call names, for its span.
func (c calls) about(name, value string) []attribute.KeyValue {
	if !c.CustomerData {
		return nil
	}
	return []attribute.KeyValue{attribute.String(name, value)}
}

func measure[T any](
	ctx context.Context, c calls, operation string, about []attribute.KeyValue, call func(context.Context) (T, error),
) (T, error) {
	began := time.Now()
	ctx, span := c.tracer.Start(ctx, c.Provider+" "+operation, trace.WithAttributes(
		attribute.String("tenantry.provider", c.Provider), attribute.String("tenantry.operation", operation)),
		trace.WithAttributes(about...))
	defer span.End()
	answer, err := call(ctx)
	result, took := resultOf(err), time.Since(began)
	span.SetAttributes(attribute.String("tenantry.outcome", result))
	cause := causeOf(err)
	if cause != "" {
		span.SetAttributes(attribute.String("tenantry.cause", cause))
	}
	if level, failed := severity(err); failed {
		span.SetStatus(codes.Error, result)
		c.Log.LogAttrs(ctx, level, "provider call brought no answer", slog.String("provider", c.Provider),
			slog.String("operation", operation), slog.String("outcome", result), slog.String("cause", cause),
			slog.Float64("duration_ms", float64(took.Microseconds())/1000))
	}
	c.duration.Record(ctx, took.Seconds(), metric.WithAttributes(
		attribute.String("provider", c.Provider), attribute.String("operation", operation), attribute.String("outcome", result)))
	return answer, err
}

func measured(ctx context.Context, c calls, operation string, about []attribute.KeyValue, call func(context.Context) error) error {
	_, err := measure(ctx, c, operation, about, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// severity is the level at which a call's end is worth a line, if it is: a
// refusal and a wait are answers, and a caller who left is no trouble.
func severity(err error) (slog.Level, bool) {
	switch outcome.Of(err) {
	case outcome.Refused, outcome.NotReady:
		return 0, false
	case outcome.Throttled:
		return slog.LevelInfo, true
	default:
		return slog.LevelWarn, err != nil && !errors.Is(err, context.Canceled)
	}
}

func causeOf(err error) string {
	var failure *outcome.Error
	if errors.As(err, &failure) {
		return failure.Cause
	}
	return ""
}

// resultOf is a kind of outcome, done, cancelled (by the caller) or failed,
// which is our own doing: a missing setting say.
func resultOf(err error) string {
	switch {
	case err == nil, outcome.Of(err) != 0:
		return outcome.Of(err).String()
	case errors.Is(err, context.Canceled):
		return "cancelled"
	default:
		return "failed"
	}
}
