// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// finishing is a key store that passes each answer to a function before it is stored.
type finishing struct {
	ports.Idempotency

	finish func(at idempotency.Place, answer []byte) error
}

func (f finishing) Finish(ctx context.Context, at idempotency.Place, attempt string, answer []byte, until time.Time) (bool, error) {
	if err := f.finish(at, answer); err != nil {
		return false, err
	}
	return f.Idempotency.Finish(ctx, at, attempt, answer, until)
}

// dies has the process end when the answer is to be stored, with every write
// whose answer is committed with its change. What was committed must have the
// bytes of the answer that was about to be given.
func (w *world) dies(t *testing.T) finishing {
	return finishing{w.store, func(at idempotency.Place, answer []byte) error {
		r, _, err := w.store.Remembered(t.Context(), at)
		if err != nil || r.Answer == nil {
			return err
		}
		sealer := w.options.Idempotency.Sealer
		committed, err := sealer.Open(r.Answer, at.String())
		given, err2 := sealer.Open(answer, at.String())
		if err != nil || err2 != nil || committed.Reveal() != given.Reveal() {
			t.Errorf("%v, %v: committed %q, given %q", err, err2, committed.Reveal(), given.Reveal())
		}
		return fault.ServiceUnavailable.With("the process ends here")
	}}
}

// TestAnAnswerIsCommittedWithItsChange covers writes that would answer differently on a second run.
// The process dies between the change and the storing of the answer. The replay must still be the
// first answer.
func TestAnAnswerIsCommittedWithItsChange(t *testing.T) {
	w := newWorld(t)
	w.options.Idempotency.Keys = w.dies(t)
	a := serve(t, w.handler(t))
	base := "/v1/tenants/" + string(w.a.tenant)
	again := func(key, method, path, body, want string) {
		t.Helper()
		ask := once(w, key, method, path, body)
		a.expect(ask, 503, "service_unavailable")
		got := a.expect(ask, 200, "")
		if !strings.Contains(got.raw, want) || got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s is answered %s", key, got.raw)
		}
	}
	write := func(path string) { a.expect(call{method: "POST", path: path, key: w.a.key}, 200, "") }
	write(base + "/sync")
	again("add", "POST", domainsOfA, `{"domain":"example.com"}`, `"status":"added"`)
	w.publish(t, w.a, "example.com")
	write(verifyOfA)
	again("provision", "POST", base+"/mailboxes", `{"domain":"example.com","account_password":"Correct-Horse-7",
		"mailboxes":[{"name":"<Zoë & Bo>","email":"ana@example.com"},{"name":"Bo","email":"bo@example.com"}]}`, `"created_count":2`)
	again("delete", "DELETE", base, "", `"status":"deleted"`)
	if n := w.platform.Calls("AddDomain") + w.platform.Calls("CreateMailbox"); n != 3 {
		t.Errorf("%d things were made", n)
	}
}

// robbed is a store in which a different attempt takes over the key before each change.
type robbed struct {
	tenantStore
	rob func()
}

func (r robbed) DeleteTenant(ctx context.Context, owner access.AccountID, id tenant.GUID) error {
	r.rob()
	return r.tenantStore.DeleteTenant(ctx, owner, id)
}

// TestAnAttemptThatLostItsKeyDeletesNothing checks that a slow deletion does nothing after a
// different attempt has taken over its key.
func TestAnAttemptThatLostItsKeyDeletesNothing(t *testing.T) {
	w := newWorld(t)
	service := *w.options.Tenants
	service.Tenants = robbed{w.store, func() {
		r, _, err := w.store.Remembered(t.Context(), w.place("k"))
		if err != nil {
			t.Error(err)
		}
		if _, err := w.store.Hold(t.Context(), w.place("k"), r.Attempt, -time.Second); err != nil {
			t.Error(err)
		}
		claim := ports.Claim{Place: w.place("k"), Fingerprint: r.Fingerprint, Lease: time.Hour, Now: time.Now()}
		if _, won, err := w.store.TakeOver(t.Context(), r.Attempt, claim); err != nil || !won {
			t.Errorf("taken over: %v, %v", won, err)
		}
	}}
	w.options.Tenants = &service
	a := serve(t, w.handler(t))
	a.expect(once(w, "k", "DELETE", "/v1/tenants/"+string(w.a.tenant), ""), 409, "idempotency_request_in_progress")
	if _, err := w.store.Tenant(t.Context(), w.a.account.ID, w.a.tenant); err != nil {
		t.Errorf("the tenant is gone: %v", err)
	}
}

// shaky is a key store whose results a test can replace.
type shaky struct {
	ports.Idempotency
	hold   func(idempotency.Place, string) (bool, error)
	finish func() error
}

func (s *shaky) Hold(ctx context.Context, at idempotency.Place, attempt string, lease time.Duration) (bool, error) {
	if s.hold != nil {
		return s.hold(at, attempt)
	}
	return s.Idempotency.Hold(ctx, at, attempt, lease)
}

func (s *shaky) Finish(ctx context.Context, at idempotency.Place, attempt string, answer []byte, until time.Time) (bool, error) {
	if s.finish != nil {
		if err := s.finish(); err != nil {
			return false, err
		}
	}
	return s.Idempotency.Finish(ctx, at, attempt, answer, until)
}

// A run renews its lease until it ends. Each renewal is stored for an hour, so that the lease does
// not expire on a slow machine.
func TestALeaseIsRenewed(t *testing.T) {
	w := newWorld(t)
	renewed := make(chan struct{}, 1)
	keys := &shaky{Idempotency: w.store}
	w.options.Idempotency.Lease = 150 * time.Millisecond
	keys.hold = func(at idempotency.Place, attempt string) (bool, error) {
		mine, err := w.store.Hold(context.Background(), at, attempt, time.Hour)
		select {
		case renewed <- struct{}{}:
		default:
		}
		return mine, err
	}
	w.options.Idempotency.Keys = keys
	a := serve(t, w.handler(t))
	gate := w.platform.Hold("AddDomain")
	answered := make(chan reply, 1)
	go func() { answered <- a.do(addOnce(w, "k")) }()
	receive(t, gate.Arrived(), "the request did not reach the platform")
	for range 5 {
		receive(t, renewed, "the lease was not renewed")
	}
	a.expect(addOnce(w, "k"), 409, "idempotency_request_in_progress")
	gate.Release()
	if got := receive(t, answered, "the request was not answered"); got.status != 200 || w.platform.Calls("AddDomain") != 1 {
		t.Errorf("%d after %d calls: %s", got.status, w.platform.Calls("AddDomain"), got.raw)
	}
}

// The key of a dead process can be taken over when its lease has expired, but only by the same
// request.
func TestADeadOwnersKeyIsTakenOver(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	asked := idempotency.Request{Method: "POST", Path: domainsOfA, Body: []byte(`{"domain":"example.com"}`)}
	print, err := w.options.Idempotency.Prints.Fingerprint(asked.Text())
	if err != nil {
		t.Fatal(err)
	}
	dead, won, err := w.store.Claim(t.Context(), ports.Claim{Place: w.place("k"), Fingerprint: print, Lease: time.Hour, Now: time.Now()})
	if err != nil || !won {
		t.Fatal(won, err)
	}
	a.expect(addOnce(w, "k"), 409, "idempotency_request_in_progress")
	if _, err := w.store.Hold(t.Context(), w.place("k"), dead, -time.Second); err != nil {
		t.Fatal(err)
	}
	a.expect(once(w, "k", "POST", domainsOfA, `{"domain":"example.org"}`), 409, "idempotency_key_conflict")
	a.expect(addOnce(w, "k"), 200, "")
}

// A slow attempt is stopped when its key was taken over. Its answer is the one of the attempt that
// has the key.
func TestASlowOwnerLosesItsWrite(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	slow := newSlow(t, w)
	gate := w.platform.Hold("AddDomain")
	answered := make(chan reply, 1)
	go func() { answered <- slow.do(addOnce(w, "k")) }()
	receive(t, gate.Arrived(), "the request did not reach the platform")
	w.expire(t, "k")
	won := a.do(addOnce(w, "k")) // finds the domain at the platform
	gate.Release()
	lost := receive(t, answered, "the slow owner was not answered")
	if won.status != 200 {
		t.Fatalf("the new owner got %d %s", won.status, won.raw)
	}
	if lost.raw != won.raw && lost.code() != "idempotency_request_in_progress" {
		t.Errorf("the slow owner got %d %s, the new one %s", lost.status, lost.raw, won.raw)
	}
	replays(t, won, a.expect(addOnce(w, "k"), 200, ""))
}

// expire ends the lease of the attempt that holds an Idempotency-Key.
func (w *world) expire(t *testing.T, key string) {
	t.Helper()
	r, _, err := w.store.Remembered(t.Context(), w.place(key))
	if err != nil {
		t.Fatal(err)
	}
	if held, err := w.store.Hold(t.Context(), w.place(key), r.Attempt, -time.Second); err != nil || !held {
		t.Fatalf("the lease was not changed: %v", err)
	}
}

// newSlow returns a second process that does not renew its leases.
func newSlow(t *testing.T, w *world) *api {
	t.Helper()
	before := w.options.Idempotency
	defer func() { w.options.Idempotency = before }()
	w.options.Idempotency.Lease = time.Hour
	return serve(t, w.handler(t))
}

// An attempt that cannot renew its lease stops calling the platform before a different attempt can
// begin.
func TestALostLeaseStopsTheRun(t *testing.T) {
	for name, lost := range map[string]error{"taken over": nil, "database away": errors.New("away")} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			asked, atWork := make(chan struct{}, 100), make(chan struct{})
			w.options.Idempotency.Keys = &shaky{Idempotency: w.store, hold: func(idempotency.Place, string) (bool, error) {
				<-atWork
				asked <- struct{}{}
				return false, lost
			}}
			stopped := make(chan struct{})
			w.options.Log = slog.New(alarm{slog.DiscardHandler, "an Idempotency-Key could not be held", stopped})
			w.options.Idempotency.Lease = 150 * time.Millisecond
			a := serve(t, w.handler(t))
			gate := w.platform.Hold("AddDomain")
			answered := make(chan reply, 1)
			go func() { answered <- a.do(addOnce(w, "k")) }()
			receive(t, gate.Arrived(), "the request did not reach the platform")
			close(atWork)
			receive(t, asked, "the lease was not renewed")
			receive(t, stopped, "the log does not say that the lease was lost")
			calls := w.platform.Calls("Records")
			gate.Release()
			if got := receive(t, answered, "the request was not answered"); got.status < 500 || w.platform.Calls("Records") != calls {
				t.Errorf("got %d %s after %d more calls", got.status, got.raw, w.platform.Calls("Records")-calls)
			}
		})
	}
}

// alarm is a log handler that reports one log message.
type alarm struct {
	slog.Handler

	line string
	rung chan struct{}
}

func (a alarm) Enabled(context.Context, slog.Level) bool { return true }

func (a alarm) Handle(_ context.Context, r slog.Record) error {
	if r.Message == a.line {
		close(a.rung)
	}
	return nil
}

// A success that could not be stored is not sent. It was committed with its change here, so the
// next request with the key gets the stored answer.
func TestAnAnswerThatCannotBeKeptIsNotGiven(t *testing.T) {
	w := newWorld(t)
	keys := &shaky{Idempotency: w.store, finish: func() error { return fault.ServiceUnavailable.With("the database is away") }}
	w.options.Idempotency.Keys = keys
	a := serve(t, w.handler(t))
	a.expect(addOnce(w, "k"), 503, "service_unavailable")
	keys.finish = nil
	if got := a.expect(addOnce(w, "k"), 200, ""); got.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the stored answer was not replayed: %s", got.raw)
	}
	if n := w.platform.Effects("AddDomain"); n != 1 {
		t.Errorf("added %d times", n)
	}
}
