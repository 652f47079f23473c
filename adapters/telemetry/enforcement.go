// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// Enforcement holds the metrics of enforcement passes.
type Enforcement struct {
	lag           metric.Float64Histogram
	changes, runs metric.Int64Counter
}

// NewEnforcement registers the metrics with the global meter provider. Each counter exists with the
// value 0 for every action and for every outcome except "cancelled", so that Prometheus sees the
// first increase.
func NewEnforcement() (*Enforcement, error) {
	meter := otel.Meter(instrumentationScope)
	lag, errLag := meter.Float64Histogram("tenantry.enforcement.lag", metric.WithUnit("s"),
		metric.WithDescription("Time from the first message beyond the limit, as the platform dates it, to the stored block. The time that the platform needs to apply its rule is not included."),
		metric.WithExplicitBucketBoundaries(60, 120, 300, 600, 900, 1200, 1800, 2400, 3600, 5400, 7200, 10800, 14400, 21600, 43200, 86400))
	changes, errChanges := meter.Int64Counter("tenantry.enforcement.changes",
		metric.WithDescription("Mailboxes that were blocked or unblocked, by action."))
	runs, errRuns := meter.Int64Counter("tenantry.enforcement.runs",
		metric.WithDescription("Enforcement passes, by outcome."))
	if err := errors.Join(errLag, errChanges, errRuns); err != nil {
		return nil, err
	}
	e := &Enforcement{lag, changes, runs}
	for _, a := range []sendlimit.Action{sendlimit.Blocked, sendlimit.Unblocked} {
		changes.Add(context.Background(), 0, byAction(a))
	}
	runs.Add(context.Background(), 0, byOutcome(nil))
	runs.Add(context.Background(), 0, byOutcome(errInternal))
	for kind := outcome.Refused; kind <= outcome.Unknown; kind++ {
		runs.Add(context.Background(), 0, byOutcome(&outcome.Error{Kind: kind}))
	}
	return e, nil
}

// errInternal stands for all errors that are neither from a provider nor a cancellation.
var errInternal = errors.New("failed")

// RecordLag records the time between the first message beyond the limit and the storage of the
// block.
func (e *Enforcement) RecordLag(ctx context.Context, delay time.Duration) {
	e.lag.Record(ctx, delay.Seconds())
}

// CountChange counts a mailbox that was blocked or unblocked.
func (e *Enforcement) CountChange(ctx context.Context, a sendlimit.Action) {
	e.changes.Add(ctx, 1, byAction(a))
}

// CountPass counts an enforcement pass of a tenant. err is the error of the pass.
func (e *Enforcement) CountPass(ctx context.Context, err error) { e.runs.Add(ctx, 1, byOutcome(err)) }

func byAction(a sendlimit.Action) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("action", string(a)))
}

func byOutcome(err error) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("outcome", resultOf(err)))
}
