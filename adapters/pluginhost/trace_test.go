// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tenantry/tenantry/adapters/pluginhost"
)

// TestPluginSpansBelongToTheCallersTrace checks that the plugin exports a span in the trace of the
// caller. The parent of the span must be the host's span of the call.
func TestPluginSpansBelongToTheCallersTrace(t *testing.T) {
	// A plugin that ends has one second to export its spans. A busy machine can take longer, so the
	// test makes up to ten attempts.
	for range 10 {
		if exportsSpanOfCall(t) {
			return
		}
	}
	t.Fatal("the plugin did not export the span of the call")
}

// exportsSpanOfCall starts a plugin, calls it, and reports whether it exports the span of the call
// when it ends.
func exportsSpanOfCall(t *testing.T) bool {
	t.Helper()
	received := &spanReceiver{}
	server := httptest.NewServer(received)
	defer server.Close()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	previous := otel.GetTracerProvider()
	otel.SetTracerProvider(provider)
	defer otel.SetTracerProvider(previous)

	policy := fastRestart
	policy.StopGrace = testTimeout // the plugin sends its last spans before it ends
	host, _ := newHost(t, pluginhost.Options{
		Dir: pluginDir(t, "puppet:puppet"), Supervision: policy,
		Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"},
	})
	ctx, root := provider.Tracer("test").Start(t.Context(), "caller")
	if _, err := tenantOf(host, "puppet", "").Profile(ctx); err != nil {
		t.Fatal(err)
	}
	root.End()
	host.Close()

	parents := map[string]string{} // maps the ids of the host's spans to the ids of their parents
	for _, span := range exporter.GetSpans() {
		if span.SpanContext.TraceID() == root.SpanContext().TraceID() {
			parents[span.SpanContext.SpanID().String()] = span.Parent.SpanID().String()
		}
	}
	trace := root.SpanContext().TraceID()
	for _, span := range received.receivedSpans() {
		if hex.EncodeToString(span.GetTraceId()) != trace.String() {
			continue // the span of a call that the host made while the plugin started
		}
		parent, hops := hex.EncodeToString(span.GetParentSpanId()), 0
		for parent != root.SpanContext().SpanID().String() && parent != "" {
			parent, hops = parents[parent], hops+1
		}
		if parent == "" {
			t.Fatalf("the chain from the plugin's span %q to the caller is broken", span.GetName())
		}
		if span.GetName() == "tenantry.plugin.v1.MailPlatform/Profile" && hops == 1 {
			return true
		}
	}
	return false
}

// spanReceiver is an HTTP handler that collects spans as an OTLP collector does.
type spanReceiver struct {
	mu    sync.Mutex
	spans []*tracepb.Span
}

func (receiver *spanReceiver) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		return
	}
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	for _, resourceSpans := range request.GetResourceSpans() {
		for _, scopeSpans := range resourceSpans.GetScopeSpans() {
			receiver.spans = append(receiver.spans, scopeSpans.GetSpans()...)
		}
	}
}

func (receiver *spanReceiver) receivedSpans() []*tracepb.Span {
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	return receiver.spans
}
