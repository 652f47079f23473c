// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/ports"
)

// BenchmarkPluginCall compares a call to a plugin's process with a call to a fake in this process.
// Both calls have a trace context.
func BenchmarkPluginCall(b *testing.B) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	tracedCtx := trace.ContextWithSpanContext(b.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	}))
	b.Run("plugin", func(b *testing.B) {
		host, err := pluginhost.New(pluginhost.Options{Dir: pluginDir(b, "puppet:puppet"), Supervision: fastRestart, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			b.Fatal(err)
		}
		defer host.Close()
		reportMedian(b, tracedCtx, tenantOf(host, "puppet", ""))
	})
	b.Run("in process", func(b *testing.B) {
		platform := fake.New()
		const id = "7f6c1f4e-5a0f-4bb4-9d5c-0e6d2c1b8a11"
		platform.Connect(id, fake.Setup{Name: "Example"})
		reportMedian(b, tracedCtx, platform.For(id))
	})
}

// reportMedian calls Profile repeatedly and reports the median duration in microseconds.
func reportMedian(b *testing.B, ctx context.Context, mailTenant ports.MailTenant) {
	b.Helper()
	durations := make([]time.Duration, 0, 1<<16)
	for range 100 { // the first calls start the process
		if _, err := mailTenant.Profile(ctx); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		start := time.Now()
		if _, err := mailTenant.Profile(ctx); err != nil {
			b.Fatal(err)
		}
		durations = append(durations, time.Since(start))
	}
	slices.Sort(durations)
	b.ReportMetric(float64(durations[len(durations)/2].Nanoseconds())/1000, "us/median")
}
