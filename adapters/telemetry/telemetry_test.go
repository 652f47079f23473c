// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

func TestExportersNeedASetVariableAndAnEnabledSDK(t *testing.T) {
	for _, tc := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, false},
	} {
		for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED"} {
			t.Setenv(name, tc.env[name])
		}
		if got := isAnySet("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT"); got != tc.want {
			t.Errorf("with the variables %v: got %v, want %v", tc.env, got, tc.want)
		}
	}
}

func TestServiceNameComesFromEnvironment(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "mine")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging")
	described, err := newResource(t.Context(), Options{Service: "tenantry", Version: "1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"service.name=mine", "service.version=1", "deployment.environment.name=staging"} {
		if !strings.Contains(described.Encoded(attribute.DefaultEncoder()), want) {
			t.Errorf("the resource is %s, want %s in it", described, want)
		}
	}
}

// TestLibraryMetricsAreFiltered checks that the registry of /metrics does not have the address of a
// plugin's socket, the query timing of package bunotel, or the labels of the instrumentation scope.
func TestLibraryMetricsAreFiltered(t *testing.T) {
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
	recordLibraryMetrics(t)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var metrics strings.Builder
	for _, family := range families {
		metrics.WriteString(family.String() + "\n")
	}
	for _, dropped := range []string{"socket", "go_sql_query_timing", "otel_scope"} {
		if strings.Contains(metrics.String(), dropped) {
			t.Errorf("the metrics contain %s: %s", dropped, metrics.String())
		}
	}
	if !strings.Contains(metrics.String(), `name:"rpc_client_call_duration_seconds"`) {
		t.Errorf("the metrics do not contain the calls of plugins: %s", metrics.String())
	}
}

func recordLibraryMetrics(t *testing.T) {
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
