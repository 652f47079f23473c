// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/ports"
)

// newLog writes the lines that the host reads: JSON with the member names of
// hclog, which plugins in other languages print too. It becomes the default
// logger of the process, so an author simply uses log/slog.
func newLog(to io.Writer, module string) *slog.Logger {
	lines := slog.NewJSONHandler(to, &slog.HandlerOptions{ReplaceAttr: hclogNames})
	log := slog.New(callHandler{lines}).With("@module", module)
	slog.SetDefault(log)
	return log
}

func hclogNames(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.LevelKey:
		return slog.String("@level", strings.ToLower(a.Value.String()))
	case slog.MessageKey:
		return slog.String("@message", a.Value.String())
	case slog.TimeKey:
		return slog.String("@timestamp", a.Value.Time().UTC().Format(time.RFC3339Nano))
	}
	return a
}

// callHandler adds which call a line belongs to.
type callHandler struct{ slog.Handler }

func (h callHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := ports.RequestID(ctx); id != "" {
		r.AddAttrs(slog.String("request_id", id))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h callHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return callHandler{h.Handler.WithAttrs(attrs)}
}

func (h callHandler) WithGroup(name string) slog.Handler {
	return callHandler{h.Handler.WithGroup(name)}
}
