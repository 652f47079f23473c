// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/ports"
)

// shaky is a store of keys some of whose answers a test decides.
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

// A run renews its lease until it ends. Each renewal is stored for an hour, so
// that the lease never expires on a slow machine.
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

// A dead owner's key is taken over once its lease is over, by the same request
// only.
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

// A slow owner whose key was taken over is stopped, and its answer is the one
// of whoever has the key by now.
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

// newSlow is a second process that does not come to renew its leases.
func newSlow(t *testing.T, w *world) *api {
	t.Helper()
	before := w.options.Idempotency
	defer func() { w.options.Idempotency = before }()
	w.options.Idempotency.Lease = time.Hour
	return serve(t, w.handler(t))
}

// An owner that cannot renew its lease stops calling the platform before
// somebody else begins.
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

// alarm tells of one line of the log.
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

// A success that could not be stored is not sent. It was committed with its
// change here, so the next request with the key is given the stored answer.
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
