// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/ports"
)

// startTelemetry exports the plugin's spans over OTLP/HTTP if the OTEL_* variables of the
// environment enable it. The plugin gets these variables from the operator, through the host. The
// returned function exports the remaining spans and stops the exporter.
func startTelemetry(d Description, log *slog.Logger) (flush func(context.Context)) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	noFlush := func(context.Context) {}
	if !exportsTraces() {
		return noFlush
	}
	if protocol := tracesEnv("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		log.Warn("plugins export spans over http/protobuf only", "protocol", protocol)
		return noFlush
	}
	exporter, err := otlptracehttp.New(context.Background())
	if err != nil {
		log.Warn("spans are not exported", "error", err)
		return noFlush
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", "error", err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(telemetryResource(d)))
	otel.SetTracerProvider(provider)
	return func(ctx context.Context) { _ = provider.Shutdown(ctx) }
}

func exportsTraces() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	return exporter == "otlp" || (exporter == "" && tracesEnv("ENDPOINT") != "")
}

// tracesEnv returns an OTLP setting for traces. The default is the setting for all signals.
func tracesEnv(setting string) string {
	if v := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + setting); v != "" {
		return v
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_" + setting)
}

func telemetryResource(d Description) *resource.Resource {
	r, err := resource.New(context.Background(),
		resource.WithFromEnv(), // first, so that the plugin's name and version replace values of the operator
		resource.WithAttributes(
			attribute.String("service.name", "tenantry-plugin-"+d.Name),
			attribute.String("service.version", d.Version)),
		resource.WithTelemetrySDK())
	if err != nil {
		return resource.Default()
	}
	return r
}

// newLog returns a logger that writes the JSON lines that the host reads, with the member names of
// hclog. Plugins in other languages print the same format. newLog also makes this logger the
// default logger of log/slog.
func newLog(out io.Writer, module string) *slog.Logger {
	lines := slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: renameToHclog})
	log := slog.New(requestIDHandler{lines}).With("@module", module)
	slog.SetDefault(log)
	return log
}

func renameToHclog(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return attr
	}
	switch attr.Key {
	case slog.LevelKey:
		return slog.String("@level", strings.ToLower(attr.Value.String()))
	case slog.MessageKey:
		return slog.String("@message", attr.Value.String())
	case slog.TimeKey:
		return slog.String("@timestamp", attr.Value.Time().UTC().Format(time.RFC3339Nano))
	}
	return attr
}

// requestIDHandler adds the request id and the trace id of the context to each line.
type requestIDHandler struct{ slog.Handler }

func (h requestIDHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := ports.RequestID(ctx); id != "" {
		r.AddAttrs(slog.String("request_id", id))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h requestIDHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestIDHandler{h.Handler.WithAttrs(attrs)}
}

func (h requestIDHandler) WithGroup(name string) slog.Handler {
	return requestIDHandler{h.Handler.WithGroup(name)}
}
