// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tenantry/tenantry/core/provisioning"
)

const (
	traceID    = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan = "00f067aa0ba902b7"
	requestID  = "trace-test-1"
)

// sendTraced sends a request with the trace context of a caller and returns the status.
func sendTraced(c client, method, path string, body any) int {
	c.t.Helper()
	payload, err := json.Marshal(body)
	must(c.t, err)
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.ready.APIURL+path, bytes.NewReader(payload))
	must(c.t, err)
	for name, value := range map[string]string{
		"Authorization": "Bearer " + c.ready.APIKey, "Content-Type": "application/json", "Idempotency-Key": "traced",
		"Traceparent": "00-" + traceID + "-" + callerSpan + "-01", "X-Request-ID": requestID,
	} {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	must(c.t, err)
	defer func() { _ = answer.Body.Close() }()
	if got := answer.Header.Get("X-Request-ID"); got != requestID {
		c.t.Errorf("X-Request-ID is %q, want %q", got, requestID)
	}
	return answer.StatusCode
}

// TestTraceReachesTheMailPlatform checks that parent ids form one chain from the caller's
// traceparent, through the service and the plugin, to the traceparent that the mail platform
// receives.
func TestTraceReachesTheMailPlatform(t *testing.T) {
	t.Parallel()
	receiver, fixture := newSpanReceiver(t), newServiceFixture(t, requirePrograms(t, releaseBuild))
	env, email := fixture.env(t.TempDir(), ""), "owner@example.com"
	_, key := fixture.newAccount(env, email, "complete", 0)
	p, c := fixture.serve(append(env, receiver.env()...))
	c.ready.APIKey = key
	guid, admin := fixture.newTenant(c)
	newAdministrator(t, admin).connect(c, key)
	tenant := accountTenant{caller: caller{c, "", email, key}, guid: guid}
	tenant.mustSync()
	must(t, fixture.zones.Add("traced.test", "manual"))
	tenant.post(tenant.path("/domains"), object{"domain": "traced.test"})
	tenant.publishRecords("traced.test")
	tenant.post(tenant.domainPath("traced.test", "/verify"), nil)

	earlierRequests := len(fixture.recordedRequests())
	if status := sendTraced(c, "POST", tenant.path("/mailboxes"), mailboxesBody("traced.test", "adalbertina", "max")); status != http.StatusOK {
		t.Fatalf("the provisioning of mailboxes is answered %d, want 200", status)
	}
	calls := fixture.recordedRequests()[earlierRequests:]
	metrics := c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw
	// Processes that stop export their last spans for at most 2 s, so the test waits before the
	// stop.
	var problems []string
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		spans, _ := receiver.received(t)
		if problems = chainProblems(spans, calls); len(problems) == 0 {
			break
		}
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	must(t, p.stop()) // completes the log and the received spans, which are searched below
	_, raw := receiver.received(t)
	checkLogIDs(t, p.logs.String())

	// The name is long, because random trace ids could contain a short name.
	customer := map[string]string{"domain": "traced.test", "address": "adalbertina@traced.test", "name": "Adalbertina", "tenant": guid,
		"tenant without dashes": strings.ReplaceAll(guid, "-", ""), "administrator": admin, "owner": email}
	for signal, data := range map[string][]byte{"spans": bytes.Join(raw, nil), "metrics": metrics, "logs": []byte(p.logs.String())} {
		if found := findLeaks(data, customer); len(found) > 0 {
			t.Errorf("the %s contain customer data: %v", signal, found)
		}
	}
	if !bytes.Contains(metrics, []byte("tenantry_provider_call_duration_seconds_bucket")) {
		t.Errorf("the metrics lack the provider's calls: %s", metrics)
	}
}

// chainProblems returns a text for each span of the trace that is not below the caller's span, and
// for each call of the mail platform that is not below a span of the plugin.
func chainProblems(spans []receivedSpan, calls []platformRequest) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	spansOfTrace := map[string]receivedSpan{}
	for _, span := range spans {
		if span.trace() == traceID {
			spansOfTrace[span.id()] = span
		}
	}
	roots := 0
	for _, span := range spansOfTrace {
		if span.parent() == callerSpan {
			roots++
		} else if _, ok := spansOfTrace[span.parent()]; !ok {
			add("the parent of %s's span %q is not in the trace", span.service, span.GetName())
		}
	}
	if roots != 1 {
		add("%d spans are children of the caller's span, want 1", roots)
	}
	if len(calls) < 8 {
		add("the mail platform got only %d calls, want at least 8", len(calls))
	}
	for _, call := range calls {
		parts := strings.Split(call.header.Get("Traceparent"), "-")
		if len(parts) != 4 || parts[1] != traceID {
			add("the call %s has the traceparent %v, want the caller's trace", call.path, parts)
			continue
		}
		span, ok := spansOfTrace[parts[2]]
		if !ok || span.service != "tenantry-plugin-microsoft365" || span.GetKind() != tracepb.Span_SPAN_KIND_CLIENT {
			add("the parent of the call %s is the span %q of %q, want a client span of the plugin", call.path, span.GetName(), span.service)
		}
		if services := servicesToCaller(spansOfTrace, span); !slices.Equal(services, []string{"tenantry-plugin-microsoft365", "tenantry"}) {
			add("the call %s leads to the caller over the services %v, want the plugin and tenantry", call.path, services)
		}
	}
	return problems
}

// servicesToCaller returns the services between a span and the caller's span, without consecutive
// repetitions. It returns nil if the chain is broken.
func servicesToCaller(spansOfTrace map[string]receivedSpan, span receivedSpan) (services []string) {
	for range len(spansOfTrace) + 1 {
		if len(services) == 0 || services[len(services)-1] != span.service {
			services = append(services, span.service)
		}
		if span.parent() == callerSpan {
			return services
		}
		parent, ok := spansOfTrace[span.parent()]
		if !ok {
			return nil
		}
		span = parent
	}
	return nil
}

// checkLogIDs checks that log lines carry the ids of their request.
func checkLogIDs(t *testing.T, logs string) {
	t.Helper()
	linesOfRequest := 0
	for line := range strings.Lines(logs) {
		var entry object
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("a log line is not JSON: %s", line)
			continue
		}
		if entry.text("msg") == "request" && (len(entry.text("trace_id")) != 32 || entry["request_id"] == nil || entry["request_id"] == "") {
			t.Errorf("the log line of a request lacks an id: %s", line)
		}
		if entry.text("trace_id") == traceID && entry.text("request_id") == requestID {
			linesOfRequest++
		} else if entry.text("trace_id") == traceID || entry.text("request_id") == requestID {
			t.Errorf("a log line has only one id of the traced request: %s", line)
		}
	}
	if linesOfRequest == 0 {
		t.Errorf("the log has no line of the traced request: %s", logs)
	}
}

// linkedToCaller reports whether a span has a link to the caller's trace.
func (span receivedSpan) linkedToCaller() bool {
	for _, link := range span.GetLinks() {
		if hex.EncodeToString(link.GetTraceId()) == traceID {
			return true
		}
	}
	return false
}

// TestJobsAreLinkedToTheirRequest checks that each step of a job is a span with a link to the
// request that caused the job. The step has its own trace, which continues in the plugins.
func TestJobsAreLinkedToTheirRequest(t *testing.T) {
	t.Parallel()
	receiver := newSpanReceiver(t)
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), receiver.env(), "--no-seed")
	tenant := seededAccount(t, ready).newAccount(nil).withDNSConnection().newConnectedTenant(nil)
	_, id := tenant.newHostedDomain()
	requester := tenant.client
	requester.ready.APIKey = tenant.key
	if status := sendTraced(requester, "POST", "/v1/domains/"+id+"/dns/provision", object{}); status != http.StatusAccepted {
		t.Fatalf("the DNS provisioning is answered %d, want 202", status)
	}
	run := tenant.get("/v1/dns/provisioning-runs").objects("runs")[0].text("id")
	if ended := tenant.waitForRun(run); ended.valueAt("run.status") != "completed" {
		t.Fatalf("the run ended as %s, want it completed", ended.raw)
	}
	// The service and its plugins export independently, so their spans arrive at different times.
	var spans []receivedSpan
	tenant.eventually("the spans of all steps, and of both plugins below steps", func() bool {
		spans, _ = receiver.received(t)
		plugins := pluginsBelowSteps(spans)
		for _, step := range []provisioning.Step{provisioning.Plan, provisioning.Apply, provisioning.ReadDNS, provisioning.Verify,
			provisioning.EnableMail, provisioning.EnsureSigning, provisioning.EnableDKIM, provisioning.Validate} {
			if len(spansNamed(spans, "dns job "+string(step))) == 0 {
				return false
			}
		}
		return len(spansNamed(spans, "job dns_job")) > 0 && plugins["tenantry-plugin-microsoft365"] && plugins["tenantry-plugin-cloudflare"]
	})
	for _, span := range spansNamed(spans, "job dns_job") {
		if !span.linkedToCaller() || span.trace() == traceID || span.parent() != "" {
			t.Errorf("the span of a job is in trace %s below %q, linked: %v; want a root span of a different trace with a link to the request", span.trace(), span.parent(), span.linkedToCaller())
		}
	}
	for _, span := range spans {
		if strings.HasPrefix(span.GetName(), "dns job ") && (!span.linkedToCaller() || span.trace() == traceID) {
			t.Errorf("%q is in trace %s, linked: %v; want a trace of its own with a link to the request", span.GetName(), span.trace(), span.linkedToCaller())
		}
	}
}

// pluginsBelowSteps returns the plugins with a span that has a job's step among its ancestors.
func pluginsBelowSteps(spans []receivedSpan) map[string]bool {
	byID, plugins := map[string]receivedSpan{}, map[string]bool{}
	for _, span := range spans {
		byID[span.id()] = span
	}
	for _, span := range spans {
		if !strings.HasPrefix(span.service, "tenantry-plugin-") {
			continue
		}
		for ancestor, ok := span, true; ok; ancestor, ok = byID[ancestor.parent()] {
			if strings.HasPrefix(ancestor.GetName(), "dns job ") {
				plugins[span.service] = true
			}
		}
	}
	return plugins
}

func spansNamed(spans []receivedSpan, name string) (found []receivedSpan) {
	for _, span := range spans {
		if span.GetName() == name {
			found = append(found, span)
		}
	}
	return found
}

// spanReceiver receives spans as an OTLP collector does.
type spanReceiver struct {
	url string

	mu    sync.Mutex
	raw   [][]byte
	spans []receivedSpan
	wrong []string // the requests that are not valid OTLP over HTTP
}

type receivedSpan struct {
	*tracepb.Span
	service string
}

func (span receivedSpan) id() string     { return hex.EncodeToString(span.GetSpanId()) }
func (span receivedSpan) parent() string { return hex.EncodeToString(span.GetParentSpanId()) }
func (span receivedSpan) trace() string  { return hex.EncodeToString(span.GetTraceId()) }

func newSpanReceiver(t *testing.T) *spanReceiver {
	t.Helper()
	receiver := &spanReceiver{}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	receiver.url = server.URL
	return receiver
}

// env returns the environment with which a server and its plugins export every span to the
// receiver. The timeouts and the queue, which only the server gets, let it keep its spans while a
// busy machine delays the receiver.
func (r *spanReceiver) env() []string {
	timeout := fmt.Sprint(waitTimeout.Milliseconds())
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.url, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_TRACES_SAMPLER=always_on",
		"OTEL_EXPORTER_OTLP_TIMEOUT=" + timeout, "OTEL_BSP_EXPORT_TIMEOUT=" + timeout, "OTEL_BSP_MAX_QUEUE_SIZE=100000", "OTEL_BSP_SCHEDULE_DELAY=200",
	}
}

// ServeHTTP implements http.Handler.
func (r *spanReceiver) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw = append(r.raw, body)
	var export collector.ExportTraceServiceRequest
	if req.URL.Path != "/v1/traces" || err != nil || proto.Unmarshal(body, &export) != nil {
		r.wrong = append(r.wrong, req.Method+" "+req.URL.Path)
		return
	}
	for _, resourceSpans := range export.GetResourceSpans() {
		service := ""
		for _, attribute := range resourceSpans.GetResource().GetAttributes() {
			if attribute.GetKey() == "service.name" {
				service = attribute.GetValue().GetStringValue()
			}
		}
		for _, scopeSpans := range resourceSpans.GetScopeSpans() {
			for _, span := range scopeSpans.GetSpans() {
				r.spans = append(r.spans, receivedSpan{span, service})
			}
		}
	}
}

// received returns the spans so far, and the raw request bodies.
func (r *spanReceiver) received(t *testing.T) ([]receivedSpan, [][]byte) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wrong) > 0 {
		t.Errorf("the receiver got requests that are not OTLP over HTTP: %v", r.wrong)
	}
	return append([]receivedSpan{}, r.spans...), append([][]byte{}, r.raw...)
}
