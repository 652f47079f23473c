// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// newGuardedDNS returns p with the interceptor of b. fingerprint identifies the credential of all
// calls.
func newGuardedDNS(b *Breaker, p ports.DNSProvider, fingerprint string) ports.DNSProvider {
	return wire.DNSInProcess(p, wire.Timeout(callTimeout), b.Interceptor(ByCredential(fingerprint)))
}

// callTimeout is the timeout of calls to DNS providers and sending platforms in these tests.
const callTimeout = 20 * time.Second

// zoneProvider is a DNS provider that returns err from every call and records the calls.
type zoneProvider struct{ provider }

func (p *zoneProvider) Check(context.Context) (int, error) { return 1, p.answer("Check") }

func (p *zoneProvider) Zone(context.Context, string) (dns.Zone, error) {
	return dns.Zone{ID: "z"}, p.answer("Zone")
}

func (p *zoneProvider) Records(ctx context.Context, _ dns.Zone) ([]dns.RRSet, error) {
	return nil, p.answer("Records")
}

func (p *zoneProvider) Apply(context.Context, dns.Zone, []dns.Change) ([]dns.RRSet, error) {
	return nil, p.answer("Apply")
}

func callZoneRead(ctx context.Context, p ports.DNSProvider) error {
	_, err := p.Records(ctx, dns.Zone{})
	return err
}

func callZoneWrite(ctx context.Context, p ports.DNSProvider) error {
	_, err := p.Apply(ctx, dns.Zone{Name: "a.test"}, nil)
	return err
}

// TestZoneErrorsAreNotFailures checks that a missing or changed zone does not count as a failure of
// the DNS provider.
func TestZoneErrorsAreNotFailures(t *testing.T) {
	for _, tc := range []struct {
		err      error
		wantOpen bool
	}{
		{dns.ChangedError(), false},
		{fmt.Errorf("apply: %w", dns.NoZoneError()), false},
		{outcomeError(outcome.Refused), false},
		{outcomeError(outcome.Throttled), false},
		{nil, false},
		{outcomeError(outcome.Down), true},
		{outcomeError(outcome.Broken), true},
		{outcomeError(outcome.Unknown), true},
	} {
		t.Run(fmt.Sprint(tc.err), func(t *testing.T) {
			guardedDNS := newGuardedDNS(New(Options{OpenTime: time.Hour}), &zoneProvider{provider{err: tc.err}}, "a")
			for range 5 {
				if err := callZoneWrite(t.Context(), guardedDNS); outcome.KindOf(err) != outcome.KindOf(tc.err) {
					t.Fatalf("got %v, want an error with the outcome %s", err, outcome.KindOf(tc.err))
				}
			}
			if _, open := openCircuitWait(callZoneRead(t.Context(), guardedDNS)); open != tc.wantOpen {
				t.Fatalf("the circuit is open: %v, want %v", open, tc.wantOpen)
			}
		})
	}
}

func TestFailuresOfACredentialDoNotAffectOthers(t *testing.T) {
	down, up := &zoneProvider{provider{err: outcomeError(outcome.Down)}}, &zoneProvider{}
	circuits := New(Options{MaxCircuits: 3, OpenTime: time.Hour})
	for range 6 {
		_ = callZoneRead(t.Context(), newGuardedDNS(circuits, down, "ann"))
	}
	if _, open := openCircuitWait(callZoneRead(t.Context(), newGuardedDNS(circuits, up, "ann"))); !open {
		t.Fatal("the circuit of the credential whose calls failed is closed, want it open")
	}
	for _, fingerprint := range []string{"bob", "cid", "dan"} {
		if err := callZoneWrite(t.Context(), newGuardedDNS(circuits, up, fingerprint)); err != nil {
			t.Fatalf("a write with the credential %s: got %v, want success", fingerprint, err)
		}
	}
	if got := circuits.Circuits(); len(got) != 3 || got[0].Domain != "credential/dan" || got[2].Domain != "credential/bob" {
		t.Fatalf("the circuits are %v, want those of dan, cid and bob, because MaxCircuits is 3", got)
	}
}

// TestZoneIsReadBeforeAnApply checks that Zone tests the provider before Apply is sent, if the
// circuit is half open.
func TestZoneIsReadBeforeAnApply(t *testing.T) {
	for recovered, wantCalls := range map[bool]string{true: "[Zone Apply]", false: "[Zone]"} {
		synctest.Test(t, func(t *testing.T) {
			backend := &zoneProvider{provider{err: outcomeError(outcome.Unknown)}}
			guardedDNS := newGuardedDNS(New(Options{OpenTime: time.Minute}), backend, "a")
			for range 5 {
				_ = callZoneWrite(t.Context(), guardedDNS)
			}
			wait, open := openCircuitWait(callZoneWrite(t.Context(), guardedDNS))
			if !open {
				t.Fatal("the circuit is closed after 5 failures, want it open")
			}
			time.Sleep(wait)
			backend.calls = nil
			if recovered {
				backend.err = dns.NoZoneError()
			}
			err := callZoneWrite(t.Context(), guardedDNS)
			if _, open := openCircuitWait(err); open == recovered || fmt.Sprint(backend.calls) != wantCalls {
				t.Fatalf("recovered is %v: the provider got %v, want %s; the write returned %v", recovered, backend.calls, wantCalls, err)
			}
		})
	}
}

// hangingProvider is a DNS provider whose calls return only after the caller's deadline.
type hangingProvider struct{ ports.DNSProvider }

func (hangingProvider) hang(ctx context.Context) error {
	<-ctx.Done()
	return &outcome.Error{Kind: outcome.Unknown, Cause: "plugin_deadline"}
}

func (p hangingProvider) Check(ctx context.Context) (int, error) { return 0, p.hang(ctx) }
func (p hangingProvider) Zone(ctx context.Context, _ string) (dns.Zone, error) {
	return dns.Zone{}, p.hang(ctx)
}
func (p hangingProvider) Records(ctx context.Context, _ dns.Zone) ([]dns.RRSet, error) {
	return nil, p.hang(ctx)
}

func (p hangingProvider) Apply(ctx context.Context, _ dns.Zone, _ []dns.Change) ([]dns.RRSet, error) {
	return nil, p.hang(ctx)
}

// TestDNSTimeoutsAreFailures checks that a timeout of any call counts as a failure.
func TestDNSTimeoutsAreFailures(t *testing.T) {
	for name, call := range map[string]func(context.Context, ports.DNSProvider) error{
		"check":   func(ctx context.Context, p ports.DNSProvider) error { _, err := p.Check(ctx); return err },
		"zone":    func(ctx context.Context, p ports.DNSProvider) error { _, err := p.Zone(ctx, "a.test"); return err },
		"records": callZoneRead,
		"apply":   callZoneWrite,
	} {
		synctest.Test(t, func(t *testing.T) {
			circuits, began := New(Options{Failures: 1}), time.Now()
			err := call(t.Context(), newGuardedDNS(circuits, hangingProvider{}, "a"))
			if duration := time.Since(began); duration != callTimeout || outcome.KindOf(err) != outcome.Unknown {
				t.Errorf("%s: got %v after %s, want the outcome unknown after %s", name, err, duration, callTimeout)
			}
			if circuits.Circuits()[0].State != Open {
				t.Errorf("%s: the circuit is %s after the timeout, want open", name, circuits.Circuits()[0].State)
			}
		})
	}
}

// TestDNSCallsCountForTheirCredential checks that Options.Budget gets the credential and the
// operation of each call before the call is sent.
func TestDNSCallsCountForTheirCredential(t *testing.T) {
	var counted []string
	exceeded := false
	backend := &zoneProvider{}
	circuits := New(Options{Budget: func(_ context.Context, domain, operation string) (func(), time.Duration, bool) {
		counted = append(counted, domain+" "+operation)
		return nil, time.Minute, !exceeded
	}})
	guardedDNS := newGuardedDNS(circuits, backend, "a")
	_, _ = guardedDNS.Check(t.Context())
	_, _ = guardedDNS.Zone(t.Context(), "a.test")
	_ = callZoneRead(t.Context(), guardedDNS)
	_ = callZoneWrite(t.Context(), guardedDNS)
	const want = "[credential/a check credential/a zone credential/a records credential/a apply]"
	if got := fmt.Sprint(counted); got != want {
		t.Errorf("the budget counted %s, want %s", got, want)
	}
	backend.calls, exceeded = nil, true
	err := callZoneWrite(t.Context(), guardedDNS)
	var failure *outcome.Error
	if !errors.As(err, &failure) || failure.Kind != outcome.Throttled || failure.RetryAfter != time.Minute || len(backend.calls) > 0 {
		t.Errorf("got %v, and the provider got %v; want an error with outcome.Throttled, and no call", err, backend.calls)
	}
}
