// SPDX-License-Identifier: Apache-2.0

// Package telemetry sets up OpenTelemetry and the log. It measures provider calls, provisioning
// jobs, enforcement passes and the messages to webhooks.
//
//   - telemetry.go: Start, which installs the tracer, the meter and the exporters. Start here.
//   - calls.go: NewCallInterceptor, which returns the interceptor that measures provider calls.
//   - jobs.go: Jobs, the spans of provisioning jobs, and NewDomainCheckCounter, which counts DNS
//     checks.
//   - enforcement.go: Enforcement, the metrics of enforcement passes.
//   - webhooks.go: Webhooks, the metrics of the messages to webhooks.
//   - log.go: NewLogger, the structured log with trace ids, and Traceparent, which jobs store.
//   - exemplar.go: traceOnlyReservoirs, which limits exemplars to trace ids.
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

// Options configures Start.
type Options struct {
	Service, Version string
	Log              *slog.Logger
	// Registry collects the metrics for the path /metrics.
	Registry *prometheus.Registry
}

// Start installs the global tracer provider, meter provider, propagator and error handler. It
// returns the function that flushes and stops the providers. The standard OTEL_* variables
// configure the exporters. Without them, Start exports nothing, and the metrics are only in the
// registry. Start fails if the resource or an exporter cannot be configured.
func Start(ctx context.Context, o Options) (func(context.Context) error, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		o.Log.Warn("telemetry export failed", "error", err)
	}))
	// Only the trace context is propagated. The baggage of callers must not reach other services.
	otel.SetTextMapPropagator(propagation.TraceContext{})
	processResource, err := newResource(ctx, o)
	if err != nil {
		return nil, err
	}
	traces, err := newTracerProvider(ctx, processResource)
	if err != nil {
		return nil, err
	}
	meters, err := newMeterProvider(ctx, processResource, o.Registry)
	if err != nil {
		return nil, err
	}
	otel.SetTracerProvider(traces)
	otel.SetMeterProvider(meters)
	return func(ctx context.Context) error {
		return errors.Join(traces.Shutdown(ctx), meters.Shutdown(ctx))
	}, nil
}

// newResource returns the resource that identifies the process. OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES override the options.
func newResource(ctx context.Context, o Options) (*resource.Resource, error) {
	processResource, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", o.Service), attribute.String("service.version", o.Version)), resource.WithFromEnv())
	if errors.Is(err, resource.ErrPartialResource) {
		o.Log.Warn("OTEL_RESOURCE_ATTRIBUTES cannot be read in full", "error", err)
		return processResource, nil
	}
	return processResource, err
}

// newTracerProvider returns the tracer provider. Without OTEL_TRACES_SAMPLER, it samples 1 % of the
// traces that begin in this process. For other traces it follows the caller's sampling decision.
func newTracerProvider(ctx context.Context, processResource *resource.Resource) (*sdktrace.TracerProvider, error) {
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(processResource)}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		opts = append(opts, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.01))))
	}
	if isAnySet("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, err
		}
		opts = append(opts, sdktrace.WithBatcher(exporter))
	}
	return sdktrace.NewTracerProvider(opts...), nil
}

// newMeterProvider returns the meter provider. It writes metrics to the registry, without the
// labels of the instrumentation scope. It also exports them if OTEL_METRICS_EXPORTER is set and the
// SDK is not disabled.
func newMeterProvider(ctx context.Context, processResource *resource.Resource, registry *prometheus.Registry) (*sdkmetric.MeterProvider, error) {
	scraped, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	opts := []sdkmetric.Option{sdkmetric.WithReader(scraped), sdkmetric.WithResource(processResource), sdkmetric.WithView(views...)}
	if isAnySet("OTEL_METRICS_EXPORTER") {
		pushed, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, err
		}
		opts = append(opts, sdkmetric.WithReader(pushed))
	}
	return sdkmetric.NewMeterProvider(opts...), nil
}

// views filter the metrics of libraries. They keep only attributes that have few values. A plugin's
// socket, for example, has a new value at each start. go.sql.query_timing is dropped, because
// package bunotel records it in whole milliseconds. The sizes of HTTP bodies are dropped too.
var views = []sdkmetric.View{
	keepAttributes("http.server.request.duration", "http.request.method", "http.route", "http.response.status_code"),
	keepAttributes("rpc.client.call.duration", "rpc.method", "rpc.response.status_code"),
	dropMetric("go.sql.query_timing"),
	dropMetric("http.server.*.body.size"),
}

func keepAttributes(name string, attributes ...attribute.Key) sdkmetric.View {
	return sdkmetric.NewView(sdkmetric.Instrument{Name: name}, sdkmetric.Stream{
		AttributeFilter: attribute.NewAllowKeysFilter(attributes...), ExemplarReservoirProviderSelector: traceOnlyReservoirs})
}

func dropMetric(name string) sdkmetric.View {
	return sdkmetric.NewView(sdkmetric.Instrument{Name: name}, sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}})
}

// isAnySet reports whether at least one of the variables is set and the SDK is not disabled.
// Without this check, the exporters would send data to their default address even without a
// collector.
func isAnySet(variables ...string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	return slices.ContainsFunc(variables, func(name string) bool { return os.Getenv(name) != "" })
}
