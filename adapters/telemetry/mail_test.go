// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// failing answers a Check with err.
type failing struct {
	ports.Consent
	err error
}

func (f failing) Check(context.Context) error      { return f.err }
func (f failing) For(tenant.GUID) ports.MailTenant { return nil }
func (f failing) Administrator(context.Context, ports.SignIn, secret.Text) (tenant.Administrator, error) {
	return tenant.Administrator{}, f.err
}

// spansOf collects the spans of what run does.
func spansOf(t *testing.T, run func()) tracetest.SpanStubs {
	t.Helper()
	before := otel.GetTracerProvider()
	defer otel.SetTracerProvider(before)
	exporter := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	run()
	return exporter.GetSpans()
}

// TestEveryOperationIsMeasured walks the port: a method that is passed on
// unmeasured, or under the name of another, makes a span less.
func TestEveryOperationIsMeasured(t *testing.T) {
	spans := spansOf(t, func() {
		c, err := newCalls(CallOptions{Provider: "p", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		platform := fake.New()
		callAll(&mail{next: platform, calls: c}, "For")
		callAll(&mailTenant{next: platform.For("nobody's"), calls: c})
	})
	operations := map[string]bool{}
	for _, s := range spans {
		operations[s.Name] = true
	}
	want := reflect.TypeFor[ports.MailPlatform]().NumMethod() - 1 + reflect.TypeFor[ports.MailTenant]().NumMethod()
	if len(spans) != want || len(operations) != want {
		t.Errorf("%d spans of %d operations, want %d", len(spans), len(operations), want)
	}
}

// callAll calls every method with zero values.
func callAll(wrapper any, except ...string) {
	v := reflect.ValueOf(wrapper)
	for i := range v.NumMethod() {
		if strings.Contains(strings.Join(except, " "), v.Type().Method(i).Name) {
			continue
		}
		method := v.Method(i)
		in := []reflect.Value{reflect.ValueOf(context.Background())}
		for n := 1; n < method.Type().NumIn(); n++ {
			in = append(in, reflect.Zero(method.Type().In(n)))
		}
		method.Call(in)
	}
}

func TestACallsEnd(t *testing.T) {
	for _, tt := range []struct {
		name         string
		err          error
		result, line string
		failed       bool
	}{
		{"an answer", nil, "done", "", false},
		{"a refusal", &outcome.Error{Kind: outcome.Refused}, "refused", "", false},
		{"not ready", &outcome.Error{Kind: outcome.NotReady}, "not_ready", "", false},
		{"throttled", &outcome.Error{Kind: outcome.Throttled, Cause: "http_429"}, "throttled", "INFO", true},
		{"down", &outcome.Error{Kind: outcome.Down, Cause: "circuit_open"}, "down", "WARN", true},
		{"unknown", &outcome.Error{Kind: outcome.Unknown, Cause: "deadline"}, "unknown", "WARN", true},
		{"the caller went away", context.Canceled, "cancelled", "", false},
		{"our own doing", errors.New("a missing setting"), "failed", "WARN", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			spans := spansOf(t, func() {
				p, err := Mail(failing{err: tt.err}, CallOptions{Provider: "p", Log: Logger(&log, slog.LevelDebug)})
				if err != nil {
					t.Fatal(err)
				}
				if got := p.Check(t.Context()); !errors.Is(got, tt.err) {
					t.Errorf("got %v", got)
				}
			})
			if len(spans) != 1 || (spans[0].Status.Description != "") != tt.failed {
				t.Errorf("spans %+v", spans)
			}
			for _, a := range spans[0].Attributes {
				if a.Key == "tenantry.outcome" && a.Value.AsString() != tt.result {
					t.Errorf("outcome %s", a.Value.AsString())
				}
			}
			if tt.line == "" && log.Len() > 0 || tt.line != "" && !strings.Contains(log.String(), `"level":"`+tt.line+`","msg":"provider call brought no answer","provider":"p","operation":"check","outcome":"`+tt.result) {
				t.Errorf("log: %s", log.String())
			}
		})
	}
}

// TestNothingLeavesUnasked: no exporter by default, and none where the SDK is
// disabled.
func TestNothingLeavesUnasked(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, false},
	} {
		for name, value := range tt.env {
			t.Setenv(name, value)
		}
		if got := named("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT"); got != tt.want {
			t.Errorf("%v: %v", tt.env, got)
		}
	}
}

// TestIdentityByEnvironment: the operator's name of the service wins.
func TestIdentityByEnvironment(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "mine")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging")
	about, err := identity(t.Context(), Options{Service: "tenantry", Version: "1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"service.name=mine", "service.version=1", "deployment.environment.name=staging"} {
		if !strings.Contains(about.Encoded(attribute.DefaultEncoder()), want) {
			t.Errorf("%s is missing in %s", want, about)
		}
	}
}

// TestMetricsOfLibrariesAreTrimmed: what would make series without an end, or
// says nothing, is not kept.
func TestMetricsOfLibrariesAreTrimmed(t *testing.T) {
	registry := prometheus.NewRegistry()
	stop, err := Start(t.Context(), Options{Service: "tenantry", Version: "1", Log: slog.New(slog.DiscardHandler), Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	record(t)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		text.WriteString(f.String() + "\n")
	}
	for _, gone := range []string{"socket", "go_sql_query_timing", "otel_scope"} {
		if strings.Contains(text.String(), gone) {
			t.Errorf("%s is kept in %s", gone, text.String())
		}
	}
	if !strings.Contains(text.String(), `name:"rpc_client_call_duration_seconds"`) {
		t.Errorf("the calls of plugins are missing: %s", text.String())
	}
}

func record(t *testing.T) {
	t.Helper()
	meter := otel.Meter("test")
	calls, err := meter.Float64Histogram("rpc.client.call.duration", metric.WithUnit("s"))
	if err != nil {
		t.Fatal(err)
	}
	calls.Record(t.Context(), 1, metric.WithAttributes(attribute.String("rpc.method", "m"), attribute.String("server.address", "socket")))
	timing, err := meter.Int64Histogram("go.sql.query_timing")
	if err != nil {
		t.Fatal(err)
	}
	timing.Record(t.Context(), 1)
}
