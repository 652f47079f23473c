// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestScrapeLeadsToTraces: who scrapes as Prometheus does is told the trace of
// a point, who reads by hand gets plain text.
func TestScrapeLeadsToTraces(t *testing.T) {
	registry := prometheus.NewRegistry()
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "took_seconds", Help: "Time."})
	registry.MustRegister(took)
	took.(prometheus.ExemplarObserver).ObserveWithExemplar(0.1, prometheus.Labels{"trace_id": "abc"})
	scrape := func(accept string) string {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
		r.Header.Set("Accept", accept)
		(&service{metrics: registry}).adminHandler().ServeHTTP(w, r)
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
