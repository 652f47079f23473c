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

// sender is a sending platform that returns err from every call and records the calls. If hangs is
// set, its calls return only after the caller's deadline.
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

// TestRefusalsAreNotFailures checks which outcomes count as failures of the sending platform. A
// refusal does not count, because it concerns only one customer.
func TestRefusalsAreNotFailures(t *testing.T) {
	for kind, opens := range map[outcome.Kind]bool{
		outcome.Refused: false, outcome.NotReady: false, outcome.Throttled: false,
		outcome.Down: true, outcome.Broken: true, outcome.Unknown: true,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			p := newGuardedSending(New(Options{OpenTime: time.Hour}), &sender{provider: provider{err: outcomeError(kind)}}, "a", sharedServer)
			for range 5 {
				if err := sendingWrites["remove"](t.Context(), p); outcome.KindOf(err) != kind {
					t.Fatalf("got %v, want the kind of the provider's error", err)
				}
			}
			if _, open := openCircuitWait(sendingReads["accounts"](t.Context(), p)); open != opens {
				t.Fatalf("the circuit is open: %v, want the opposite", open)
			}
		})
	}
}

// TestCredentialsShareACircuit checks that credentials with a common server share one circuit, and
// that credentials with separate servers have separate circuits.
func TestCredentialsShareACircuit(t *testing.T) {
	for _, separateServers := range []func(context.Context) bool{sharedServer, ownServer} {
		down, up := &sender{provider: provider{err: outcomeError(outcome.Down)}}, &sender{}
		circuits := New(Options{OpenTime: time.Hour})
		for range 5 {
			_ = sendingReads["check"](t.Context(), newGuardedSending(circuits, down, "ann", separateServers))
		}
		_, open := openCircuitWait(sendingReads["check"](t.Context(), newGuardedSending(circuits, up, "bob", separateServers)))
		names := map[string]bool{}
		for _, circuit := range circuits.Circuits() {
			names[circuit.Domain] = true
		}
		if separate := separateServers(t.Context()); open == separate || names["provider"] == separate || names["credential/ann"] != separate {
			t.Errorf("separate servers %v: the other credential's circuit is open %v, circuits %v", separate, open, names)
		}
	}
}

// TestCredentialIsCheckedBeforeAWrite checks that Check tests a half-open circuit before a write is
// sent. While the circuit is open, calls are not sent.
func TestCredentialIsCheckedBeforeAWrite(t *testing.T) {
	for _, name := range []string{"start_sign_in", "remove"} {
		for recovered, wantCalls := range map[bool]int{true: 2, false: 1} {
			synctest.Test(t, func(t *testing.T) {
				backend := &sender{provider: provider{err: outcomeError(outcome.Unknown)}}
				p := newGuardedSending(New(Options{OpenTime: time.Minute}), backend, "a", sharedServer)
				for range 5 {
					_ = sendingWrites[name](t.Context(), p)
				}
				backend.calls = nil
				wait, open := openCircuitWait(sendingWrites[name](t.Context(), p))
				if !open || wait <= 0 || wait > time.Minute+time.Second || len(backend.calls) > 0 {
					t.Fatalf("the circuit is open: %v, for %s; the platform got %v", open, wait, backend.calls)
				}
				time.Sleep(wait)
				if recovered {
					backend.err = nil
				}
				err := sendingWrites[name](t.Context(), p)
				if _, open := openCircuitWait(err); open == recovered || len(backend.calls) != wantCalls || backend.calls[0] != "Check" {
					t.Fatalf("%s, recovered is %v: the platform got %v, the write returned %v", name, recovered, backend.calls, err)
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
					t.Errorf("%s: %v after %s", name, err, duration)
				}
				if circuits.Circuits()[0].State != Open {
					t.Errorf("%s: the timeout did not open the circuit", name)
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
	p := newGuardedSending(circuits, backend, "a", sharedServer)
	var want []string
	for _, calls := range []map[string]sendingCall{sendingReads, sendingWrites} {
		for name, call := range calls {
			want = append(want, "credential/a "+name)
			if err := call(t.Context(), p); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	slices.Sort(counted)
	slices.Sort(want)
	if fmt.Sprint(counted) != fmt.Sprint(want) || len(backend.calls) != len(want) {
		t.Errorf("the budget counted %v, the platform got %v", counted, backend.calls)
	}
	backend.calls, exceeded = nil, true
	err := sendingWrites["start_sign_in"](t.Context(), p)
	var failure *outcome.Error
	if !errors.As(err, &failure) || failure.Kind != outcome.Throttled || failure.RetryAfter != time.Minute || len(backend.calls) > 0 {
		t.Errorf("got %v, the platform got %v", err, backend.calls)
	}
}

// TestCutConnectionIsDownForReadsAndUnknownForWrites checks that a cut connection means Down for a
// read and Unknown for a write. A timeout means Unknown for both.
func TestCutConnectionIsDownForReadsAndUnknownForWrites(t *testing.T) {
	for cause, reads := range map[string]outcome.Kind{outcome.CauseConnectionCut: outcome.Down, "no_answer": outcome.Unknown} {
		backend := &sender{provider: provider{err: &outcome.Error{Kind: outcome.Unknown, Cause: cause}}}
		for name, call := range sendingReads {
			p := newGuardedSending(New(Options{}), backend, "a", sharedServer)
			if err := call(t.Context(), p); outcome.KindOf(err) != reads {
				t.Errorf("%s, %s: %v", name, cause, err)
			}
		}
		for name, call := range sendingWrites {
			p := newGuardedSending(New(Options{}), backend, "a", sharedServer)
			if err := call(t.Context(), p); outcome.KindOf(err) != outcome.Unknown {
				t.Errorf("%s, %s: %v", name, cause, err)
			}
		}
	}
}
