// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

const (
	traceID    = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan = "00f067aa0ba902b7"
	requestID  = "trace-test-1"
)

// traced sends a request as a caller does who traces it.
func traced(c client, method, path string, body any) int {
	c.t.Helper()
	payload, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.ready.APIURL+path, bytes.NewReader(payload))
	if err != nil {
		c.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + c.ready.APIKey, "Content-Type": "application/json", "Idempotency-Key": "traced",
		"Traceparent": "00-" + traceID + "-" + callerSpan + "-01", "X-Request-ID": requestID,
	} {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if got := answer.Header.Get("X-Request-ID"); got != requestID {
		c.t.Errorf("X-Request-ID is %q", got)
	}
	return answer.StatusCode
}

// TestOneTrace: parent ids form one chain from the caller's traceparent,
// through the service and the plugin, to the one that the mail platform gets.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	o, r := newReceiver(t), newRig(t, binary(t, release))
	env, email := r.env(t.TempDir(), ""), "owner@example.com"
	_, key := r.account(env, email, "complete", 0)
	p, c := r.serve(append(env, o.env()...))
	c.ready.APIKey = key
	guid, admin := r.tenant(c)
	newAdministrator(t, admin).connects(c, key)
	h := holding{caller: caller{c, "", email, key}, guid: guid}
	h.synced()
	if err := r.zones.Add("traced.test", "manual"); err != nil {
		t.Fatal(err)
	}
	h.post(h.path("/domains"), object{"domain": "traced.test"})
	h.publish("traced.test")
	h.post(h.domain("traced.test", "/verify"), nil)

	before := len(r.requests())
	if status := traced(c, "POST", h.path("/mailboxes"), boxes("traced.test", "adalbertina", "max")); status != http.StatusOK {
		t.Fatalf("provision: %d", status)
	}
	calls := r.requests()[before:]
	metrics := c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw
	if err := p.stop(); err != nil { // which sends the last spans
		t.Fatal(err)
	}
	spans, raw := o.all(t)
	chain(t, spans, calls)
	correlated(t, p.logs.String())

	// A short name would be found in random trace ids now and then.
	customer := map[string]string{"domain": "traced.test", "address": "adalbertina@traced.test", "name": "Adalbertina", "tenant": guid,
		"tenant without dashes": strings.ReplaceAll(guid, "-", ""), "administrator": admin, "owner": email}
	for place, data := range map[string][]byte{"spans": bytes.Join(raw, nil), "metrics": metrics, "logs": []byte(p.logs.String())} {
		if found := leaks(data, customer); len(found) > 0 {
			t.Errorf("customer data in %s: %v", place, found)
		}
	}
	if !bytes.Contains(metrics, []byte("tenantry_provider_call_duration_seconds_bucket")) {
		t.Errorf("the metrics lack the provider's calls: %s", metrics)
	}
}

// chain checks that every span of the trace hangs below the caller's, and
// that every call at the mail platform hangs below a span of the plugin.
func chain(t *testing.T, spans []exported, calls []seen) {
	t.Helper()
	own := map[string]exported{}
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
			t.Errorf("%s came with traceparent %v", call.path, parts)
			continue
		}
		at, ok := own[parts[2]]
		if !ok || at.service != "tenantry-plugin-microsoft365" || at.GetKind() != tracepb.Span_SPAN_KIND_CLIENT {
			t.Errorf("%s hangs below %q of %q", call.path, at.GetName(), at.service)
		}
		if services := upwards(own, at); !slices.Equal(services, []string{"tenantry-plugin-microsoft365", "tenantry"}) {
			t.Errorf("%s leads to the caller over %v", call.path, services)
		}
	}
}

// upwards are the services between a span and the caller's, each once for a
// row of spans, or nil when the chain is broken.
func upwards(own map[string]exported, at exported) (services []string) {
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

// correlated checks that log lines carry the ids of their request.
func correlated(t *testing.T, logs string) {
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
