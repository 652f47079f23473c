// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/lease"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/platform"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// TestAnswerIsCommittedWithItsChange covers writes for which a second run would return a different
// answer. Their answers are stored in the same transaction as the change, so that a crash cannot
// separate the answer from the change. A replay must equal the original answer. The sync of a
// tenant is the opposite case: its answer is stored separately.
func TestAnswerIsCommittedWithItsChange(t *testing.T) {
	env := newTestEnv(t)
	storedSeparately := map[idempotency.KeyID]bool{}
	env.options.Guard.Idempotency.Keys = &hookedKeys{Idempotency: env.store, finish: func(key idempotency.KeyID) error {
		storedSeparately[key] = true
		return nil
	}}
	client := serve(t, env.handler(t))
	tenantPath := "/v1/tenants/" + string(env.accountA.tenant)
	requireCommitted := func(key, method, path, body, wantInAnswer string) {
		t.Helper()
		request := keyedCall(env, key, method, path, body)
		original := client.expect(request, 200, "")
		checkReplay(t, original, client.expect(request, 200, ""))
		if !strings.Contains(original.raw, wantInAnswer) || storedSeparately[env.storedKeyID(key)] {
			t.Errorf("%s is answered %s, stored separately: %v, want %s, stored with the change", key, original.raw, storedSeparately[env.storedKeyID(key)], wantInAnswer)
		}
	}
	post := func(path string) { client.expect(call{method: "POST", path: path, key: env.accountA.key}, 200, "") }
	post(tenantPath + "/sync")
	if len(storedSeparately) != 1 {
		t.Fatalf("after the sync, %d answers were stored separately, want 1", len(storedSeparately))
	}
	requireCommitted("add", "POST", domainsOfA, `{"domain":"example.com"}`, `"status":"added"`)
	env.publishRecords(t, env.accountA, "example.com")
	post(verifyPathOfA)
	requireCommitted("provision", "POST", tenantPath+"/mailboxes", `{"domain":"example.com","account_password":"Correct-Horse-7",
		"mailboxes":[{"name":"<Zoë & Bo>","email":"ana@example.com"},{"name":"Bo","email":"bo@example.com"}]}`, `"created_count":2`)
	requireCommitted("delete", "DELETE", tenantPath, "", `"status":"deleted"`)
	if calls := env.platform.Calls("AddDomain") + env.platform.Calls("CreateMailbox"); calls != 3 {
		t.Errorf("the platform was called %d times, want 3", calls)
	}
}

// takeoverStore is a tenant store that calls takeOver before it deletes a tenant.
type takeoverStore struct {
	tenantStore
	takeOver func()
}

func (s takeoverStore) DeleteTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, storedAnswer *ports.StoredAnswer) error {
	s.takeOver()
	return s.tenantStore.DeleteTenant(ctx, owner, id, storedAnswer)
}

func TestAttemptThatLostItsKeyDeletesNothing(t *testing.T) {
	env := newTestEnv(t)
	service := *env.options.Tenants
	service.Tenants = takeoverStore{env.store, func() {
		record, _, err := env.store.KeyRecord(t.Context(), env.storedKeyID("k"))
		if err != nil {
			t.Error(err)
		}
		if _, err := env.store.RenewKeyLease(t.Context(), env.storedKeyID("k"), record.Attempt, -time.Second); err != nil {
			t.Error(err)
		}
		claim := ports.Claim{Key: env.storedKeyID("k"), Fingerprint: record.Fingerprint, Lease: time.Hour, Now: time.Now()}
		if _, isClaimed, err := env.store.TakeOver(t.Context(), record.Attempt, claim); err != nil || !isClaimed {
			t.Errorf("taken over is %v, want true (%v)", isClaimed, err)
		}
	}}
	env.options.Tenants = &service
	client := serve(t, env.handler(t))
	client.expect(keyedCall(env, "k", "DELETE", "/v1/tenants/"+string(env.accountA.tenant), ""), 409, "idempotency_request_in_progress")
	if _, err := env.store.Tenant(t.Context(), env.accountA.account.ID, env.accountA.tenant); err != nil {
		t.Errorf("reading the tenant failed, want it not deleted: %v", err)
	}
}

// hookedKeys is a store of Idempotency-Keys. If renew is set, it replaces RenewKeyLease. If finish
// is set, Finish calls finish first, and stores nothing if finish fails.
type hookedKeys struct {
	ports.Idempotency
	renew  func(context.Context, idempotency.KeyID, string) (bool, error)
	finish func(idempotency.KeyID) error
}

func (s *hookedKeys) RenewKeyLease(ctx context.Context, key idempotency.KeyID, attempt string, lease time.Duration) (bool, error) {
	if s.renew != nil {
		return s.renew(ctx, key, attempt)
	}
	return s.Idempotency.RenewKeyLease(ctx, key, attempt, lease)
}

func (s *hookedKeys) Finish(ctx context.Context, c ports.StoredAnswer) (bool, error) {
	if s.finish != nil {
		if err := s.finish(c.Key); err != nil {
			return false, err
		}
	}
	return s.Idempotency.Finish(ctx, c)
}

// renewLeasesOften makes runs renew their leases every 50 ms, which is a third of the lease. It
// returns a channel that receives a value after a renewal. Each renewal stores a lease of an hour
// and ignores its timeout, so that the lease does not expire on a slow machine.
func renewLeasesOften(env *testEnv) <-chan struct{} {
	renewed := make(chan struct{}, 1)
	env.options.Guard.Idempotency.Lease = 150 * time.Millisecond
	env.options.Guard.Idempotency.Keys = &hookedKeys{Idempotency: env.store, renew: func(ctx context.Context, key idempotency.KeyID, attempt string) (bool, error) {
		stillHeld, err := env.store.RenewKeyLease(context.WithoutCancel(ctx), key, attempt, time.Hour)
		select {
		case renewed <- struct{}{}:
		default:
		}
		return stillHeld, err
	}}
	return renewed
}

func TestKeyLeaseIsRenewed(t *testing.T) {
	env := newTestEnv(t)
	renewed := renewLeasesOften(env)
	client := serve(t, env.handler(t))
	gate := env.platform.Hold("AddDomain")
	answered := make(chan reply, 1)
	go func() { answered <- client.do(addDomainCall(env, "k")) }()
	receive(t, gate.Arrived(), "the request did not reach the platform")
	for range 5 {
		receive(t, renewed, "the lease was not renewed")
	}
	client.expect(addDomainCall(env, "k"), 409, "idempotency_request_in_progress")
	gate.Release()
	if got := receive(t, answered, "the request was not answered"); got.status != 200 || env.platform.Calls("AddDomain") != 1 {
		t.Errorf("answered %d after %d calls, want 200 after 1: %s", got.status, env.platform.Calls("AddDomain"), got.raw)
	}
}

// slowFacts calls wait before it returns the facts about the mail platform.
type slowFacts struct {
	ports.PlatformFacts
	wait func()
}

func (f slowFacts) Facts(ctx context.Context) (platform.Facts, error) {
	f.wait()
	return f.PlatformFacts.Facts(ctx)
}

// TestRenewedLeaseIsNotAnEffect checks that a refusal does not use up the Idempotency-Key if the
// run had no effect except the renewal of its lease.
func TestRenewedLeaseIsNotAnEffect(t *testing.T) {
	env := newTestEnv(t)
	renewed := renewLeasesOften(env)
	env.options.Domains.Facts = slowFacts{env.options.Domains.Facts, func() { receive(t, renewed, "the lease was not renewed") }}
	client := serve(t, env.handler(t))
	client.expect(keyedCall(env, "k", "POST", domainsOfA, `{"domain":"com"}`), 400, "invalid_domain")
	if _, found, err := env.store.KeyRecord(t.Context(), env.storedKeyID("k")); err != nil || found {
		t.Errorf("after the refusal the key has a record, want none (%v)", err)
	}
}

// TestExpiredKeyIsTakenOver checks that the Idempotency-Key of a dead process can be taken over
// when its lease has expired, but only by the same request.
func TestExpiredKeyIsTakenOver(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	request := idempotency.Request{Method: "POST", Path: domainsOfA, Body: []byte(`{"domain":"example.com"}`)}
	fingerprint, err := env.options.Guard.Idempotency.Fingerprinter.Fingerprint(request.Text())
	must(t, err)
	deadAttempt, isClaimed, err := env.store.Claim(t.Context(), ports.Claim{Key: env.storedKeyID("k"), Fingerprint: fingerprint, Lease: time.Hour, Now: time.Now()})
	if err != nil || !isClaimed {
		t.Fatalf("the Idempotency-Key was not claimed: %v", err)
	}
	client.expect(addDomainCall(env, "k"), 409, "idempotency_request_in_progress")
	if _, err := env.store.RenewKeyLease(t.Context(), env.storedKeyID("k"), deadAttempt, -time.Second); err != nil {
		t.Fatal(err)
	}
	client.expect(keyedCall(env, "k", "POST", domainsOfA, `{"domain":"example.org"}`), 409, "idempotency_key_conflict")
	client.expect(addDomainCall(env, "k"), 200, "")
}

// TestSlowAttemptLosesItsKey checks an attempt whose Idempotency-Key a new attempt has taken over.
// The slow attempt is answered with the answer of the new attempt, or with
// idempotency_request_in_progress.
func TestSlowAttemptLosesItsKey(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	slowClient := serveWithoutRenewal(t, env)
	gate := env.platform.Hold("AddDomain")
	answered := make(chan reply, 1)
	go func() { answered <- slowClient.do(addDomainCall(env, "k")) }()
	receive(t, gate.Arrived(), "the request did not reach the platform")
	env.expireLease(t, "k")
	takeoverReply := client.do(addDomainCall(env, "k")) // takes over the key
	gate.Release()
	slowReply := receive(t, answered, "the slow attempt was not answered")
	if takeoverReply.status != 200 {
		t.Fatalf("the attempt that took over the key got %d %s, want 200", takeoverReply.status, takeoverReply.raw)
	}
	if slowReply.raw != takeoverReply.raw && slowReply.code() != "idempotency_request_in_progress" {
		t.Errorf("the slow attempt got %d %s, want the answer of the new attempt %s, or idempotency_request_in_progress", slowReply.status, slowReply.raw, takeoverReply.raw)
	}
	checkReplay(t, takeoverReply, client.expect(addDomainCall(env, "k"), 200, ""))
}

// expireLease expires the lease of the attempt that has claimed an Idempotency-Key.
func (env *testEnv) expireLease(t *testing.T, key string) {
	t.Helper()
	record, _, err := env.store.KeyRecord(t.Context(), env.storedKeyID(key))
	must(t, err)
	if stillHeld, err := env.store.RenewKeyLease(t.Context(), env.storedKeyID(key), record.Attempt, -time.Second); err != nil || !stillHeld {
		t.Fatalf("the lease was not expired: %v", err)
	}
}

// serveWithoutRenewal returns a client of a second handler on the same store. That handler renews
// no lease during a test, because its leases last an hour.
func serveWithoutRenewal(t *testing.T, env *testEnv) *apiClient {
	t.Helper()
	previousOptions := env.options.Guard.Idempotency
	defer func() { env.options.Guard.Idempotency = previousOptions }()
	env.options.Guard.Idempotency.Lease = time.Hour
	return serve(t, env.handler(t))
}

// TestLostLeaseStopsTheRun checks that an attempt which cannot renew its lease does not make its
// next platform call, which is Records after AddDomain.
func TestLostLeaseStopsTheRun(t *testing.T) {
	for name, renewErr := range map[string]error{"taken over": nil, "database unavailable": errors.New("away")} {
		t.Run(name, func(t *testing.T) {
			env := newTestEnv(t)
			renewalAsked, reachedPlatform := make(chan struct{}, 100), make(chan struct{})
			env.options.Guard.Idempotency.Keys = &hookedKeys{Idempotency: env.store, renew: func(context.Context, idempotency.KeyID, string) (bool, error) {
				<-reachedPlatform
				renewalAsked <- struct{}{}
				return false, renewErr
			}}
			lossLogged := make(chan struct{})
			env.options.Guard.Log = slog.New(logSignal{slog.DiscardHandler, "the lease of an Idempotency-Key was lost", lossLogged})
			env.options.Guard.Idempotency.Lease = 150 * time.Millisecond
			client := serve(t, env.handler(t))
			gate := env.platform.Hold("AddDomain")
			answered := make(chan reply, 1)
			go func() { answered <- client.do(addDomainCall(env, "k")) }()
			receive(t, gate.Arrived(), "the request did not reach the platform")
			close(reachedPlatform)
			receive(t, renewalAsked, "the lease was not renewed")
			receive(t, lossLogged, "the log does not say that the lease was lost")
			callsBefore := env.platform.Calls("Records")
			gate.Release()
			if got := receive(t, answered, "the request was not answered"); got.status < 500 || env.platform.Calls("Records") != callsBefore {
				t.Errorf("got %d %s after %d more calls of Records, want a 5xx after none", got.status, got.raw, env.platform.Calls("Records")-callsBefore)
			}
		})
	}
}

// contextStore is a tenant store whose Tenant closes reached, waits until ctx ends, and sends the
// cause to causes.
type contextStore struct {
	tenantStore

	reached chan<- struct{}
	causes  chan<- error
}

func (s contextStore) Tenant(ctx context.Context, _ access.AccountID, _ tenant.GUID) (tenant.Tenant, error) {
	close(s.reached)
	<-ctx.Done()
	s.causes <- context.Cause(ctx)
	return tenant.Tenant{}, ctx.Err()
}

// TestLostLeaseEndsTheOperation checks that the context of an operation ends when the attempt loses
// the lease of its Idempotency-Key. It does not end when the client disconnects.
func TestLostLeaseEndsTheOperation(t *testing.T) {
	env := newTestEnv(t)
	reached, disconnected, causes := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	env.options.Guard.Idempotency.Keys = &hookedKeys{Idempotency: env.store, renew: func(context.Context, idempotency.KeyID, string) (bool, error) {
		<-disconnected
		return false, nil
	}}
	env.options.Guard.Idempotency.Lease = 150 * time.Millisecond
	service := *env.options.Tenants
	service.Tenants = contextStore{env.store, reached, causes}
	env.options.Tenants = &service
	handler := env.handler(t)
	ctx, disconnect := context.WithCancel(t.Context())
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		request := keyedCall(env, "k", "POST", "/v1/tenants/"+string(env.accountA.tenant)+"/sync", "").request(t, "http://api.example").WithContext(ctx)
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}()
	receive(t, reached, "the request did not reach the store")
	disconnect()
	select {
	case cause := <-causes:
		t.Fatalf("the operation ended when the client disconnected: %v", cause)
	case <-time.After(20 * time.Millisecond): // an operation that ends with its client would have ended by then
	}
	close(disconnected)
	if cause := receive(t, causes, "the operation did not end"); !errors.Is(cause, lease.ErrLost) {
		t.Errorf("the operation ended because of %v, want %v", cause, lease.ErrLost)
	}
	receive(t, answered, "the request was not answered")
}

// slowClaims is a store of Idempotency-Keys. Its Claim claims the key, waits for the time delay,
// and then returns.
type slowClaims struct {
	ports.Idempotency

	delay time.Duration
}

func (s slowClaims) Claim(ctx context.Context, c ports.Claim) (string, bool, error) {
	attempt, isClaimed, err := s.Idempotency.Claim(ctx, c)
	time.Sleep(s.delay)
	return attempt, isClaimed, err
}

// TestLeaseOfAKeyBeginsBeforeItsClaim checks that the time of a slow claim counts as a part of the
// lease. The claim takes a half of the lease, and the first renewal follows a third of the lease
// later. More than two thirds of the lease have then passed, so that the lease counts as lost when
// this renewal fails.
func TestLeaseOfAKeyBeginsBeforeItsClaim(t *testing.T) {
	env := newTestEnv(t)
	const keyLease = 900 * time.Millisecond
	renewals, reached := make(chan struct{}, 100), make(chan struct{})
	env.options.Guard.Idempotency.Lease = keyLease
	env.options.Guard.Idempotency.Keys = &hookedKeys{Idempotency: slowClaims{env.store, keyLease / 2}, renew: func(context.Context, idempotency.KeyID, string) (bool, error) {
		select {
		case <-reached: // on a slow machine, this renewal can begin before the operation reaches the store
		case <-time.After(testTimeout):
		}
		renewals <- struct{}{}
		return false, errors.New("away")
	}}
	service := *env.options.Tenants
	causes := make(chan error, 1)
	service.Tenants = contextStore{env.store, reached, causes}
	env.options.Tenants = &service
	client := serve(t, env.handler(t))
	if got := client.do(keyedCall(env, "k", "POST", "/v1/tenants/"+string(env.accountA.tenant)+"/sync", "")); got.status < 500 || len(renewals) != 1 {
		t.Errorf("got %d after %d renewals, want a 5xx after 1: %s", got.status, len(renewals), got.raw)
	}
	if cause := receive(t, causes, "the operation did not end"); !errors.Is(cause, lease.ErrLost) {
		t.Errorf("the operation ended because of %v, want %v", cause, lease.ErrLost)
	}
}

// logSignal is a log handler that closes the channel seen when a record has the message.
type logSignal struct {
	slog.Handler

	message string
	seen    chan struct{}
}

func (s logSignal) Enabled(context.Context, slog.Level) bool { return true }

func (s logSignal) Handle(_ context.Context, r slog.Record) error {
	if r.Message == s.message {
		close(s.seen)
	}
	return nil
}

// TestAnswerThatCannotBeStoredIsNotSent checks that a successful answer is not sent if it could not
// be stored. When the lease has expired, the same request runs again.
func TestAnswerThatCannotBeStoredIsNotSent(t *testing.T) {
	env := newTestEnv(t)
	keys := &hookedKeys{Idempotency: env.store, finish: func(idempotency.KeyID) error { return fault.ServiceUnavailable.With("the database is away") }}
	env.options.Guard.Idempotency.Keys = keys
	client := serve(t, env.handler(t))
	client.expect(addDomainCall(env, "add"), 200, "") // committed with its change (see TestAnswerIsCommittedWithItsChange)
	env.publishRecords(t, env.accountA, "example.com")
	verify := keyedCall(env, "k", "POST", verifyPathOfA, "")
	client.expect(verify, 503, "service_unavailable")
	keys.finish = nil
	env.expireLease(t, "k")
	if got := client.expect(verify, 200, ""); got.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("got the replay %s, want a new answer", got.raw)
	}
	if n := env.platform.Effects("VerifyDomain"); n != 1 {
		t.Errorf("the domain was verified %d times, want 1", n)
	}
}
