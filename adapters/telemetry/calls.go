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
	"github.com/tenantry/tenantry/plugins/wire"
)

const instrumentationScope = "github.com/tenantry/tenantry/adapters/telemetry"

// CallOptions configures the measurement of the calls to one provider.
type CallOptions struct {
	Provider string
	// Log receives a line for each call that failed (see failureLevel).
	Log *slog.Logger
	// CustomerData allows tenant ids, domains and addresses in spans. The histogram and the log
	// lines of calls never contain them.
	CustomerData bool
}

// NewCallInterceptor returns the interceptor that measures the calls to one provider. It records
// each call as a span and in the histogram tenantry.provider.call.duration.
func NewCallInterceptor(options CallOptions) (wire.Interceptor, error) {
	tracer := otel.Tracer(instrumentationScope)
	duration, err := otel.Meter(instrumentationScope).Float64Histogram("tenantry.provider.call.duration",
		metric.WithUnit("s"), metric.WithDescription("Time a provider call took, by provider, operation and outcome."),
		metric.WithExplicitBucketBoundaries(.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, call wire.Call, next func(context.Context) error) error {
		began := time.Now()
		ctx, span := tracer.Start(ctx, options.Provider+" "+call.Operation, trace.WithAttributes(
			attribute.String("tenantry.provider", options.Provider), attribute.String("tenantry.operation", call.Operation)))
		defer span.End()
		if options.CustomerData {
			span.SetAttributes(call.SpanAttributes()...)
		}
		err := next(ctx)
		result, elapsed := resultOf(err), time.Since(began)
		span.SetAttributes(attribute.String("tenantry.outcome", result))
		cause := causeOf(err)
		if cause != "" {
			span.SetAttributes(attribute.String("tenantry.cause", cause))
		}
		if level, failed := failureLevel(err); failed {
			span.SetStatus(codes.Error, result)
			options.Log.LogAttrs(ctx, level, "provider call failed", slog.String("provider", options.Provider),
				slog.String("operation", call.Operation), slog.String("outcome", result), slog.String("cause", cause),
				slog.Float64("duration_ms", float64(elapsed.Microseconds())/1000))
		}
		duration.Record(ctx, elapsed.Seconds(), metric.WithAttributes(
			attribute.String("provider", options.Provider), attribute.String("operation", call.Operation), attribute.String("outcome", result)))
		return err
	}, nil
}

// failureLevel returns whether a call with this error is logged as failed, and the level of the log
// line. The outcomes Refused and NotReady are answers of the provider, so they do not count as
// failures. Calls that their caller cancelled do not count either.
func failureLevel(err error) (slog.Level, bool) {
	switch outcome.KindOf(err) {
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

// resultOf returns "cancelled" for a call that its caller cancelled, and otherwise the name of the
// outcome of err. For an error without an outcome it returns "failed".
func resultOf(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case err == nil, outcome.KindOf(err) != 0:
		return outcome.KindOf(err).String()
	default:
		return "failed"
	}
}
