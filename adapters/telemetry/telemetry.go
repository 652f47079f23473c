// SPDX-License-Identifier: Apache-2.0

// Package telemetry sets OpenTelemetry up and wraps provider ports in spans.
package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Options says who reports.
type Options struct {
	Service, Version string
	Log              *slog.Logger
	// Registry takes the metrics for /metrics.
	Registry *prometheus.Registry
}

// Start sets the process's tracer, meter and propagator by the standard OTEL_*
// variables and returns what flushes and ends them. Without such a variable no
// trace leaves the process.
func Start(ctx context.Context, o Options) (func(context.Context) error, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		o.Log.Warn("telemetry export failed", "error", err)
	}))
	// Only the trace context travels: baggage of callers is not ours to hand on.
	otel.SetTextMapPropagator(propagation.TraceContext{})
	about, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.version", o.Version)))
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, err
	}
	if os.Getenv("OTEL_SERVICE_NAME") == "" {
		about, err = resource.Merge(about, resource.NewSchemaless(attribute.String("service.name", o.Service)))
		if err != nil {
			return nil, err
		}
	}
	traces, err := tracer(ctx, about)
	if err != nil {
		return nil, err
	}
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(o.Registry))
	if err != nil {
		return nil, err
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(about))
	otel.SetTracerProvider(traces)
	otel.SetMeterProvider(meters)
	return func(ctx context.Context) error {
		return errors.Join(traces.Shutdown(ctx), meters.Shutdown(ctx))
	}, nil
}

func tracer(ctx context.Context, about *resource.Resource) (*sdktrace.TracerProvider, error) {
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(about)}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		opts = append(opts, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.01))))
	}
	if exporting() {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, err
		}
		opts = append(opts, sdktrace.WithBatcher(exporter))
	}
	return sdktrace.NewTracerProvider(opts...), nil
}

// exporting is true when the operator named an exporter or where to send to;
// the exporters' own default would knock at a collector that is not there.
func exporting() bool {
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}
