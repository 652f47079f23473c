// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

const verifyPathOfA = domainsOfA + "/example.com/verify"

// keyedCall returns a call of account A. key is its Idempotency-Key.
func keyedCall(env *testEnv, key, method, path, body string) call {
	return call{method: method, path: path, body: body, key: env.accountA.key, headers: map[string]string{"Idempotency-Key": key}}
}

// addDomainCall returns a call that adds example.com to the tenant of account A.
func addDomainCall(env *testEnv, key string) call {
	return keyedCall(env, key, "POST", domainsOfA, `{"domain":"example.com"}`)
}

// storedKeyID returns the identity of an Idempotency-Key of account A in the store.
func (env *testEnv) storedKeyID(key string) idempotency.KeyID {
	return idempotency.KeyID{Account: env.accountA.account.ID, Key: sha256.Sum256([]byte(key))}
}

// checkReplay checks that replay is a replay of the answer original.
func checkReplay(t *testing.T, original, replay reply) {
	t.Helper()
	if replay.status != original.status || replay.raw != original.raw || replay.header.Get("Content-Type") != original.header.Get("Content-Type") {
		t.Errorf("%d %s\nis replayed with a different status, body or type: %d %s", original.status, original.raw, replay.status, replay.raw)
	}
	if replay.header.Get("Idempotency-Replayed") != "true" || original.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("Idempotency-Replayed is %q, then %q, want \"\" and true", original.header.Get("Idempotency-Replayed"), replay.header.Get("Idempotency-Replayed"))
	}
	if replay.header.Get("X-Request-ID") == original.header.Get("X-Request-ID") {
		t.Error("the replay has the request id of the original request, want a new one")
	}
}

func TestWriteIsReplayed(t *testing.T) {
	env := newTestEnv(t)
	now := time.Now()
	env.options.Guard.Idempotency.Now = func() time.Time { return now }
	client := serve(t, env.handler(t))
	original := client.expect(addDomainCall(env, "k"), 200, "")
	checkReplay(t, original, client.expect(addDomainCall(env, "k"), 200, ""))

	requestToOtherHost := addDomainCall(env, "k").request(t, client.server.URL)
	requestToOtherHost.Host = "other.example"
	checkReplay(t, original, client.send(requestToOtherHost))
	afterRestart := serve(t, env.handler(t))
	now = now.Add(23 * time.Hour)
	checkReplay(t, original, afterRestart.expect(addDomainCall(env, "k"), 200, ""))
	if n := env.platform.Calls("AddDomain"); n != 1 {
		t.Fatalf("the platform was called %d times, want 1", n)
	}
	now = now.Add(2 * time.Hour)
	if afterExpiry := client.expect(addDomainCall(env, "k"), 200, ""); afterExpiry.body["status"] != "exists" || afterExpiry.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("after 25 hours got %s, want a new answer with the status exists", afterExpiry.raw)
	}
}

func TestDeletionIsReplayed(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	request := keyedCall(env, "k", "DELETE", "/v1/tenants/"+string(env.accountA.tenant), "")
	original := client.expect(request, 200, "")
	checkReplay(t, original, client.expect(request, 200, ""))
	request.headers["Idempotency-Key"] = "new"
	client.expect(request, 404, "tenant_not_found")
}

func TestIdempotencyKeyIdentifiesOneRequest(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	original := client.expect(addDomainCall(env, "k"), 200, "")
	for name, conflicting := range map[string]call{
		"method and path":     keyedCall(env, "k", "DELETE", "/v1/tenants/"+string(env.accountA.tenant), `{"domain":"example.com"}`),
		"path":                keyedCall(env, "k", "POST", verifyPathOfA, ""),
		"query":               keyedCall(env, "k", "POST", domainsOfA+"?x=1", `{"domain":"example.com"}`),
		"body":                keyedCall(env, "k", "POST", domainsOfA, `{"domain":"example.org"}`),
		"white space":         keyedCall(env, "k", "POST", domainsOfA, `{"domain": "example.com"}`),
		"invalid JSON":        keyedCall(env, "k", "POST", domainsOfA, `{`),
		"tenant of account B": keyedCall(env, "k", "POST", strings.Replace(domainsOfA, string(tenantOfA), string(tenantOfB), 1), `{"domain":"example.com"}`),
	} {
		t.Run(name, func(t *testing.T) {
			client.forTest(t).expect(conflicting, 409, "idempotency_key_conflict")
		})
	}
	withUpperCaseTenant := keyedCall(env, "k", "POST", strings.Replace(domainsOfA, string(tenantOfA), strings.ToUpper(string(tenantOfA)), 1), `{"domain":"example.com"}`)
	checkReplay(t, original, client.expect(withUpperCaseTenant, 200, ""))
	client.expect(keyedCall(env, `"k"`, "POST", domainsOfA, `{"domain":"example.org"}`), 200, "") // a key with quotes is a different key
	callOfB := addDomainCall(env, "k")
	callOfB.key, callOfB.path = env.accountB.key, strings.Replace(domainsOfA, string(tenantOfA), string(tenantOfB), 1)
	if got := client.do(callOfB); got.header.Get("Idempotency-Replayed") != "" || got.code() == "idempotency_key_conflict" {
		t.Errorf("account B gets %d %s, want its own answer", got.status, got.raw)
	}
}

// TestEarlyRefusalReleasesTheKey checks that a refusal before any effect does not use up the
// Idempotency-Key.
func TestEarlyRefusalReleasesTheKey(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	mailboxesPath := "/v1/tenants/" + string(env.accountA.tenant) + "/mailboxes"
	for _, refused := range []struct {
		call   call
		status int
		code   string
	}{
		{keyedCall(env, "k", "POST", domainsOfA, `{`), 400, "invalid_request"},
		{keyedCall(env, "k", "POST", domainsOfA, `{"domain":"com"}`), 400, "invalid_domain"},
		{keyedCall(env, "k", "POST", strings.Replace(domainsOfA, string(tenantOfA), string(tenantOfB), 1), `{"domain":"example.com"}`), 404, "tenant_not_found"},
		{keyedCall(env, "k", "POST", mailboxesPath, validBodies["POST /v1/tenants/{tenant_id}/mailboxes"]), 404, "domain_not_found"},
	} {
		client.expect(refused.call, refused.status, refused.code)
		if _, found, err := env.store.KeyRecord(t.Context(), env.storedKeyID("k")); err != nil || found {
			t.Errorf("after %s the key has a record, want none (%v)", refused.code, err)
		}
	}
	client.expect(addDomainCall(env, "k"), 200, "")
}

// TestRefusalAfterAProviderCallIsReplayed checks that a refusal which depends on the answer of a
// provider or the DNS is stored and replayed.
func TestRefusalAfterAProviderCallIsReplayed(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	client.expect(addDomainCall(env, "add"), 200, "")
	request := keyedCall(env, "k", "POST", verifyPathOfA, "")
	original := client.expect(request, 400, "verification_failed")
	env.publishRecords(t, env.accountA, "example.com")
	checkReplay(t, original, client.expect(request, 400, "verification_failed"))
	client.expect(keyedCall(env, "k2", "POST", verifyPathOfA, ""), 200, "")
}

// TestRefusalOfTheStoreIsNotReplayed checks that a refusal is not replayed if the stored data
// caused it, even if the platform was called before. While the platform creates the link of a
// session, the test marks the session as failed in the store.
func TestRefusalOfTheStoreIsNotReplayed(t *testing.T) {
	env := newIntegrationEnv(t)
	begin := keyedCall(env.base, "k", "POST", env.addIntegration("instantly")+"/mailboxes/"+env.mailboxID+"/oauth/microsoft/init", "")
	signInGate := env.platform.Hold("StartSignIn")
	answered := make(chan reply, 1)
	go func() { answered <- env.client.do(begin) }()
	receive(t, signInGate.Arrived(), "the request did not reach the platform")
	sessions, err := env.base.store.PendingSessions(t.Context(), time.Now().Add(time.Hour), 10)
	if err != nil || len(sessions) != 1 {
		t.Fatalf("the pending sessions are %+v, want one (%v)", sessions, err)
	}
	failedSession := sessions[0].Session.WithFailure("test")
	if saved, err := env.base.store.SaveSession(t.Context(), sessions[0].Account, failedSession, nil, nil); err != nil || !saved {
		t.Fatalf("saved is %v, want true (%v)", saved, err)
	}
	signInGate.Release()
	if got := receive(t, answered, "the request was not answered"); got.status != 409 || got.code() != "oauth_session_pending" {
		t.Fatalf("got %d %s, want 409 oauth_session_pending", got.status, got.raw)
	}
	repeated := env.client.expect(begin, 200, "")
	if repeated.header.Get("Idempotency-Replayed") != "" || repeated.body["session_id"] == failedSession.ID {
		t.Errorf("the repeated request got %s, want a new session", repeated.raw)
	}
}

// TestProviderFailuresAreNotReplayed checks that the same request runs again after a failure of the
// provider. A different request with the same Idempotency-Key is refused.
func TestProviderFailuresAreNotReplayed(t *testing.T) {
	for name, failure := range map[string]fake.Fault{
		"unknown outcome": {Kind: outcome.Unknown},
		"down":            {Kind: outcome.Down},
		"broken":          {Kind: outcome.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTestEnv(t)
			client := serve(t, env.handler(t))
			endFailure := env.platform.Fail(failure)
			if got := client.do(addDomainCall(env, "k")); got.status < 500 {
				t.Fatalf("got %d %s, want a 5xx", got.status, got.raw)
			}
			endFailure()
			client.expect(keyedCall(env, "k", "POST", domainsOfA, `{"domain":"example.org"}`), 409, "idempotency_key_conflict")
			original := client.expect(addDomainCall(env, "k"), 200, "")
			checkReplay(t, original, client.expect(addDomainCall(env, "k"), 200, ""))
			if n := env.platform.Effects("AddDomain"); n != 1 {
				t.Errorf("the domain was added %d times, want 1", n)
			}
		})
	}
}

func TestPanicIsNotReplayed(t *testing.T) {
	env := newTestEnv(t)
	workingClock := env.options.Domains.Now
	panickingService := *env.options.Domains
	panickingService.Now = func() time.Time { panic("clock") }
	env.options.Domains = &panickingService
	client := serve(t, env.handler(t))
	client.expect(addDomainCall(env, "k"), 500, "internal_error")
	panickingService.Now = workingClock
	client.expect(addDomainCall(env, "k"), 200, "")
}

// TestFirstRequestContinuesWithoutItsCaller checks that a request runs to its end after its caller
// disconnects. A repetition of the request is refused until the first request ends, and then gets
// the replay of its answer.
func TestFirstRequestContinuesWithoutItsCaller(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	gate := env.platform.Hold("AddDomain")
	ctx, disconnect := context.WithCancel(t.Context())
	requestErr := make(chan error)
	go func() {
		answer, err := noRedirects.Do(addDomainCall(env, "k").request(t, client.server.URL).WithContext(ctx))
		if err == nil {
			_ = answer.Body.Close()
		}
		requestErr <- err
	}()
	receive(t, gate.Arrived(), "the first request did not reach the platform")
	if got := client.expect(addDomainCall(env, "k"), 409, "idempotency_request_in_progress"); got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q, want 1", got.header.Get("Retry-After"))
	}
	client.expect(keyedCall(env, "k", "POST", domainsOfA, `{"domain":"example.org"}`), 409, "idempotency_key_conflict")
	disconnect()
	if err := receive(t, requestErr, "the cancelled request did not end"); err == nil {
		t.Fatal("the cancelled request was answered")
	}
	gate.Release()
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
		r, _, err := env.store.KeyRecord(t.Context(), env.storedKeyID("k"))
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the answer of the first request was not stored: %v", err)
		}
		if r.Answer != nil {
			break
		}
	}
	got := client.expect(addDomainCall(env, "k"), 200, "")
	if got.header.Get("Idempotency-Replayed") != "true" || got.body["status"] != "added" {
		t.Errorf("got %s, want a replay with the status added", got.raw)
	}
}

func TestConcurrentRequestsWithOneKeyRunOnce(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	const requests = 100
	answers, start := make([]reply, requests), make(chan struct{})
	var waitGroup sync.WaitGroup
	for i := range requests {
		waitGroup.Go(func() {
			<-start
			request := addDomainCall(env, "k")
			if i%2 == 1 { // half of the requests have a different body
				request.body = `{"domain":"example.com" }`
			}
			answers[i] = client.doWhenNotBusy(request)
		})
	}
	close(start)
	waitGroup.Wait()
	if n := env.platform.Calls("AddDomain"); n != 1 {
		t.Errorf("the platform was called %d times, want 1", n)
	}
	successBody := ""
	for _, got := range answers {
		switch {
		case got.status == 200 && (successBody == "" || successBody == got.raw):
			successBody = got.raw
		case got.status == http.StatusConflict && (got.code() == "idempotency_request_in_progress" || got.code() == "idempotency_key_conflict"):
		default:
			t.Fatalf("got %d %s, want 409, or 200 with the same answer as each other success: %s", got.status, got.raw, successBody)
		}
	}
	if successBody == "" {
		t.Error("no request succeeded")
	}
}

// TestTamperedStoredAnswerIsAnError checks that a request gets an internal error when its stored
// answer was changed or emptied, or was copied from a different row. The operation does not run
// again.
func TestTamperedStoredAnswerIsAnError(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	client.expect(addDomainCall(env, "k"), 200, "")
	client.expect(keyedCall(env, "other", "POST", domainsOfA, `{"domain":"example.org"}`), 200, "")
	record, _, err := env.store.KeyRecord(t.Context(), env.storedKeyID("k"))
	otherRecord, _, otherRecordErr := env.store.KeyRecord(t.Context(), env.storedKeyID("other"))
	if err != nil || otherRecordErr != nil {
		t.Fatal(err, otherRecordErr)
	}
	changedAnswer := append([]byte{}, record.Answer...)
	changedAnswer[len(changedAnswer)-1] ^= 1
	callsBefore := env.platform.Calls("AddDomain")
	for name, answer := range map[string][]byte{"changed": changedAnswer, "moved": otherRecord.Answer, "emptied": {}} {
		saved, err := env.store.Finish(t.Context(), ports.StoredAnswer{Key: env.storedKeyID("k"), Attempt: record.Attempt, Answer: answer, Until: time.Now().Add(time.Hour)})
		if err != nil || !saved {
			t.Fatalf("the %s answer was not stored: %v", name, err)
		}
		if got := client.expect(addDomainCall(env, "k"), 500, "internal_error"); strings.Contains(got.raw, "open") {
			t.Errorf("the error for the %s stored answer names its cause: %s", name, got.raw)
		}
	}
	if calls := env.platform.Calls("AddDomain"); calls != callsBefore {
		t.Errorf("the operation ran %d more times, want 0", calls-callsBefore)
	}
	if got, err := env.options.Guard.Idempotency.Sealer.Open(record.Answer, env.storedKeyID("k").String()); err != nil || !strings.Contains(got.Reveal(), "content_type") {
		t.Errorf("the stored answer cannot be opened: %v", err)
	}
	if strings.Contains(string(record.Answer), "example.com") {
		t.Error("the stored answer is not encrypted")
	}
}

// TestReplayRequiresAPlan checks that a request of an account without a plan or with an unknown API
// key does not get the stored answer.
func TestReplayRequiresAPlan(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	client.expect(addDomainCall(env, "k"), 200, "")
	env.deactivate(t, env.accountA)
	client.expect(addDomainCall(env, "k"), 402, "no_api_plan")
	withUnknownKey := addDomainCall(env, "k")
	withUnknownKey.key = "tny_live_" + strings.Repeat("0", 48)
	client.expect(withUnknownKey, 401, "invalid_api_key")
}
