// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// newGuardedSending returns p with the interceptor of b. fingerprint identifies the credential of
// all calls.
func newGuardedSending(b *Breaker, p ports.SendingPlatform, fingerprint string, ownServer func(context.Context) bool) ports.SendingPlatform {
	return wire.SendingInProcess(p, wire.Timeout(callTimeout), b.Interceptor(ByProvider(fingerprint, ownServer)), wire.CutReadsAsDown())
}

// sender is a sending platform that returns provider.err from every call and records the calls. If
// hangs is set, its calls return only after the caller's deadline.
type sender struct {
	provider
	hangs bool
}

func (s *sender) answerOrHang(ctx context.Context, call string) error {
	if s.hangs {
		<-ctx.Done()
	}
	return s.answer(call)
}

func (s *sender) Check(ctx context.Context) (integration.Reach, error) {
	return integration.Reach{}, s.answerOrHang(ctx, "Check")
}

func (s *sender) Account(ctx context.Context, address string) (integration.Account, error) {
	return integration.Account{ID: "a", Address: address}, s.answerOrHang(ctx, "Account")
}

func (s *sender) Accounts(ctx context.Context, _ string) (integration.Page, error) {
	return integration.Page{}, s.answerOrHang(ctx, "Accounts")
}

func (s *sender) StartSignIn(ctx context.Context, _ string) (integration.SignIn, error) {
	return integration.SignIn{ID: "s"}, s.answerOrHang(ctx, "StartSignIn")
}

func (s *sender) SignIn(ctx context.Context, _ string) (integration.Progress, error) {
	return integration.Progress{State: integration.SignInPending}, s.answerOrHang(ctx, "SignIn")
}

func (s *sender) Remove(ctx context.Context, _ string) error { return s.answerOrHang(ctx, "Remove") }

type sendingCall = func(context.Context, ports.SendingPlatform) error

var (
	sendingReads = map[string]sendingCall{
		"check":    func(ctx context.Context, p ports.SendingPlatform) error { _, err := p.Check(ctx); return err },
		"account":  func(ctx context.Context, p ports.SendingPlatform) error { _, err := p.Account(ctx, "a"); return err },
		"accounts": func(ctx context.Context, p ports.SendingPlatform) error { _, err := p.Accounts(ctx, ""); return err },
		"sign_in":  func(ctx context.Context, p ports.SendingPlatform) error { _, err := p.SignIn(ctx, "s"); return err },
	}
	sendingWrites = map[string]sendingCall{
		"start_sign_in": func(ctx context.Context, p ports.SendingPlatform) error {
			_, err := p.StartSignIn(ctx, "a")
			return err
		},
		"remove": func(ctx context.Context, p ports.SendingPlatform) error { return p.Remove(ctx, "a") },
	}
)

func sharedServer(context.Context) bool { return false }
func ownServer(context.Context) bool    { return true }

// TestRefusalsAreNotFailures checks which outcomes count as failures of the sending platform. An
// outcome that concerns only one customer does not count.
func TestRefusalsAreNotFailures(t *testing.T) {
	for kind, wantOpen := range map[outcome.Kind]bool{
		outcome.Refused: false, outcome.NotReady: false, outcome.Throttled: false,
		outcome.Down: true, outcome.Broken: true, outcome.Unknown: true,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			guardedSending := newGuardedSending(New(Options{OpenTime: time.Hour}), &sender{provider: provider{err: outcomeError(kind)}}, "a", sharedServer)
			for range 5 {
				if err := sendingWrites["remove"](t.Context(), guardedSending); outcome.KindOf(err) != kind {
					t.Fatalf("got %v, want an error with the outcome %s", err, kind)
				}
			}
			if _, open := openCircuitWait(sendingReads["accounts"](t.Context(), guardedSending)); open != wantOpen {
				t.Fatalf("the circuit is open: %v, want %v", open, wantOpen)
			}
		})
	}
}

// TestCredentialsShareACircuit checks that credentials of a common server share one circuit. A
// credential with its own server has its own circuit.
func TestCredentialsShareACircuit(t *testing.T) {
	for _, hasOwnServer := range []func(context.Context) bool{sharedServer, ownServer} {
		down, up := &sender{provider: provider{err: outcomeError(outcome.Down)}}, &sender{}
		circuits := New(Options{OpenTime: time.Hour})
		for range 5 {
			_ = sendingReads["check"](t.Context(), newGuardedSending(circuits, down, "ann", hasOwnServer))
		}
		_, open := openCircuitWait(sendingReads["check"](t.Context(), newGuardedSending(circuits, up, "bob", hasOwnServer)))
		domains := map[string]bool{}
		for _, circuit := range circuits.Circuits() {
			domains[circuit.Domain] = true
		}
		if wantSeparate := hasOwnServer(t.Context()); open == wantSeparate || domains["provider"] == wantSeparate || domains["credential/ann"] != wantSeparate {
			t.Errorf("own servers %v: a call with the credential bob is refused %v, the circuits are %v; want one circuit only for a common server", wantSeparate, open, domains)
		}
	}
}

// TestCredentialIsCheckedBeforeAWrite checks that Check tests the platform before a write is sent,
// if the circuit is half open. If the circuit is open, no call is sent.
func TestCredentialIsCheckedBeforeAWrite(t *testing.T) {
	for _, name := range []string{"start_sign_in", "remove"} {
		for recovered, wantCalls := range map[bool]int{true: 2, false: 1} {
			synctest.Test(t, func(t *testing.T) {
				backend := &sender{provider: provider{err: outcomeError(outcome.Unknown)}}
				guardedSending := newGuardedSending(New(Options{OpenTime: time.Minute}), backend, "a", sharedServer)
				for range 5 {
					_ = sendingWrites[name](t.Context(), guardedSending)
				}
				backend.calls = nil
				wait, open := openCircuitWait(sendingWrites[name](t.Context(), guardedSending))
				if !open || wait <= 0 || wait > time.Minute+time.Second || len(backend.calls) > 0 {
					t.Fatalf("the circuit is open: %v, for %s; the platform got %v; want an open circuit, for a minute, and no call", open, wait, backend.calls)
				}
				time.Sleep(wait)
				if recovered {
					backend.err = nil
				}
				err := sendingWrites[name](t.Context(), guardedSending)
				if _, open := openCircuitWait(err); open == recovered || len(backend.calls) != wantCalls || backend.calls[0] != "Check" {
					t.Fatalf("%s, recovered is %v: the platform got %v, want %d calls that begin with Check; the write returned %v", name, recovered, backend.calls, wantCalls, err)
				}
			})
		}
	}
}

// TestSendingTimeoutsAreFailures checks that a timeout of any call counts as a failure.
func TestSendingTimeoutsAreFailures(t *testing.T) {
	for _, calls := range []map[string]sendingCall{sendingReads, sendingWrites} {
		for name, call := range calls {
			synctest.Test(t, func(t *testing.T) {
				circuits, began := New(Options{Failures: 1}), time.Now()
				err := call(t.Context(), newGuardedSending(circuits, &sender{provider: provider{err: outcomeError(outcome.Unknown)}, hangs: true}, "a", ownServer))
				if duration := time.Since(began); duration != callTimeout || outcome.KindOf(err) != outcome.Unknown {
					t.Errorf("%s: got %v after %s, want the outcome unknown after %s", name, err, duration, callTimeout)
				}
				if circuits.Circuits()[0].State != Open {
					t.Errorf("%s: the circuit is %s after the timeout, want open", name, circuits.Circuits()[0].State)
				}
			})
		}
	}
}

// TestBudgetSeesCredentialAndOperation checks that Options.Budget gets the credential and the
// operation of each call, even though all credentials share a circuit.
func TestBudgetSeesCredentialAndOperation(t *testing.T) {
	var counted []string
	exceeded := false
	backend := &sender{}
	circuits := New(Options{Budget: func(_ context.Context, domain, operation string) (func(), time.Duration, bool) {
		counted = append(counted, domain+" "+operation)
		return nil, time.Minute, !exceeded
	}})
	guardedSending := newGuardedSending(circuits, backend, "a", sharedServer)
	var want []string
	for _, calls := range []map[string]sendingCall{sendingReads, sendingWrites} {
		for name, call := range calls {
			want = append(want, "credential/a "+name)
			if err := call(t.Context(), guardedSending); err != nil {
				t.Errorf("%s: got %v, want success", name, err)
			}
		}
	}
	slices.Sort(counted)
	slices.Sort(want)
	if fmt.Sprint(counted) != fmt.Sprint(want) || len(backend.calls) != len(want) {
		t.Errorf("the budget counted %v, want %v; the platform got %v, want each call once", counted, want, backend.calls)
	}
	backend.calls, exceeded = nil, true
	err := sendingWrites["start_sign_in"](t.Context(), guardedSending)
	var failure *outcome.Error
	if !errors.As(err, &failure) || failure.Kind != outcome.Throttled || failure.RetryAfter != time.Minute || len(backend.calls) > 0 {
		t.Errorf("got %v, and the platform got %v; want an error with outcome.Throttled, and no call", err, backend.calls)
	}
}

// TestCutConnectionIsDownForReadsAndUnknownForWrites checks that the outcome of a read is Down
// after the connection was cut. A write, and a read after a timeout, have the outcome Unknown.
func TestCutConnectionIsDownForReadsAndUnknownForWrites(t *testing.T) {
	for cause, wantOfReads := range map[string]outcome.Kind{outcome.CauseConnectionCut: outcome.Down, "no_answer": outcome.Unknown} {
		backend := &sender{provider: provider{err: &outcome.Error{Kind: outcome.Unknown, Cause: cause}}}
		for name, call := range sendingReads {
			guardedSending := newGuardedSending(New(Options{}), backend, "a", sharedServer)
			if err := call(t.Context(), guardedSending); outcome.KindOf(err) != wantOfReads {
				t.Errorf("%s, %s: got %v, want the outcome %s", name, cause, err, wantOfReads)
			}
		}
		for name, call := range sendingWrites {
			guardedSending := newGuardedSending(New(Options{}), backend, "a", sharedServer)
			if err := call(t.Context(), guardedSending); outcome.KindOf(err) != outcome.Unknown {
				t.Errorf("%s, %s: got %v, want the outcome %s", name, cause, err, outcome.Unknown)
			}
		}
	}
}
