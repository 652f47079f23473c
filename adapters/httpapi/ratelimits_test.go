// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/ports"
)

var rateHeaders = []string{"X-RateLimit-Bucket", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}

// newRateLimitedEnv returns an environment with the rate limits enabled, and a client. The clock of
// the Idempotency-Keys is two hours ahead, as in a sandbox whose clock was moved. The clock of the
// rate limits must not follow it.
func newRateLimitedEnv(t *testing.T) (*testEnv, *apiClient) {
	t.Helper()
	env := newTestEnv(t)
	env.options.Guard.Limits = guard.Limits{Counters: newCounters(t)}
	env.options.Guard.Idempotency.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	return env, serve(t, env.handler(t))
}

func checkRateHeaders(t *testing.T, got reply, bucket string, limit, remaining int) {
	t.Helper()
	header := got.header
	if header.Get("X-RateLimit-Bucket") != bucket || header.Get("X-RateLimit-Limit") != strconv.Itoa(limit) || header.Get("X-RateLimit-Remaining") != strconv.Itoa(remaining) {
		t.Errorf("the answer %d %s has the bucket %q, the limit %q and %q remaining requests, want %s, %d and %d", got.status, got.code(),
			header.Get("X-RateLimit-Bucket"), header.Get("X-RateLimit-Limit"), header.Get("X-RateLimit-Remaining"), bucket, limit, remaining)
	}
	reset, err := strconv.ParseInt(header.Get("X-RateLimit-Reset"), 10, 64)
	if untilReset := time.Until(time.Unix(reset, 0)); err != nil || untilReset < -testTimeout || untilReset > 10*time.Minute+2*time.Second {
		t.Errorf("X-RateLimit-Reset is in %s, want at most about 10 minutes (%v)", untilReset, err)
	}
}

func checkNoRateHeaders(t *testing.T, got reply) {
	t.Helper()
	for _, name := range rateHeaders {
		if value, ok := got.header[http.CanonicalHeaderKey(name)]; ok {
			t.Errorf("the answer %d %s has the header %s: %q, want none", got.status, got.code(), name, value)
		}
	}
}

// TestRequestsCountInTheBucketOfTheirOperation checks that a request counts in the bucket of its
// operation, even if it fails. A request that is refused before the limit is checked does not
// count.
func TestRequestsCountInTheBucketOfTheirOperation(t *testing.T) {
	env, client := newRateLimitedEnv(t)
	key := env.accountA.key
	checkRateHeaders(t, client.expect(call{method: "GET", path: "/v1/tenants", key: key}, 200, ""), "read", 600, 599)
	checkRateHeaders(t, client.expect(call{method: "GET", path: "/v1/tenants/x", key: key}, 404, "tenant_not_found"), "read", 600, 598)
	checkRateHeaders(t, client.expect(call{method: "HEAD", path: "/v1/tenants", key: key}, 200, ""), "read", 600, 597)
	checkRateHeaders(t, client.expect(call{method: "GET", path: domainsOfA + "/example.com/dkim-status", key: key}, 404, "domain_not_found"), "expensive", 30, 29)
	checkRateHeaders(t, client.expect(call{method: "POST", path: domainsOfA, key: key, body: `{"domain":"example.com"}`}, 200, ""), "provider_heavy", 240, 239)
	checkRateHeaders(t, client.expect(call{method: "POST", path: domainsOfA, key: key, body: `{"domain":`}, 400, "invalid_request"), "provider_heavy", 240, 238)
	checkRateHeaders(t, client.expect(call{method: "PATCH", path: "/v1/tenants/x/mailboxes/y", key: key, body: `{"display_name":"Ann"}`}, 404, "tenant_not_found"), "read", 600, 596)
	checkRateHeaders(t, client.expect(call{method: "DELETE", path: "/v1/tenants/x", key: key}, 404, "tenant_not_found"), "read", 600, 595)
	checkRateHeaders(t, client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountB.key}, 200, ""), "read", 600, 599)

	checkNoRateHeaders(t, client.expect(call{method: "GET", path: "/v1/tenants"}, 401, "invalid_auth_header"))
	checkNoRateHeaders(t, client.expect(call{method: "GET", path: "/v1/nothing", key: key}, 404, "route_not_found"))
	checkNoRateHeaders(t, client.expect(call{method: "PUT", path: "/v1/tenants", key: key}, 405, "method_not_allowed"))
	checkNoRateHeaders(t, client.expect(call{method: "GET", path: "/v1/tenants", key: key, headers: map[string]string{"Accept": "text/html"}}, 406, "not_acceptable"))
	checkNoRateHeaders(t, client.expect(call{method: "POST", path: domainsOfA, key: key, headers: map[string]string{"Idempotency-Key": ""}}, 400, "idempotency_key_required"))
	checkNoRateHeaders(t, client.expect(call{method: "POST", path: domainsOfA, key: key, body: strings.Repeat(" ", 65<<10)}, 413, "request_too_large"))
	checkNoRateHeaders(t, client.do(call{method: "GET", path: "/openapi.json"}))
	env.deactivate(t, env.accountA)
	checkNoRateHeaders(t, client.expect(call{method: "GET", path: "/v1/tenants", key: key}, 402, "no_api_plan"))
}

// TestFullBucketRefusesRequests checks that the request beyond the limit is refused with a
// Retry-After. Other buckets and accounts are not affected.
func TestFullBucketRefusesRequests(t *testing.T) {
	env, client := newRateLimitedEnv(t)
	dkimCall := call{method: "GET", path: domainsOfA + "/example.com/dkim-status", key: env.accountA.key}
	for i := range 30 {
		checkRateHeaders(t, client.expect(dkimCall, 404, "domain_not_found"), "expensive", 30, 29-i)
	}
	refused := client.expect(dkimCall, 429, "rate_limit_exceeded")
	checkRateHeaders(t, refused, "expensive", 30, 0)
	if retryAfter, err := strconv.Atoi(refused.header.Get("Retry-After")); err != nil || retryAfter < 1 || retryAfter > 600 {
		t.Errorf("Retry-After is %q, want 1 to 600", refused.header.Get("Retry-After"))
	}
	client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountA.key}, 200, "")
	dkimCall.key = env.accountB.key
	checkRateHeaders(t, client.expect(dkimCall, 404, "tenant_not_found"), "expensive", 30, 29)
}

// TestReplaysCountAsReads checks that the replay of a write counts as one read. The replay is sent
// even if the bucket of the write is full.
func TestReplaysCountAsReads(t *testing.T) {
	env, client := newRateLimitedEnv(t)
	original := client.expect(addDomainCall(env, "k"), 200, "")
	for i := range 239 { // the requests that are left in the bucket
		client.expect(call{method: "POST", path: domainsOfA, key: env.accountA.key, body: fmt.Sprint(i)}, 400, "invalid_request")
	}
	checkRateHeaders(t, client.expect(addDomainCall(env, "another"), 429, "rate_limit_exceeded"), "provider_heavy", 240, 0)
	replay := client.expect(addDomainCall(env, "k"), 200, "")
	checkReplay(t, original, replay)
	checkRateHeaders(t, replay, "read", 600, 599)
	checkRateHeaders(t, client.expect(keyedCall(env, "k", "POST", domainsOfA, `{"domain":"example.org"}`), 409, "idempotency_key_conflict"), "read", 600, 598)
	if _, exists, err := env.store.KeyRecord(t.Context(), env.storedKeyID("another")); exists || err != nil {
		t.Errorf("the Idempotency-Key of a refused write has a record, want none (%v)", err)
	}
}

// staleKeys is a store of Idempotency-Keys in which the next staleReads reads find no key, as if a
// concurrent claim was not visible yet. If readErr is set, later reads fail with it.
type staleKeys struct {
	ports.Idempotency
	staleReads int
	readErr    error
}

func (k *staleKeys) KeyRecord(ctx context.Context, key idempotency.KeyID) (idempotency.Record, bool, error) {
	if k.staleReads--; k.staleReads >= 0 {
		return idempotency.Record{}, false, nil
	}
	if k.readErr != nil {
		return idempotency.Record{}, false, k.readErr
	}
	return k.Idempotency.KeyRecord(ctx, key)
}

// TestLostKeyRaceIsRefunded checks a request whose Idempotency-Key a concurrent request claimed
// first. The request is refunded, and its answer counts as a read. If the store fails before it
// returns that answer, the request is not refunded.
func TestLostKeyRaceIsRefunded(t *testing.T) {
	env := newTestEnv(t)
	keys := &staleKeys{Idempotency: env.store, staleReads: 2}
	env.options.Guard.Idempotency.Keys, env.options.Guard.Limits = keys, guard.Limits{Counters: newCounters(t)}
	client := serve(t, env.handler(t))
	original := client.expect(addDomainCall(env, "k"), 200, "")
	checkRateHeaders(t, original, "provider_heavy", 240, 239)
	replay := client.expect(addDomainCall(env, "k"), 200, "") // the first read of this request does not see the claim
	checkReplay(t, original, replay)
	checkRateHeaders(t, replay, "read", 600, 599)
	checkRateHeaders(t, client.expect(call{method: "POST", path: domainsOfA, key: env.accountA.key, body: `1`}, 400, "invalid_request"), "provider_heavy", 240, 238)
	keys.staleReads, keys.readErr = 1, fault.ServiceUnavailable
	checkRateHeaders(t, client.expect(addDomainCall(env, "k"), 503, "service_unavailable"), "provider_heavy", 240, 237)
	keys.readErr = nil
	checkRateHeaders(t, client.expect(call{method: "POST", path: domainsOfA, key: env.accountA.key, body: `1`}, 400, "invalid_request"), "provider_heavy", 240, 236)
}

// claimLosingKeys is a store of Idempotency-Keys in which the next losses claims fail, as if a
// concurrent request had claimed the key and then released it.
type claimLosingKeys struct {
	ports.Idempotency
	losses int
}

func (k *claimLosingKeys) Claim(ctx context.Context, c ports.Claim) (string, bool, error) {
	if k.losses--; k.losses >= 0 {
		return "", false, nil
	}
	return k.Idempotency.Claim(ctx, c)
}

// TestRequestThatWinsItsKeyLaterCounts checks that a request counts if it runs, even if its first
// two claims of the Idempotency-Key failed. If all three claims fail, the request is refunded.
func TestRequestThatWinsItsKeyLaterCounts(t *testing.T) {
	env := newTestEnv(t)
	keys := &claimLosingKeys{Idempotency: env.store, losses: 2}
	env.options.Guard.Idempotency.Keys, env.options.Guard.Limits = keys, guard.Limits{Counters: newCounters(t)}
	client := serve(t, env.handler(t))
	checkRateHeaders(t, client.expect(addDomainCall(env, "k"), 200, ""), "provider_heavy", 240, 239)
	keys.losses = 3
	client.expect(addDomainCall(env, "lost"), 409, "idempotency_request_in_progress")
	checkRateHeaders(t, client.expect(call{method: "POST", path: domainsOfA, key: env.accountA.key, body: `1`}, 400, "invalid_request"), "provider_heavy", 240, 238)
}

// slotRecorder is a limiter that reports each provider slot that a request acquires.
type slotRecorder struct {
	ports.Limiter
	acquired chan struct{}
}

func (r slotRecorder) Enter(ctx context.Context, name string, slots int) (func(), bool) {
	leave, ok := r.Limiter.Enter(ctx, name, slots)
	if ok {
		r.acquired <- struct{}{}
	}
	return leave, ok
}

// TestFifthConcurrentProviderOperationIsRefused checks that the fifth concurrent provider operation
// of an account is refused. The rename of a mailbox needs a slot. A new send limit for the mailbox
// needs no slot.
func TestFifthConcurrentProviderOperationIsRefused(t *testing.T) {
	env := newTestEnv(t)
	recorder := slotRecorder{newCounters(t), make(chan struct{}, 100)}
	env.options.Guard.Limits = guard.Limits{Counters: recorder}
	client := serve(t, env.handler(t))
	_, addedMailbox := env.addDomainAndMailbox(t, env.accountA)
	mailboxPath := "/v1/tenants/" + string(tenantOfA) + "/mailboxes/" + addedMailbox.ID
	gate := env.platform.Hold("AddDomain")
	release := sync.OnceFunc(gate.Release)
	t.Cleanup(release)
	answers := make(chan reply, 4)
	for i := range 4 {
		go func() {
			answers <- client.do(call{method: "POST", path: domainsOfA, key: env.accountA.key, body: fmt.Sprintf(`{"domain":"d%d.example"}`, i)})
		}()
		receive(t, recorder.acquired, "a request did not get a slot")
	}
	got := client.expect(call{method: "POST", path: domainsOfA, key: env.accountA.key, body: `1`}, 429, "rate_limit_exceeded")
	checkRateHeaders(t, got, "provider_concurrency", 4, 0)
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q, want 1", got.header.Get("Retry-After"))
	}
	checkRateHeaders(t, client.expect(call{method: "PATCH", path: mailboxPath, key: env.accountA.key, body: `{"display_name":"Ann"}`}, 429, "rate_limit_exceeded"), "provider_concurrency", 4, 0)
	client.expect(call{method: "PATCH", path: mailboxPath, key: env.accountA.key, body: `{"daily_send_limit":5}`}, 200, "")
	release()
	for range 4 {
		if got := receive(t, answers, "a request was not answered"); got.status != 200 {
			t.Errorf("a provider operation got %d %s, want 200", got.status, got.raw)
		}
	}
	client.expect(call{method: "PATCH", path: mailboxPath, key: env.accountA.key, body: `{"display_name":"Ann"}`}, 409, "exchange_bootstrap_not_ready")
}

// readNotifier is a request body that calls began at each read.
type readNotifier struct {
	io.ReadCloser
	began func()
}

func (f readNotifier) Read(p []byte) (int, error) {
	f.began()
	return f.ReadCloser.Read(p)
}

// TestRequestsBeyondInFlightAreRefused checks that a request beyond MaxInFlight is refused at once.
// A request whose body is still arriving does not count. The log has one warning about the refused
// requests and no error.
func TestRequestsBeyondInFlightAreRefused(t *testing.T) {
	env := newTestEnv(t)
	var logLines bytes.Buffer
	env.options.Guard.Log = telemetry.NewLogger(&logLines, slog.LevelInfo)
	env.options.Guard.Limits = guard.Limits{Counters: newCounters(t), MaxInFlight: 1}
	handler, reading := env.handler(t), make(chan struct{})
	began := sync.OnceFunc(func() { close(reading) })
	client := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			r.Body = readNotifier{r.Body, began}
		}
		handler.ServeHTTP(rw, r)
	}))
	bodyReader, bodyWriter := io.Pipe()
	slowRequest := call{method: "POST", path: domainsOfA, key: env.accountA.key, body: " "}.request(t, client.server.URL)
	slowRequest.Body, slowRequest.ContentLength = bodyReader, -1
	slowReply := make(chan reply, 1)
	go func() { slowReply <- client.send(slowRequest) }()
	if _, err := bodyWriter.Write([]byte(`{"domain":`)); err != nil {
		t.Fatal(err)
	}
	receive(t, reading, "the server did not begin to read the slow body")
	listTenants := call{method: "GET", path: "/v1/tenants", key: env.accountA.key}
	client.expect(listTenants, 200, "")

	gate := env.platform.Hold("AddDomain")
	release := sync.OnceFunc(gate.Release)
	t.Cleanup(release)
	if _, err := bodyWriter.Write([]byte(`"example.com"}`)); err != nil {
		t.Fatal(err)
	}
	_ = bodyWriter.Close()
	receive(t, gate.Arrived(), "the slow request did not reach the platform")
	client.expect(listTenants, 503, "service_unavailable")
	got := client.expect(listTenants, 503, "service_unavailable")
	checkNoRateHeaders(t, got)
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q, want 1", got.header.Get("Retry-After"))
	}
	release()
	if got := receive(t, slowReply, "the slow request was not answered"); got.status != 200 {
		t.Errorf("the slow request got %d %s, want 200", got.status, got.raw)
	}
	client.expect(listTenants, 200, "")
	client.server.Close()
	if log := logLines.String(); strings.Count(log, `"level":"WARN"`) != 1 || strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("the log is\n%s\nwant one warning and no error", log)
	}
}

// TestDisabledLimitsRefuseNothing checks that requests beyond a limit are not refused if the limits
// are off. Their answers still have the rate limit headers.
func TestDisabledLimitsRefuseNothing(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	dkimCall := call{method: "GET", path: domainsOfA + "/example.com/dkim-status", key: env.accountA.key}
	for i := range 33 { // three more than the limit
		checkRateHeaders(t, client.expect(dkimCall, 404, "domain_not_found"), "expensive", 30, max(0, 29-i))
	}
}
