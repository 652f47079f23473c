// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantry/tenantry/app/wiring"
)

// TestMetricsHaveExemplarsOnlyInOpenMetrics checks that /metrics has exemplars with trace ids when
// the client accepts OpenMetrics, and plain text without exemplars otherwise.
func TestMetricsHaveExemplarsOnlyInOpenMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "took_seconds", Help: "Time."})
	registry.MustRegister(histogram)
	histogram.(prometheus.ExemplarObserver).ObserveWithExemplar(0.1, prometheus.Labels{"trace_id": "abc"})
	scrape := func(accept string) string {
		recorder, request := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
		request.Header.Set("Accept", accept)
		adminHandler(&wiring.Service{Metrics: registry}).ServeHTTP(recorder, request)
		if recorder.Code != http.StatusOK || !strings.Contains(recorder.Body.String(), "took_seconds_count 1\n") {
			t.Errorf("Accept %s: got the status %d, want 200 and one observation in\n%s", accept, recorder.Code, recorder.Body)
		}
		return recorder.Body.String()
	}
	if got := scrape("application/openmetrics-text;version=1.0.0"); !strings.Contains(got, ` # {trace_id="abc"} 0.1`) {
		t.Errorf("OpenMetrics without the exemplar:\n%s", got)
	}
	if got := scrape("*/*"); strings.Contains(got, "trace_id") {
		t.Errorf("plain text with an exemplar:\n%s", got)
	}
}
