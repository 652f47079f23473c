// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/extra/bunotel"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// tracing records a span for each statement, and its duration in the histogram
// db.client.operation.duration. bunotel omits values from the statement's text. A database's error
// message can contain values, so tracing records only the kind of an error.
type tracing struct {
	*bunotel.QueryHook
	duration           metric.Float64Histogram
	measurementOptions map[string]metric.MeasurementOption // keyed by operation
}

// otherOperation is the label of all statements that have no metric series of their own.
const otherOperation = "OTHER"

func newTracing(system string, o Options) (tracing, error) {
	var options []bunotel.Option
	if o.TracerProvider != nil {
		options = append(options, bunotel.WithTracerProvider(o.TracerProvider))
	}
	meters := o.MeterProvider
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	options = append(options, bunotel.WithMeterProvider(meters))
	duration, err := meters.Meter("github.com/tenantry/tenantry/adapters/bunstore").Float64Histogram("db.client.operation.duration",
		metric.WithUnit("s"), metric.WithDescription("Time a statement took, by operation."),
		metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5))
	t := tracing{bunotel.NewQueryHook(options...), duration, map[string]metric.MeasurementOption{}}
	for _, operation := range []string{"SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "COMMIT", "ROLLBACK", otherOperation} {
		t.measurementOptions[operation] = metric.WithAttributeSet(attribute.NewSet(
			attribute.String("db.operation.name", operation), attribute.String("db.system.name", system)))
	}
	return t, err
}

// AfterQuery records the duration and ends the span. A span that is not recorded does not have to
// be ended.
func (t tracing) AfterQuery(ctx context.Context, event *bun.QueryEvent) {
	measurementOption, ok := t.measurementOptions[event.Operation()]
	if !ok {
		measurementOption = t.measurementOptions[otherOperation]
	}
	t.duration.Record(ctx, time.Since(event.StartTime).Seconds(), measurementOption)
	if !trace.SpanFromContext(ctx).IsRecording() {
		return // skips only bunotel's measurement, which package telemetry drops (see its views)
	}
	safeEvent := *event
	safeEvent.Err = safeError(event.Err)
	t.QueryHook.AfterQuery(ctx, &safeEvent)
}

func safeError(err error) error {
	if err == nil || errors.Is(err, sql.ErrNoRows) || errors.Is(err, sql.ErrTxDone) {
		return err
	}
	for _, contextErr := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, contextErr) {
			return contextErr
		}
	}
	if kind := kindOf(err); kind != nil {
		return kind
	}
	return errors.New("statement failed")
}
