// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/ports"
)

// NewLogger returns a logger that writes JSON lines to w. Each line contains the ids of the
// request, the trace and the span in its context, if the context has them.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(correlatingHandler{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})})
}

type correlatingHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h correlatingHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := ports.RequestID(ctx); id != "" {
		r.AddAttrs(slog.String("request_id", id))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h correlatingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return correlatingHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h correlatingHandler) WithGroup(name string) slog.Handler {
	return correlatingHandler{h.Handler.WithGroup(name)}
}

// Traceparent returns the W3C traceparent of the span in ctx, or "" without a span. A job stores
// the traceparent of the request that caused it, so that the job's traces can link to the request.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
