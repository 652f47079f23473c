// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver takes spans as an OTLP collector does.
type receiver struct {
	url string

	mu    sync.Mutex
	raw   [][]byte
	spans []exported
	bad   []string
}

// exported is a span with the service that it came from.
type exported struct {
	*tracepb.Span
	service string
}

func (e exported) id() string     { return hex.EncodeToString(e.GetSpanId()) }
func (e exported) parent() string { return hex.EncodeToString(e.GetParentSpanId()) }
func (e exported) trace() string  { return hex.EncodeToString(e.GetTraceId()) }

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	o := &receiver{}
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	o.url = server.URL
	return o
}

// env has a server and its plugins export every span to the receiver.
func (o *receiver) env() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + o.url, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_TRACES_SAMPLER=always_on"}
}

// ServeHTTP implements http.Handler.
func (o *receiver) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.raw = append(o.raw, body)
	var q collector.ExportTraceServiceRequest
	if r.URL.Path != "/v1/traces" || err != nil || proto.Unmarshal(body, &q) != nil {
		o.bad = append(o.bad, r.Method+" "+r.URL.Path)
		return
	}
	for _, rs := range q.GetResourceSpans() {
		service := ""
		for _, a := range rs.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, ss := range rs.GetScopeSpans() {
			for _, span := range ss.GetSpans() {
				o.spans = append(o.spans, exported{span, service})
			}
		}
	}
}

// all are the spans so far, with the raw bodies that they came in.
func (o *receiver) all(t *testing.T) ([]exported, [][]byte) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.bad) > 0 {
		t.Errorf("not OTLP over HTTP: %v", o.bad)
	}
	return append([]exported{}, o.spans...), append([][]byte{}, o.raw...)
}
