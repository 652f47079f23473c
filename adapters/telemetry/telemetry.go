// SPDX-License-Identifier: Apache-2.0

// Package telemetry sets up OpenTelemetry and measures what the service does.
//
//   - telemetry.go: Start, which installs the tracer, the meter and the exporters. Start here.
//   - calls.go: Calls, the interceptor that measures the calls of providers.
//   - jobs.go, checks.go, enforcement.go: spans and metrics of background jobs.
//   - log.go: Logger, the structured log with trace ids.
//   - exemplar.go, traceparent.go: trace ids on data points and on stored requests.
package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"

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
// variables and returns what flushes and ends them. Without such a variable
// nothing leaves the process: metrics wait in the registry to be fetched.
func Start(ctx context.Context, o Options) (func(context.Context) error, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		o.Log.Warn("telemetry export failed", "error", err)
	}))
	// Only the trace context travels: baggage of callers is not ours to hand on.
	otel.SetTextMapPropagator(propagation.TraceContext{})
	about, err := identity(ctx, o)
	if err != nil {
		return nil, err
	}
	traces, err := tracer(ctx, about)
	if err != nil {
		return nil, err
	}
	meters, err := meter(ctx, about, o.Registry)
	if err != nil {
		return nil, err
	}
	otel.SetTracerProvider(traces)
	otel.SetMeterProvider(meters)
	return func(ctx context.Context) error {
		return errors.Join(traces.Shutdown(ctx), meters.Shutdown(ctx))
	}, nil
}

// identity is who reports: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
func identity(ctx context.Context, o Options) (*resource.Resource, error) {
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", o.Service), attribute.String("service.version", o.Version)), resource.WithFromEnv())
	if errors.Is(err, resource.ErrPartialResource) {
		o.Log.Warn("OTEL_RESOURCE_ATTRIBUTES cannot be read in full", "error", err)
		return about, nil
	}
	return about, err
}

func tracer(ctx context.Context, about *resource.Resource) (*sdktrace.TracerProvider, error) {
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(about)}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		opts = append(opts, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.01))))
	}
	if named("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, err
		}
		opts = append(opts, sdktrace.WithBatcher(exporter))
	}
	return sdktrace.NewTracerProvider(opts...), nil
}

// meter keeps metrics in the registry, without the scopes that would double
// each series' labels, and sends them away too if asked to.
func meter(ctx context.Context, about *resource.Resource, registry *prometheus.Registry) (*sdkmetric.MeterProvider, error) {
	fetched, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	opts := []sdkmetric.Option{sdkmetric.WithReader(fetched), sdkmetric.WithResource(about), sdkmetric.WithView(views...)}
	if named("OTEL_METRICS_EXPORTER") {
		sent, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, err
		}
		opts = append(opts, sdkmetric.WithReader(sent))
	}
	return sdkmetric.NewMeterProvider(opts...), nil
}

// views say what is kept of the metrics of libraries. Of attributes only those
// that are worth a series each: a plugin's socket is a new one at each start.
// Dropped is what others say better: bunotel's time of a statement is in whole
// milliseconds, by the statement's first word, whatever that is.
var views = []sdkmetric.View{
	keeping("http.server.request.duration", "http.request.method", "http.route", "http.response.status_code"),
	keeping("rpc.client.call.duration", "rpc.method", "rpc.response.status_code"),
	dropping("go.sql.query_timing"),
	dropping("http.server.*.body.size"),
}

func keeping(name string, attributes ...attribute.Key) sdkmetric.View {
	return sdkmetric.NewView(sdkmetric.Instrument{Name: name}, sdkmetric.Stream{
		AttributeFilter: attribute.NewAllowKeysFilter(attributes...), ExemplarReservoirProviderSelector: traceOnly})
}

func dropping(name string) sdkmetric.View {
	return sdkmetric.NewView(sdkmetric.Instrument{Name: name}, sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}})
}

// named is true when the operator named an exporter or where to send to; the
// exporters' own default would knock at a collector that is not there.
func named(variables ...string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	return slices.ContainsFunc(variables, func(name string) bool { return os.Getenv(name) != "" })
}
