// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// TestExemplarsContainOnlyTraceIDs checks that an exemplar does not contain an attribute that a
// view removed from the metric. The attribute could be too long for Prometheus.
func TestExemplarsContainOnlyTraceIDs(t *testing.T) {
	registry := prometheus.NewRegistry()
	meters, err := newMeterProvider(t.Context(), resource.Empty(), registry)
	if err != nil {
		t.Fatal(err)
	}
	histogram, err := meters.Meter("test").Float64Histogram("rpc.client.call.duration", metric.WithUnit("s"))
	if err != nil {
		t.Fatal(err)
	}
	var exportErrors []error
	defer otel.SetErrorHandler(otel.GetErrorHandler())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { exportErrors = append(exportErrors, err) }))
	ctx, span := sdktrace.NewTracerProvider().Tracer("test").Start(t.Context(), "call")
	histogram.Record(ctx, 0.1, metric.WithAttributes(
		attribute.String("rpc.method", "M"), attribute.String("server.address", strings.Repeat("/a/socket", 30))))
	families, err := registry.Gather()
	if err != nil || len(exportErrors) > 0 {
		t.Fatalf("a scrape: got the errors %v and %v, want none", err, exportErrors)
	}
	exemplarLabels := map[string]string{}
	for _, family := range families {
		if family.GetName() != "rpc_client_call_duration_seconds" {
			continue
		}
		for _, bucket := range family.GetMetric()[0].GetHistogram().GetBucket() {
			for _, label := range bucket.GetExemplar().GetLabel() {
				exemplarLabels[label.GetName()] = label.GetValue()
			}
		}
	}
	if len(exemplarLabels) != 2 || exemplarLabels["trace_id"] != span.SpanContext().TraceID().String() || exemplarLabels["span_id"] == "" {
		t.Errorf("the exemplar has %v, want only the ids of the trace and the span", exemplarLabels)
	}
}
