// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// startTelemetry exports the plugin's spans over OTLP/HTTP when the operator's
// OTEL_* variables ask for it, which the host hands on. Without them it is off
// and silent. The answer sends what is left.
func startTelemetry(d Description, log *slog.Logger) (flush func(context.Context)) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	off := func(context.Context) {}
	if !exportsTraces() {
		return off
	}
	if protocol := tracesEnv("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		log.Warn("plugins export spans over http/protobuf only", "asked", protocol)
		return off
	}
	exporter, err := otlptracehttp.New(context.Background())
	if err != nil {
		log.Warn("spans are not exported", "error", err)
		return off
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", "error", err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(whoami(d)))
	otel.SetTracerProvider(provider)
	return func(ctx context.Context) { _ = provider.Shutdown(ctx) }
}

func exportsTraces() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	return exporter == "otlp" || (exporter == "" && tracesEnv("ENDPOINT") != "")
}

// tracesEnv reads an OTLP setting of traces, or else of all signals.
func tracesEnv(setting string) string {
	if v := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + setting); v != "" {
		return v
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_" + setting)
}

func whoami(d Description) *resource.Resource {
	r, err := resource.New(context.Background(),
		resource.WithAttributes(
			attribute.String("service.name", "tenantry-plugin-"+d.Name),
			attribute.String("service.version", d.Version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return resource.Default()
	}
	return r
}
