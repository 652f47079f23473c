// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
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
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type tenantStore = ports.Tenants

// tenantLister is a tenant store that returns the tenants that a test specifies.
type tenantLister struct {
	tenantStore
	list func(context.Context) ([]tenant.Tenant, error)
}

func (l tenantLister) Tenants(ctx context.Context, _ access.AccountID) ([]tenant.Tenant, error) {
	return l.list(ctx)
}

// newTenantListEnv returns an environment, a client, and the log. The API gets the tenants of an
// account from list. The log is complete when the server is closed.
func newTenantListEnv(t *testing.T, list func(context.Context) ([]tenant.Tenant, error)) (*testEnv, *apiClient, *bytes.Buffer) {
	t.Helper()
	env := newTestEnv(t)
	var lines bytes.Buffer
	env.options.Guard.Log = telemetry.NewLogger(&lines, slog.LevelInfo)
	service := *env.options.Tenants
	service.Tenants = tenantLister{tenantStore: env.store, list: list}
	env.options.Tenants = &service
	return env, serve(t, env.handler(t)), &lines
}

func TestPanicsAreAnsweredAndLoggedWithoutValues(t *testing.T) {
	const panicValue = "Hunter2-Secret"
	env, client, lines := newTenantListEnv(t, func(context.Context) ([]tenant.Tenant, error) { panic(panicValue) })
	got := client.expect(call{method: "GET", path: "/v1/tenants?token=" + panicValue, key: env.accountA.key}, 500, "internal_error")
	// Other operations still work.
	client.expect(call{method: "GET", path: domainsOfA, key: env.accountA.key}, 200, "")
	client.server.Close() // the log is complete when no request is in progress
	log := lines.String()
	if strings.Contains(got.raw+log, panicValue) {
		t.Errorf("the answer or the log contains the panic value: %s\n%s", got.raw, log)
	}
	if got.header.Get("X-RateLimit-Remaining") == "" {
		t.Errorf("the answer has no rate-limit headers, although the request was counted: %v", got.header)
	}
	if !strings.Contains(log, "TestPanicsAreAnswered") || !strings.Contains(log, `"msg":"panic"`) {
		t.Errorf("the log has no panic with a stack: %s", log)
	}
}

func TestErrorsMapToProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		err            error
		wantStatus     int
		wantCode       string
		wantRetryAfter string // in seconds
	}{
		"unknown error":           {errorString("dial tcp 10.0.0.1:5432"), 500, "internal_error", ""},
		"deadline exceeded":       {context.DeadlineExceeded, 503, "service_unavailable", "10"},
		"database unavailable":    {fault.ServiceUnavailable.RetryIn(1500*time.Millisecond, "the database is away"), 503, "service_unavailable", "2"},
		"refusal without a delay": {fault.ServiceUnavailable.With("stopping"), 503, "service_unavailable", "10"},
		"delay under a second":    {fault.ServiceUnavailable.RetryIn(time.Millisecond, "busy"), 503, "service_unavailable", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			env, client, _ := newTenantListEnv(t, func(context.Context) ([]tenant.Tenant, error) { return nil, tc.err })
			got := client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountA.key}, tc.wantStatus, tc.wantCode)
			if retryAfter := got.header.Get("Retry-After"); retryAfter != tc.wantRetryAfter {
				t.Errorf("Retry-After is %q, want %q", retryAfter, tc.wantRetryAfter)
			}
			if strings.Contains(got.raw, "10.0.0.1") {
				t.Errorf("the answer contains the address of the database: %s", got.raw)
			}
		})
	}
}

type errorString string

func (e errorString) Error() string { return string(e) }

func TestProviderFailuresMapToProblems(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	for kind, want := range map[outcome.Kind]struct {
		status int
		code   string
	}{
		outcome.Throttled: {503, "provider_unavailable"}, outcome.Down: {503, "provider_unavailable"},
		outcome.Broken: {502, "provider_error"}, outcome.Unknown: {504, "provider_timeout"},
	} {
		endFailure := env.platform.Fail(fake.Fault{Kind: kind})
		client.expect(call{method: "POST", path: domainsOfA, body: `{"domain":"example.com"}`, key: env.accountA.key}, want.status, want.code)
		endFailure()
	}
	env.platform.Revoke(env.accountA.tenant, "consent")
	client.expect(call{method: "POST", path: domainsOfA, body: `{"domain":"example.com"}`, key: env.accountA.key}, 403, "access_denied")
}

// TestReadsHaveADeadline checks that a read must end 55 seconds after its start, which is the
// default time limit of operations.
func TestReadsHaveADeadline(t *testing.T) {
	var deadline, latest time.Time
	env, client, _ := newTenantListEnv(t, func(ctx context.Context) ([]tenant.Tenant, error) {
		deadline, _ = ctx.Deadline()
		latest = time.Now().Add(55 * time.Second)
		return nil, nil
	})
	earliest := time.Now().Add(55 * time.Second)
	client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountA.key}, 200, "")
	if deadline.Before(earliest) || deadline.After(latest) {
		t.Errorf("the deadline of a read is %v, want one between %v and %v", deadline, earliest, latest)
	}
}

func TestLogLineAndSpanOfARequest(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	env := newTestEnv(t)
	var lines bytes.Buffer
	env.options.Guard.Log = telemetry.NewLogger(&lines, slog.LevelInfo)
	env.options.Guard.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	gotBaggage := false
	service := *env.options.Tenants
	service.Tenants = baggageRecorder{tenantStore: env.store, gotBaggage: &gotBaggage}
	env.options.Tenants = &service
	client := serve(t, env.handler(t))
	const callersTrace = "0af7651916cd43dd8448eb211c80319c"
	got := client.expect(call{method: "GET", path: "/v1/tenants/" + string(env.accountB.tenant) + "?email=ann@a.example", key: env.accountA.key, headers: map[string]string{
		"Traceparent": "00-" + callersTrace + "-b7ad6b7169203331-01", "Baggage": "customer=ann", "User-Agent": "curl", "X-Forwarded-For": "10.9.8.7",
	}}, 404, "tenant_not_found")
	client.server.Close()

	keys, err := env.store.IssuedKeys(t.Context(), env.accountA.account.ID)
	if err != nil || len(keys) != 1 {
		t.Fatalf("the keys are %v, want one (%v)", keys, err)
	}
	var line map[string]any
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
		t.Fatalf("the log is not one line: %v\n%s", err, lines.String())
	}
	for member, want := range map[string]any{
		"route": "GET /v1/tenants/{tenant_id}", "status": 404.0, "code": "tenant_not_found",
		"request_id": got.header.Get("X-Request-ID"), "trace_id": callersTrace,
		"account_id": string(env.accountA.account.ID), "key_id": keys[0].ID,
	} {
		if line[member] != want {
			t.Errorf("%s is %v, want %v", member, line[member], want)
		}
	}
	if _, ok := line["duration_ms"].(float64); !ok {
		t.Error("the log line has no duration_ms")
	}
	endedSpans := spans.GetSpans()
	if len(endedSpans) != 1 || endedSpans[0].Name != "GET /v1/tenants/{tenant_id}" || endedSpans[0].SpanContext.TraceID().String() != callersTrace ||
		endedSpans[0].SpanKind != trace.SpanKindServer {
		t.Fatalf("the spans are %+v, want one server span of the route in the caller's trace", endedSpans)
	}
	output := lines.String()
	for _, attribute := range endedSpans[0].Attributes {
		output += string(attribute.Key) + "=" + attribute.Value.String() + "\n"
	}
	if !strings.Contains(output, "http.route=/v1/tenants/{tenant_id}") {
		t.Errorf("the span has no http.route: %s", output)
	}
	for _, customerData := range []string{string(env.accountB.tenant), "ann@a.example", "10.9.8.7", env.accountA.key} {
		if strings.Contains(output, customerData) {
			t.Errorf("the log or the span contains %q: %s", customerData, output)
		}
	}
	if gotBaggage {
		t.Error("the operation got the baggage of the request, want none")
	}
}

// baggageRecorder is a tenant store that records whether the context has baggage.
type baggageRecorder struct {
	tenantStore
	gotBaggage *bool
}

func (r baggageRecorder) Tenant(ctx context.Context, owner access.AccountID, id tenant.GUID) (tenant.Tenant, error) {
	*r.gotBaggage = baggage.FromContext(ctx).Len() > 0
	return r.tenantStore.Tenant(ctx, owner, id)
}

func TestHostHeaderIsNotReflected(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	for _, path := range []string{"/v1/tenants", "/v1/nowhere", "/docs", "/docs/errors", "/openapi.json"} {
		r := call{method: "GET", path: path, key: env.accountA.key, headers: map[string]string{"X-Forwarded-Host": "evil.example", "Origin": "https://evil.example"}}.request(t, client.server.URL)
		r.Host = "evil.example"
		got := client.send(r)
		for name, values := range got.header {
			if strings.Contains(strings.Join(values, ","), "evil") {
				t.Errorf("%s: the header %s repeats the host: %v", path, name, values)
			}
		}
		if strings.Contains(got.raw, "evil") || strings.Contains(got.raw, "$schema") {
			t.Errorf("the body of %s repeats the host or contains $schema: %s", path, got.raw)
		}
	}
}

func TestBenchmarks(t *testing.T) { testserver.Benchmarks(t, "Guard") }

func TestForwardedHeadersDoNotChangeTheRequest(t *testing.T) {
	env := newTestEnv(t)
	env.options.Guard.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	client := serve(t, env.handler(t))
	connectCall := call{method: "GET", path: "/v1/tenants/connect-url", key: env.accountA.key}
	want := client.expect(connectCall, 200, "")
	for name, value := range map[string]string{
		"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http", "X-Forwarded-Port": "81", "X-Forwarded-Prefix": "/evil",
		"Forwarded": "for=192.0.2.1;host=evil.example;proto=http", "X-Real-Ip": "192.0.2.1", "X-Original-Url": "/evil",
		"X-Rewrite-Url": "/evil", "X-Http-Method-Override": "DELETE",
	} {
		c := connectCall
		c.headers = map[string]string{name: value}
		got := client.expect(c, 200, "")
		if linkTarget(t, got) != linkTarget(t, want) || strings.Contains(got.raw, "evil") {
			t.Errorf("the header %s changes the connect link: %s", name, got.raw)
		}
	}
}

// linkTarget returns the host, path and redirect URI of a connect link. It leaves out the state,
// which is different in each link.
func linkTarget(t *testing.T, r reply) string {
	t.Helper()
	link, err := http.NewRequest("GET", r.body["connect_url"].(string), nil)
	must(t, err)
	return link.URL.Host + link.URL.Path + link.URL.Query().Get("redirect_uri")
}
