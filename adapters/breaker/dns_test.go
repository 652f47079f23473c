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

// callTimeout is the timeout of the calls in the tests of DNS providers and sending platforms.
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
		err   error
		opens bool
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
			p := newGuardedDNS(New(Options{OpenTime: time.Hour}), &zoneProvider{provider{err: tc.err}}, "a")
			for range 5 {
				if err := callZoneWrite(t.Context(), p); outcome.KindOf(err) != outcome.KindOf(tc.err) {
					t.Fatalf("got %v, want the kind of the provider's error", err)
				}
			}
			if _, open := openCircuitWait(callZoneRead(t.Context(), p)); open != tc.opens {
				t.Fatalf("the circuit is open: %v, want the opposite", open)
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
		t.Fatal("the circuit of the credential whose calls fail is closed")
	}
	for _, other := range []string{"bob", "cid", "dan"} {
		if err := callZoneWrite(t.Context(), newGuardedDNS(circuits, up, other)); err != nil {
			t.Fatalf("another credential: %v", err)
		}
	}
	if got := circuits.Circuits(); len(got) != 3 || got[0].Domain != "credential/dan" || got[2].Domain != "credential/bob" {
		t.Fatalf("%d circuits exist: %v", len(got), got)
	}
}

// TestZoneIsReadBeforeAnApply checks that a read of the zone tests a half-open circuit before a
// change is sent.
func TestZoneIsReadBeforeAnApply(t *testing.T) {
	for recovered, want := range map[bool]string{true: "[Zone Apply]", false: "[Zone]"} {
		synctest.Test(t, func(t *testing.T) {
			backend := &zoneProvider{provider{err: outcomeError(outcome.Unknown)}}
			p := newGuardedDNS(New(Options{OpenTime: time.Minute}), backend, "a")
			for range 5 {
				_ = callZoneWrite(t.Context(), p)
			}
			wait, open := openCircuitWait(callZoneWrite(t.Context(), p))
			if !open {
				t.Fatal("the circuit is closed")
			}
			time.Sleep(wait)
			backend.calls = nil
			if recovered {
				backend.err = dns.NoZoneError()
			}
			err := callZoneWrite(t.Context(), p)
			if _, open := openCircuitWait(err); open == recovered || fmt.Sprint(backend.calls) != want {
				t.Fatalf("recovered is %v: the provider got %v, the write returned %v", recovered, backend.calls, err)
			}
		})
	}
}

// hanging is a DNS provider whose calls return only after the caller's deadline.
type hanging struct{ ports.DNSProvider }

func (hanging) hang(ctx context.Context) error {
	<-ctx.Done()
	return &outcome.Error{Kind: outcome.Unknown, Cause: "plugin_deadline"}
}

func (h hanging) Check(ctx context.Context) (int, error) { return 0, h.hang(ctx) }
func (h hanging) Zone(ctx context.Context, _ string) (dns.Zone, error) {
	return dns.Zone{}, h.hang(ctx)
}
func (h hanging) Records(ctx context.Context, _ dns.Zone) ([]dns.RRSet, error) {
	return nil, h.hang(ctx)
}

func (h hanging) Apply(ctx context.Context, _ dns.Zone, _ []dns.Change) ([]dns.RRSet, error) {
	return nil, h.hang(ctx)
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
			err := call(t.Context(), newGuardedDNS(circuits, hanging{}, "a"))
			if duration := time.Since(began); duration != callTimeout || outcome.KindOf(err) != outcome.Unknown {
				t.Errorf("%s: %v after %s", name, err, duration)
			}
			if circuits.Circuits()[0].State != Open {
				t.Errorf("%s: the timeout did not open the circuit", name)
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
	p := newGuardedDNS(circuits, backend, "a")
	_, _ = p.Check(t.Context())
	_, _ = p.Zone(t.Context(), "a.test")
	_ = callZoneRead(t.Context(), p)
	_ = callZoneWrite(t.Context(), p)
	if got := fmt.Sprint(counted); got != "[credential/a check credential/a zone credential/a records credential/a apply]" {
		t.Errorf("the budget counted %s", got)
	}
	backend.calls, exceeded = nil, true
	err := callZoneWrite(t.Context(), p)
	var failure *outcome.Error
	if !errors.As(err, &failure) || failure.Kind != outcome.Throttled || failure.RetryAfter != time.Minute || len(backend.calls) > 0 {
		t.Errorf("got %v, the provider got %v", err, backend.calls)
	}
}
