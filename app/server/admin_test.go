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
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
		r.Header.Set("Accept", accept)
		adminHandler(&wiring.Service{Metrics: registry}).ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "took_seconds_count 1\n") {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	if got := scrape("application/openmetrics-text;version=1.0.0"); !strings.Contains(got, ` # {trace_id="abc"} 0.1`) {
		t.Errorf("no exemplar: %s", got)
	}
	if got := scrape("*/*"); strings.Contains(got, "trace_id") {
		t.Errorf("plain text has exemplars: %s", got)
	}
}
