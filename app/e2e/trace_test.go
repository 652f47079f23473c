// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

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
		c.t.Errorf("X-Request-ID is %q", got)
	}
	return answer.StatusCode
}

// TestTraceReachesTheMailPlatform checks that parent ids form one chain from the caller's
// traceparent, through the service and the plugin, to the traceparent that the mail platform
// receives.
func TestTraceReachesTheMailPlatform(t *testing.T) {
	t.Parallel()
	o, r := newSpanReceiver(t), newServiceFixture(t, requirePrograms(t, releaseBuild))
	env, email := r.env(t.TempDir(), ""), "owner@example.com"
	_, key := r.newAccount(env, email, "complete", 0)
	p, c := r.serve(append(env, o.env()...))
	c.ready.APIKey = key
	guid, admin := r.newTenant(c)
	newAdministrator(t, admin).connect(c, key)
	h := accountTenant{caller: caller{c, "", email, key}, guid: guid}
	h.mustSync()
	must(t, r.zones.Add("traced.test", "manual"))
	h.post(h.path("/domains"), object{"domain": "traced.test"})
	h.publishRecords("traced.test")
	h.post(h.domainPath("traced.test", "/verify"), nil)

	before := len(r.recordedRequests())
	if status := sendTraced(c, "POST", h.path("/mailboxes"), mailboxesBody("traced.test", "adalbertina", "max")); status != http.StatusOK {
		t.Fatalf("provision: %d", status)
	}
	calls := r.recordedRequests()[before:]
	metrics := c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw
	if err := p.stop(); err != nil { // flushes the last spans
		t.Fatal(err)
	}
	spans, raw := o.received(t)
	checkChain(t, spans, calls)
	checkLogIDs(t, p.logs.String())

	// A short name would occur in random trace ids by chance.
	customer := map[string]string{"domain": "traced.test", "address": "adalbertina@traced.test", "name": "Adalbertina", "tenant": guid,
		"tenant without dashes": strings.ReplaceAll(guid, "-", ""), "administrator": admin, "owner": email}
	for signal, data := range map[string][]byte{"spans": bytes.Join(raw, nil), "metrics": metrics, "logs": []byte(p.logs.String())} {
		if found := findLeaks(data, customer); len(found) > 0 {
			t.Errorf("customer data in %s: %v", signal, found)
		}
	}
	if !bytes.Contains(metrics, []byte("tenantry_provider_call_duration_seconds_bucket")) {
		t.Errorf("the metrics lack the provider's calls: %s", metrics)
	}
}

// checkChain checks that every span of the trace is below the caller's, and that every call of the
// mail platform is below a span of the plugin.
func checkChain(t *testing.T, spans []receivedSpan, calls []platformRequest) {
	t.Helper()
	own := map[string]receivedSpan{}
	for _, s := range spans {
		if s.trace() == traceID {
			own[s.id()] = s
		}
	}
	roots := 0
	for _, s := range own {
		if s.parent() == callerSpan {
			roots++
		} else if _, ok := own[s.parent()]; !ok {
			t.Errorf("the parent of %s's span %q is not in the trace", s.service, s.GetName())
		}
	}
	if roots != 1 {
		t.Errorf("%d spans are children of the caller's", roots)
	}
	if len(calls) < 8 {
		t.Errorf("only %d calls at the mail platform", len(calls))
	}
	for _, call := range calls {
		parts := strings.Split(call.header.Get("Traceparent"), "-")
		if len(parts) != 4 || parts[1] != traceID {
			t.Errorf("%s has the traceparent %v", call.path, parts)
			continue
		}
		at, ok := own[parts[2]]
		if !ok || at.service != "tenantry-plugin-microsoft365" || at.GetKind() != tracepb.Span_SPAN_KIND_CLIENT {
			t.Errorf("the parent of %s is %q of %q", call.path, at.GetName(), at.service)
		}
		if services := servicesToCaller(own, at); !slices.Equal(services, []string{"tenantry-plugin-microsoft365", "tenantry"}) {
			t.Errorf("%s leads to the caller over %v", call.path, services)
		}
	}
}

// servicesToCaller returns the services between a span and the caller's, without consecutive
// repetitions. It returns nil if the chain is broken.
func servicesToCaller(own map[string]receivedSpan, at receivedSpan) (services []string) {
	for range len(own) + 1 {
		if len(services) == 0 || services[len(services)-1] != at.service {
			services = append(services, at.service)
		}
		if at.parent() == callerSpan {
			return services
		}
		next, ok := own[at.parent()]
		if !ok {
			return nil
		}
		at = next
	}
	return nil
}

// checkLogIDs checks that log lines carry the ids of their request.
func checkLogIDs(t *testing.T, logs string) {
	t.Helper()
	ours := 0
	for line := range strings.Lines(logs) {
		var o object
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Errorf("not JSON: %s", line)
			continue
		}
		if o.text("msg") == "request" && (len(o.text("trace_id")) != 32 || o["request_id"] == nil || o["request_id"] == "") {
			t.Errorf("a request's line without ids: %s", line)
		}
		if o.text("trace_id") == traceID && o.text("request_id") == requestID {
			ours++
		} else if o.text("trace_id") == traceID || o.text("request_id") == requestID {
			t.Errorf("one id without the other: %s", line)
		}
	}
	if ours == 0 {
		t.Errorf("no line of the traced request in: %s", logs)
	}
}

// linkedToCaller reports whether a span has a link to the caller's trace.
func (e receivedSpan) linkedToCaller() bool {
	for _, l := range e.GetLinks() {
		if hex.EncodeToString(l.GetTraceId()) == traceID {
			return true
		}
	}
	return false
}

// TestJobsAreLinkedToTheirRequest checks that each step of a job is a span with a link to the
// request that caused the job. The step has its own trace, which continues in the plugins.
func TestJobsAreLinkedToTheirRequest(t *testing.T) {
	t.Parallel()
	o := newSpanReceiver(t)
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), o.env(), "--no-seed")
	h := seededAccount(t, ready).newAccount(nil).withDNSConnection().newConnectedTenant(nil)
	_, id := h.newHostedDomain()
	asking := h.client
	asking.ready.APIKey = h.key
	if status := sendTraced(asking, "POST", "/v1/domains/"+id+"/dns/provision", object{}); status != http.StatusAccepted {
		t.Fatalf("provision: %d", status)
	}
	run := h.get("/v1/dns/provisioning-runs").objects("runs")[0].text("id")
	if ended := h.waitForRun(run); ended.at("run.status") != "completed" {
		t.Fatalf("the run ended %s", ended.raw)
	}
	// The service and its plugins export independently.
	var spans []receivedSpan
	h.eventually("the spans of all steps, and of both plugins below steps", func() bool {
		spans, _ = o.received(t)
		children := pluginsBelowSteps(spans)
		for _, step := range []provisioning.Step{provisioning.Plan, provisioning.Apply, provisioning.ReadDNS, provisioning.Verify,
			provisioning.EnableMail, provisioning.EnsureSigning, provisioning.EnableDKIM, provisioning.Validate} {
			if len(spansNamed(spans, "dns job "+string(step))) == 0 {
				return false
			}
		}
		return len(spansNamed(spans, "job dns_job")) > 0 && children["tenantry-plugin-microsoft365"] && children["tenantry-plugin-cloudflare"]
	})
	for _, s := range spansNamed(spans, "job dns_job") {
		if !s.linkedToCaller() || s.trace() == traceID || s.parent() != "" {
			t.Errorf("a wake-up's span is in trace %s below %q, linked: %v", s.trace(), s.parent(), s.linkedToCaller())
		}
	}
	for _, s := range spans {
		if strings.HasPrefix(s.GetName(), "dns job ") && (!s.linkedToCaller() || s.trace() == traceID) {
			t.Errorf("%q is in trace %s, linked: %v", s.GetName(), s.trace(), s.linkedToCaller())
		}
	}
}

// pluginsBelowSteps returns the plugins with a span that has a job's step among its ancestors.
func pluginsBelowSteps(spans []receivedSpan) map[string]bool {
	byID, children := map[string]receivedSpan{}, map[string]bool{}
	for _, s := range spans {
		byID[s.id()] = s
	}
	for _, s := range spans {
		if !strings.HasPrefix(s.service, "tenantry-plugin-") {
			continue
		}
		for at, ok := s, true; ok; at, ok = byID[at.parent()] {
			if strings.HasPrefix(at.GetName(), "dns job ") {
				children[s.service] = true
			}
		}
	}
	return children
}

func spansNamed(spans []receivedSpan, name string) (found []receivedSpan) {
	for _, s := range spans {
		if s.GetName() == name {
			found = append(found, s)
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
	bad   []string
}

// receivedSpan is a span with the name of its service.
type receivedSpan struct {
	*tracepb.Span
	service string
}

func (e receivedSpan) id() string     { return hex.EncodeToString(e.GetSpanId()) }
func (e receivedSpan) parent() string { return hex.EncodeToString(e.GetParentSpanId()) }
func (e receivedSpan) trace() string  { return hex.EncodeToString(e.GetTraceId()) }

func newSpanReceiver(t *testing.T) *spanReceiver {
	t.Helper()
	o := &spanReceiver{}
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	o.url = server.URL
	return o
}

// env makes a server and its plugins export every span to the receiver.
func (o *spanReceiver) env() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + o.url, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_TRACES_SAMPLER=always_on"}
}

// ServeHTTP implements http.Handler.
func (o *spanReceiver) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.raw = append(o.raw, body)
	var q collector.ExportTraceServiceRequest
	if r.URL.Path != "/v1/traces" || err != nil || proto.Unmarshal(body, &q) != nil {
		o.bad = append(o.bad, r.Method+" "+r.URL.Path)
		return
	}
	for _, rs := range q.GetResourceSpans() {
		service := ""
		for _, a := range rs.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, ss := range rs.GetScopeSpans() {
			for _, span := range ss.GetSpans() {
				o.spans = append(o.spans, receivedSpan{span, service})
			}
		}
	}
}

// received returns the spans so far, and the raw request bodies.
func (o *spanReceiver) received(t *testing.T) ([]receivedSpan, [][]byte) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.bad) > 0 {
		t.Errorf("not OTLP over HTTP: %v", o.bad)
	}
	return append([]receivedSpan{}, o.spans...), append([][]byte{}, o.raw...)
}
