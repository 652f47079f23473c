// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/ports"
)

func TestLogLinesHaveTheHclogFormat(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	var out bytes.Buffer
	log := newLog(&out, "test")
	ctx := ports.WithRequestID(context.Background(), "req-1")
	traceID := trace.TraceID{1}
	ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: trace.SpanID{2}}))
	log.WarnContext(ctx, "slow", "secret", Secret{}, "error", errors.New("e"))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"@level": "warn", "@message": "slow", "@module": "test", "request_id": "req-1",
		"trace_id": traceID.String(), "secret": "[redacted]", "error": "e",
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %s", key, line[key], want)
		}
	}
	if _, err := time.Parse(time.RFC3339Nano, line["@timestamp"].(string)); err != nil {
		t.Error(err)
	}
}

func TestTelemetryIsOffByDefault(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  map[string]string
		want bool
	}{
		{"nothing set", nil, false},
		{"an endpoint", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, true},
		{"an endpoint of traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, true},
		{"otlp by name", map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		{"none by name", map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, false},
		{"switched off", map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, false},
		{"switched off in capitals", map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
				t.Setenv(name, tc.env[name])
			}
			if got := exportsTraces(); got != tc.want {
				t.Fatalf("exportsTraces is %v, want %v", got, tc.want)
			}
		})
	}
}
