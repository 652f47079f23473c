// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/core/webhook"
)

// Webhooks holds the metrics of the messages to webhooks.
type Webhooks struct {
	attempts metric.Int64Counter
	lag      metric.Float64Histogram
}

// The results of a try to send a message.
const (
	resultAccepted = "accepted"  // the endpoint answered with a 2xx status
	resultRejected = "rejected"  // the endpoint answered with a different status
	resultNoAnswer = "no_answer" // no answer, or no message was sent
)

// NewWebhooks registers the metrics with the global meter provider. The counter exists with the
// value 0 for every result.
func NewWebhooks() (*Webhooks, error) {
	meter := otel.Meter(instrumentationScope)
	attempts, errAttempts := meter.Int64Counter("tenantry.webhook.attempts",
		metric.WithDescription("Tries to send a message to the endpoint of a webhook, by result."))
	lag, errLag := meter.Float64Histogram("tenantry.webhook.lag", metric.WithUnit("s"),
		metric.WithDescription("Time from an event to the end of the first try to send it, if the endpoint accepts that try."),
		metric.WithExplicitBucketBoundaries(0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 300, 1800))
	if err := errors.Join(errAttempts, errLag); err != nil {
		return nil, err
	}
	w := &Webhooks{attempts, lag}
	for _, result := range []string{resultAccepted, resultRejected, resultNoAnswer} {
		w.attempts.Add(context.Background(), 0, byResult(result))
	}
	return w, nil
}

// RecordTry counts a try, and records the lag of a first try that was accepted. lag is the time
// since the event. It is negative for a later try, and if the event was deleted.
func (w *Webhooks) RecordTry(ctx context.Context, r webhook.Response, lag time.Duration) {
	result := resultRejected
	switch {
	case r.Accepted():
		result = resultAccepted
	case r.Error != "":
		result = resultNoAnswer
	}
	w.attempts.Add(ctx, 1, byResult(result))
	if result == resultAccepted && lag >= 0 {
		w.lag.Record(ctx, lag.Seconds())
	}
}

func byResult(result string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("result", result))
}
