// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/baggage"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type tenantStore = ports.Tenants

// listing lets a test decide what becomes of a list of tenants.
type listing struct {
	tenantStore
	list func(context.Context) ([]tenant.Tenant, error)
}

func (l listing) Tenants(ctx context.Context, _ access.AccountID) ([]tenant.Tenant, error) {
	return l.list(ctx)
}

// listed makes an API whose list of tenants is answered by list.
func listed(t *testing.T, list func(context.Context) ([]tenant.Tenant, error)) (*world, *api, *bytes.Buffer) {
	t.Helper()
	w := newWorld(t)
	var lines bytes.Buffer
	w.options.Log = telemetry.Logger(&lines, slog.LevelInfo)
	service := *w.options.Tenants
	service.Tenants = listing{tenantStore: w.store, list: list}
	w.options.Tenants = &service
	return w, serve(t, w.handler(t)), &lines
}

func TestPanicsAreAnsweredAndLoggedWithoutValues(t *testing.T) {
	const canary = "Hunter2-Secret"
	w, a, lines := listed(t, func(context.Context) ([]tenant.Tenant, error) { panic(canary) })
	got := a.expect(call{method: "GET", path: "/v1/tenants?token=" + canary, key: w.a.key}, 500, "internal_error")
	a.server.Close() // the log is complete when no request is left
	log := lines.String()
	if strings.Contains(got.raw+log, canary) {
		t.Errorf("the value got out: %s\n%s", got.raw, log)
	}
	if !strings.Contains(log, "TestPanicsAreAnswered") || !strings.Contains(log, `"msg":"panic"`) {
		t.Errorf("no stack in the log: %s", log)
	}
}

func TestErrorsBecomeRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		status int
		code   string
		wait   string
	}{
		"anything else":    {errorString("dial tcp 10.0.0.1:5432"), 500, "internal_error", ""},
		"time is up":       {context.DeadlineExceeded, 503, "service_unavailable", "10"},
		"database away":    {fault.ServiceUnavailable.RetryIn(1500*time.Millisecond, "the database is away"), 503, "service_unavailable", "2"},
		"no time said":     {fault.ServiceUnavailable.With("stopping"), 503, "service_unavailable", "10"},
		"less than second": {fault.ServiceUnavailable.RetryIn(time.Millisecond, "busy"), 503, "service_unavailable", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, a, _ := listed(t, func(context.Context) ([]tenant.Tenant, error) { return nil, tt.err })
			got := a.expect(call{method: "GET", path: "/v1/tenants", key: w.a.key}, tt.status, tt.code)
			if strings.Contains(got.raw, "10.0.0.1") || got.header.Get("Retry-After") != tt.wait {
				t.Errorf("Retry-After %q, %s", got.header.Get("Retry-After"), got.raw)
			}
		})
	}
}

type errorString string

func (e errorString) Error() string { return string(e) }

// Providers' trouble has its documented statuses.
func TestProviderTrouble(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	for kind, want := range map[outcome.Kind]struct {
		status int
		code   string
	}{
		outcome.Throttled: {503, "provider_unavailable"}, outcome.Down: {503, "provider_unavailable"},
		outcome.Broken: {502, "provider_error"}, outcome.Unknown: {504, "provider_timeout"},
	} {
		lift := w.platform.Fail(fake.Fault{Kind: kind})
		a.expect(call{method: "POST", path: domainsOfA, body: `{"domain":"example.com"}`, key: w.a.key}, want.status, want.code)
		lift()
	}
	w.platform.Revoke(w.a.tenant, "consent")
	a.expect(call{method: "POST", path: domainsOfA, body: `{"domain":"example.com"}`, key: w.a.key}, 403, "access_denied")
}

// A read has 55 seconds from when the server received it.
func TestDeadlines(t *testing.T) {
	var deadline, latest time.Time
	w, a, _ := listed(t, func(ctx context.Context) ([]tenant.Tenant, error) {
		deadline, _ = ctx.Deadline()
		latest = time.Now().Add(55 * time.Second)
		return nil, nil
	})
	earliest := time.Now().Add(55 * time.Second)
	a.expect(call{method: "GET", path: "/v1/tenants", key: w.a.key}, 200, "")
	if deadline.Before(earliest) || deadline.After(latest) {
		t.Errorf("the deadline of a read is %v, want one between %v and %v", deadline, earliest, latest)
	}
}

func TestAccessLineAndSpan(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	w := newWorld(t)
	var lines bytes.Buffer
	w.options.Log = telemetry.Logger(&lines, slog.LevelInfo)
	w.options.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	carried := false
	service := *w.options.Tenants
	service.Tenants = seesBaggage{tenantStore: w.store, carried: &carried}
	w.options.Tenants = &service
	a := serve(t, w.handler(t))
	const parent = "0af7651916cd43dd8448eb211c80319c"
	got := a.expect(call{method: "GET", path: "/v1/tenants/" + string(w.b.tenant) + "?email=ann@a.example", key: w.a.key, headers: map[string]string{
		"Traceparent": "00-" + parent + "-b7ad6b7169203331-01", "Baggage": "customer=ann", "User-Agent": "curl", "X-Forwarded-For": "10.9.8.7",
	}}, 404, "tenant_not_found")
	a.server.Close()

	var line map[string]any
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
		t.Fatalf("not one line: %v\n%s", err, lines.String())
	}
	for member, want := range map[string]any{
		"route": "GET /v1/tenants/{tenant_id}", "status": 404.0, "code": "tenant_not_found",
		"request_id": got.header.Get("X-Request-ID"), "trace_id": parent,
	} {
		if line[member] != want {
			t.Errorf("%s is %v, want %v", member, line[member], want)
		}
	}
	if _, ok := line["duration_ms"].(float64); !ok {
		t.Error("no duration")
	}
	ended := spans.GetSpans()
	if len(ended) != 1 || ended[0].Name != "GET /v1/tenants/{tenant_id}" || ended[0].SpanContext.TraceID().String() != parent ||
		ended[0].SpanKind != trace.SpanKindServer {
		t.Fatalf("spans %+v", ended)
	}
	shown := lines.String()
	for _, attribute := range ended[0].Attributes {
		shown += string(attribute.Key) + "=" + attribute.Value.String() + "\n"
	}
	if !strings.Contains(shown, "http.route=/v1/tenants/{tenant_id}") {
		t.Errorf("no http.route: %s", shown)
	}
	for _, customer := range []string{string(w.b.tenant), "ann@a.example", "10.9.8.7", w.a.key} {
		if strings.Contains(shown, customer) {
			t.Errorf("%q got out: %s", customer, shown)
		}
	}
	if carried {
		t.Error("baggage was carried on")
	}
}

type seesBaggage struct {
	tenantStore
	carried *bool
}

func (s seesBaggage) Tenant(ctx context.Context, owner access.AccountID, id tenant.GUID) (tenant.Tenant, error) {
	*s.carried = baggage.FromContext(ctx).Len() > 0
	return s.tenantStore.Tenant(ctx, owner, id)
}

// Nothing of the Host header or its kin comes back.
func TestNoReflection(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	for _, path := range []string{"/v1/tenants", "/v1/nowhere", "/docs", "/docs/errors", "/openapi.json"} {
		r := call{method: "GET", path: path, key: w.a.key, headers: map[string]string{"X-Forwarded-Host": "evil.example", "Origin": "https://evil.example"}}.request(t, a.server.URL)
		r.Host = "evil.example"
		got := a.send(r)
		for name, values := range got.header {
			if strings.Contains(strings.Join(values, ","), "evil") {
				t.Errorf("%s: %s %v", path, name, values)
			}
		}
		if strings.Contains(got.raw, "evil") || strings.Contains(got.raw, "$schema") {
			t.Errorf("%s reflects: %s", path, got.raw)
		}
	}
}

// A missing service is a panic in its operation and no other.
func TestOnePanickingOperationLeavesTheRestAlone(t *testing.T) {
	w := newWorld(t)
	w.options.Tenants = &tenants.Service{}
	a := serve(t, w.handler(t))
	a.expect(call{method: "GET", path: "/v1/tenants", key: w.a.key}, http.StatusInternalServerError, "internal_error")
	a.expect(call{method: "GET", path: domainsOfA, key: w.a.key}, 200, "")
}

func TestBenchmarks(t *testing.T) { testserver.Benchmarks(t, "Guard") }
