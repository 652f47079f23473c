// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/ports"
)

var rateHeaders = []string{"X-RateLimit-Bucket", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}

// limited returns a test environment with the rate limits enabled.
func limited(t *testing.T) (*world, *api) {
	t.Helper()
	w := newWorld(t)
	w.options.Limits = httpapi.Limits{Counters: counters(t)}
	return w, serve(t, w.handler(t))
}

// counts checks the rate limit headers of an answer.
func counts(t *testing.T, got reply, bucket string, limit, remaining int) {
	t.Helper()
	h := got.header
	if h.Get("X-RateLimit-Bucket") != bucket || h.Get("X-RateLimit-Limit") != strconv.Itoa(limit) || h.Get("X-RateLimit-Remaining") != strconv.Itoa(remaining) {
		t.Errorf("%d %s: bucket %q, limit %q, remaining %q; want %s, %d, %d", got.status, got.code(),
			h.Get("X-RateLimit-Bucket"), h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"), bucket, limit, remaining)
	}
	reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	if in := time.Until(time.Unix(reset, 0)); err != nil || in < -hang || in > 10*time.Minute+2*time.Second {
		t.Errorf("X-RateLimit-Reset is %s from now (%v)", in, err)
	}
}

// uncounted checks that an answer has no rate limit headers.
func uncounted(t *testing.T, got reply) {
	t.Helper()
	for _, name := range rateHeaders {
		if value, ok := got.header[http.CanonicalHeaderKey(name)]; ok {
			t.Errorf("%d %s has %s %q", got.status, got.code(), name, value)
		}
	}
}

// TestEachOperationCounts checks that each operation counts in its bucket, whatever its answer is.
// A request that is refused before limitRate does not count.
func TestEachOperationCounts(t *testing.T) {
	w, a := limited(t)
	key := w.a.key
	counts(t, a.expect(call{method: "GET", path: "/v1/tenants", key: key}, 200, ""), "read", 600, 599)
	counts(t, a.expect(call{method: "GET", path: "/v1/tenants/x", key: key}, 404, "tenant_not_found"), "read", 600, 598)
	counts(t, a.expect(call{method: "HEAD", path: "/v1/tenants", key: key}, 200, ""), "read", 600, 597)
	counts(t, a.expect(call{method: "GET", path: domainsOfA + "/example.com/dkim-status", key: key}, 404, "domain_not_found"), "expensive", 30, 29)
	counts(t, a.expect(call{method: "POST", path: domainsOfA, key: key, body: `{"domain":"example.com"}`}, 200, ""), "provider_heavy", 240, 239)
	counts(t, a.expect(call{method: "POST", path: domainsOfA, key: key, body: `{"domain":`}, 400, "invalid_request"), "provider_heavy", 240, 238)
	counts(t, a.expect(call{method: "PATCH", path: "/v1/tenants/x/mailboxes/y", key: key, body: `{"display_name":"Ann"}`}, 404, "tenant_not_found"), "read", 600, 596)
	counts(t, a.expect(call{method: "DELETE", path: "/v1/tenants/x", key: key}, 404, "tenant_not_found"), "read", 600, 595)
	counts(t, a.expect(call{method: "GET", path: "/v1/tenants", key: w.b.key}, 200, ""), "read", 600, 599)

	uncounted(t, a.expect(call{method: "GET", path: "/v1/tenants"}, 401, "invalid_auth_header"))
	uncounted(t, a.expect(call{method: "GET", path: "/v1/nothing", key: key}, 404, "route_not_found"))
	uncounted(t, a.expect(call{method: "PUT", path: "/v1/tenants", key: key}, 405, "method_not_allowed"))
	uncounted(t, a.expect(call{method: "GET", path: "/v1/tenants", key: key, headers: map[string]string{"Accept": "text/html"}}, 406, "not_acceptable"))
	uncounted(t, a.expect(call{method: "POST", path: domainsOfA, key: key, headers: map[string]string{"Idempotency-Key": ""}}, 400, "idempotency_key_required"))
	uncounted(t, a.expect(call{method: "POST", path: domainsOfA, key: key, body: strings.Repeat(" ", 65<<10)}, 413, "request_too_large"))
	uncounted(t, a.do(call{method: "GET", path: "/openapi.json"}))
	w.lapse(t, w.a)
	uncounted(t, a.expect(call{method: "GET", path: "/v1/tenants", key: key}, 402, "no_api_plan"))
}

// TestAFullBucket checks that the request beyond the limit is told when to retry. Other buckets and
// accounts are not affected.
func TestAFullBucket(t *testing.T) {
	w, a := limited(t)
	status := call{method: "GET", path: domainsOfA + "/example.com/dkim-status", key: w.a.key}
	for i := range 30 {
		counts(t, a.expect(status, 404, "domain_not_found"), "expensive", 30, 29-i)
	}
	full := a.expect(status, 429, "rate_limit_exceeded")
	counts(t, full, "expensive", 30, 0)
	if wait, err := strconv.Atoi(full.header.Get("Retry-After")); err != nil || wait < 1 || wait > 60 {
		t.Errorf("Retry-After %q", full.header.Get("Retry-After"))
	}
	a.expect(call{method: "GET", path: "/v1/tenants", key: w.a.key}, 200, "")
	status.key = w.b.key
	counts(t, a.expect(status, 404, "tenant_not_found"), "expensive", 30, 29)
}

// TestReplaysWhileTheBucketIsFull checks that a replay counts as one read, whatever its operation
// is.
func TestReplaysWhileTheBucketIsFull(t *testing.T) {
	w, a := limited(t)
	first := a.expect(addOnce(w, "k"), 200, "")
	for i := range 239 {
		a.expect(call{method: "POST", path: domainsOfA, key: w.a.key, body: fmt.Sprint(i)}, 400, "invalid_request")
	}
	counts(t, a.expect(addOnce(w, "another"), 429, "rate_limit_exceeded"), "provider_heavy", 240, 0)
	again := a.expect(addOnce(w, "k"), 200, "")
	replays(t, first, again)
	counts(t, again, "read", 600, 599)
	counts(t, a.expect(once(w, "k", "POST", domainsOfA, `{"domain":"example.org"}`), 409, "idempotency_key_conflict"), "read", 600, 598)
	if _, known, err := w.store.Remembered(t.Context(), w.place("another")); known || err != nil {
		t.Errorf("a refused write left its key taken (%v)", err)
	}
}

// blind is a key store whose first reads do not see the claims of other requests.
type blind struct {
	ports.Idempotency
	looks int
}

func (b *blind) Remembered(ctx context.Context, at idempotency.Place) (idempotency.Record, bool, error) {
	if b.looks--; b.looks >= 0 {
		return idempotency.Record{}, false, nil
	}
	return b.Idempotency.Remembered(ctx, at)
}

// TestALostRaceIsGivenBack checks that a request that lost the race for its key is refunded, and
// that its answer counts as a read.
func TestALostRaceIsGivenBack(t *testing.T) {
	w := newWorld(t)
	keys := &blind{Idempotency: w.store, looks: 2}
	w.options.Idempotency.Keys, w.options.Limits = keys, httpapi.Limits{Counters: counters(t)}
	a := serve(t, w.handler(t))
	first := a.expect(addOnce(w, "k"), 200, "")
	counts(t, first, "provider_heavy", 240, 239)
	second := a.expect(addOnce(w, "k"), 200, "") // looks before the first has claimed
	replays(t, first, second)
	counts(t, second, "read", 600, 599)
	counts(t, a.expect(call{method: "POST", path: domainsOfA, key: w.a.key, body: `1`}, 400, "invalid_request"), "provider_heavy", 240, 238)
}

// entries reports each provider slot that a request acquires.
type entries struct {
	ports.Limiter
	taken chan struct{}
}

func (e entries) Enter(ctx context.Context, name string, places int) (func(), bool) {
	leave, ok := e.Limiter.Enter(ctx, name, places)
	if ok {
		e.taken <- struct{}{}
	}
	return leave, ok
}

// TestFourAtOnce checks that the fifth concurrent provider operation is refused and not counted. A
// rename needs a slot; a new send limit alone does not.
func TestFourAtOnce(t *testing.T) {
	w := newWorld(t)
	inside := entries{counters(t), make(chan struct{}, 100)}
	w.options.Limits = httpapi.Limits{Counters: inside}
	a := serve(t, w.handler(t))
	_, box := w.holding(t, w.a)
	mailbox := "/v1/tenants/" + string(tenantOfA) + "/mailboxes/" + box.ID
	gate := w.platform.Hold("AddDomain")
	release := sync.OnceFunc(gate.Release)
	t.Cleanup(release)
	answers := make(chan reply, 4)
	for i := range 4 {
		go func() {
			answers <- a.do(call{method: "POST", path: domainsOfA, key: w.a.key, body: fmt.Sprintf(`{"domain":"d%d.example"}`, i)})
		}()
		receive(t, inside.taken, "a request did not get a slot")
	}
	got := a.expect(call{method: "POST", path: domainsOfA, key: w.a.key, body: `1`}, 429, "rate_limit_exceeded")
	counts(t, got, "provider_concurrency", 4, 0)
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
	}
	counts(t, a.expect(call{method: "PATCH", path: mailbox, key: w.a.key, body: `{"display_name":"Ann"}`}, 429, "rate_limit_exceeded"), "provider_concurrency", 4, 0)
	a.expect(call{method: "PATCH", path: mailbox, key: w.a.key, body: `{"daily_send_limit":5}`}, 200, "")
	release()
	for range 4 {
		if got := receive(t, answers, "a request was not answered"); got.status != 200 {
			t.Errorf("%d %s", got.status, got.raw)
		}
	}
	a.expect(call{method: "PATCH", path: mailbox, key: w.a.key, body: `{"display_name":"Ann"}`}, 409, "exchange_bootstrap_not_ready")
}

// firstRead closes began at the first read of a request body.
type firstRead struct {
	io.ReadCloser
	began func()
}

func (f firstRead) Read(p []byte) (int, error) {
	f.began()
	return f.ReadCloser.Read(p)
}

// TestInFlight checks that a request beyond InFlight is refused at once. A request whose body is
// still arriving does not count.
func TestInFlight(t *testing.T) {
	w := newWorld(t)
	w.options.Limits = httpapi.Limits{Counters: counters(t), InFlight: 1}
	h, reading := w.handler(t), make(chan struct{})
	began := sync.OnceFunc(func() { close(reading) })
	a := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			r.Body = firstRead{r.Body, began}
		}
		h.ServeHTTP(rw, r)
	}))
	sending, sent := io.Pipe()
	slow := call{method: "POST", path: domainsOfA, key: w.a.key, body: " "}.request(t, a.server.URL)
	slow.Body, slow.ContentLength = sending, -1
	finished := make(chan reply, 1)
	go func() { finished <- a.send(slow) }()
	if _, err := sent.Write([]byte(`{"domain":`)); err != nil {
		t.Fatal(err)
	}
	receive(t, reading, "the server did not begin to read the slow body")
	list := call{method: "GET", path: "/v1/tenants", key: w.a.key}
	a.expect(list, 200, "")

	gate := w.platform.Hold("AddDomain")
	release := sync.OnceFunc(gate.Release)
	t.Cleanup(release)
	if _, err := sent.Write([]byte(`"example.com"}`)); err != nil {
		t.Fatal(err)
	}
	_ = sent.Close()
	receive(t, gate.Arrived(), "the slow request did not reach the platform")
	got := a.expect(list, 503, "service_unavailable")
	uncounted(t, got)
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
	}
	release()
	if got := receive(t, finished, "the slow request was not answered"); got.status != 200 {
		t.Errorf("the slow request got %d %s", got.status, got.raw)
	}
	a.expect(list, 200, "")
}

// TestLimitsOff checks that nothing is refused and that the headers are still set.
func TestLimitsOff(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	status := call{method: "GET", path: domainsOfA + "/example.com/dkim-status", key: w.a.key}
	for i := range 33 {
		counts(t, a.expect(status, 404, "domain_not_found"), "expensive", 30, max(0, 29-i))
	}
}
