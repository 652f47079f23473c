// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// collectSamples returns the samples of all metrics after record has run. A key is the name of the
// metric, followed by a label value or by the upper bound of a histogram bucket. Buckets are
// cumulative.
func collectSamples(t *testing.T, record func(*Enforcement)) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	meters, err := newMeterProvider(t.Context(), resource.Empty(), registry)
	if err != nil {
		t.Fatal(err)
	}
	defer otel.SetMeterProvider(otel.GetMeterProvider())
	otel.SetMeterProvider(meters)
	enforcement, err := NewEnforcement()
	if err != nil {
		t.Fatal(err)
	}
	record(enforcement)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				samples[family.GetName()+" "+label.GetValue()] = metric.GetCounter().GetValue()
			}
			for _, bucket := range metric.GetHistogram().GetBucket() {
				samples[fmt.Sprintf("%s %g", family.GetName(), bucket.GetUpperBound())] = float64(bucket.GetCumulativeCount())
			}
		}
	}
	return samples
}

// TestCountersStartAtZero checks that every outcome except "cancelled", and every action, has a
// series from the start. Otherwise Prometheus would not see the first increase.
func TestCountersStartAtZero(t *testing.T) {
	samples := collectSamples(t, func(e *Enforcement) {
		e.CountPass(t.Context(), errors.Join(errors.New("read trace"), &outcome.Error{Kind: outcome.Throttled}))
		e.CountChange(t.Context(), sendlimit.Blocked)
	})
	for name, want := range map[string]float64{
		"done": 0, "refused": 0, "not_ready": 0, "throttled": 1, "down": 0, "broken": 0, "unknown": 0, "failed": 0,
	} {
		if got, exists := samples["tenantry_enforcement_runs_total "+name]; !exists || got != want {
			t.Errorf("%s: %v (exists: %t), want %v", name, got, exists, want)
		}
	}
	for name, want := range map[string]float64{"blocked": 1, "unblocked": 0} {
		if got, exists := samples["tenantry_enforcement_changes_total "+name]; !exists || got != want {
			t.Errorf("%s: %v (exists: %t), want %v", name, got, exists, want)
		}
	}
}

// TestLagBucketsSeparateMinutesFromHours checks that lags between 4 minutes and 20 hours fall into
// different buckets.
func TestLagBucketsSeparateMinutesFromHours(t *testing.T) {
	lags := []time.Duration{4 * time.Minute, 9 * time.Minute, 25 * time.Minute, 39 * time.Minute, 50 * time.Minute, 80 * time.Minute,
		110 * time.Minute, 150 * time.Minute, 5 * time.Hour, 11 * time.Hour, 20 * time.Hour}
	samples := collectSamples(t, func(e *Enforcement) {
		for _, lag := range lags {
			e.RecordLag(t.Context(), lag)
		}
	})
	const namePrefix = "tenantry_enforcement_lag_seconds "
	bounds, belowBound := []float64{}, 0.0
	for name := range samples {
		if bound, err := strconv.ParseFloat(strings.TrimPrefix(name, namePrefix), 64); err == nil && strings.HasPrefix(name, namePrefix) {
			bounds = append(bounds, bound)
		}
	}
	slices.Sort(bounds)
	for _, bound := range bounds {
		upToBound := samples[fmt.Sprintf("%s%g", namePrefix, bound)]
		if count := upToBound - belowBound; count > 1 {
			t.Errorf("%v lags are in the bucket up to %s, want at most 1", count, time.Duration(bound)*time.Second)
		}
		belowBound = upToBound
	}
	if belowBound != float64(len(lags)) {
		t.Errorf("%v lags are in the buckets, want %d", belowBound, len(lags))
	}
}
