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

// dnsWith returns p behind the circuits of b, for calls with the credential of the fingerprint.
func dnsWith(b *Breaker, p ports.DNSProvider, fingerprint string) ports.DNSProvider {
	return wire.DNSInProcess(p, wire.Timeout(callTimeout), b.Interceptor(ByCredential(fingerprint)))
}

// callTimeout is the timeout of the calls in these tests.
const callTimeout = 20 * time.Second

// zoneProvider is a DNS provider that ends every call with err and records the calls.
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

func zoneRead(ctx context.Context, p ports.DNSProvider) error {
	_, err := p.Records(ctx, dns.Zone{})
	return err
}

func zoneWrite(ctx context.Context, p ports.DNSProvider) error {
	_, err := p.Apply(ctx, dns.Zone{Name: "a.test"}, nil)
	return err
}

// TestZoneErrorsAreNotFailures checks that a missing or changed zone does not count as a failure of
// the DNS provider.
func TestZoneErrorsAreNotFailures(t *testing.T) {
	for _, tt := range []struct {
		err   error
		opens bool
	}{
		{dns.Changed(), false},
		{fmt.Errorf("apply: %w", dns.NoZone()), false},
		{ended(outcome.Refused), false},
		{ended(outcome.Throttled), false},
		{nil, false},
		{ended(outcome.Down), true},
		{ended(outcome.Broken), true},
		{ended(outcome.Unknown), true},
	} {
		t.Run(fmt.Sprint(tt.err), func(t *testing.T) {
			p := dnsWith(New(Options{}), &zoneProvider{provider{err: tt.err}}, "a")
			for range 5 {
				if err := zoneWrite(t.Context(), p); outcome.Of(err) != outcome.Of(tt.err) {
					t.Fatalf("got %v", err)
				}
			}
			if _, open := refused(zoneRead(t.Context(), p)); open != tt.opens {
				t.Fatalf("open is %v", open)
			}
		})
	}
}

func TestFailuresOfACredentialDoNotAffectOthers(t *testing.T) {
	down, up := &zoneProvider{provider{err: ended(outcome.Down)}}, &zoneProvider{}
	circuits := New(Options{Domains: 3})
	for range 6 {
		_ = zoneRead(t.Context(), dnsWith(circuits, down, "ann"))
	}
	if _, open := refused(zoneRead(t.Context(), dnsWith(circuits, up, "ann"))); !open {
		t.Fatal("the circuit of the credential in trouble is closed")
	}
	for _, other := range []string{"bob", "cid", "dan"} {
		if err := zoneWrite(t.Context(), dnsWith(circuits, up, other)); err != nil {
			t.Fatalf("another credential: %v", err)
		}
	}
	if got := circuits.Circuits(); len(got) != 3 || got[0].Domain != "credential/dan" || got[2].Domain != "credential/bob" {
		t.Fatalf("%d circuits are kept: %v", len(got), got)
	}
}

// TestZoneIsReadBeforeAnApply checks that the first call to a DNS provider that may work again reads
// the zone.
func TestZoneIsReadBeforeAnApply(t *testing.T) {
	for back, want := range map[bool]string{true: "[Zone Apply]", false: "[Zone]"} {
		synctest.Test(t, func(t *testing.T) {
			far := &zoneProvider{provider{err: ended(outcome.Unknown)}}
			p := dnsWith(New(Options{Open: time.Minute}), far, "a")
			for range 5 {
				_ = zoneWrite(t.Context(), p)
			}
			wait, open := refused(zoneWrite(t.Context(), p))
			if !open {
				t.Fatal("the circuit is closed")
			}
			time.Sleep(wait)
			far.asked = nil
			if back {
				far.err = dns.NoZone()
			}
			err := zoneWrite(t.Context(), p)
			if _, open := refused(err); open == back || fmt.Sprint(far.asked) != want {
				t.Fatalf("back %v: asked %v, ended %v", back, far.asked, err)
			}
		})
	}
}

// hanging answers when the caller's deadline has passed.
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

// TestDNSTimeoutsAreFailures checks that a call that ends with its timeout counts as a failure.
func TestDNSTimeoutsAreFailures(t *testing.T) {
	for name, call := range map[string]func(context.Context, ports.DNSProvider) error{
		"check":   func(ctx context.Context, p ports.DNSProvider) error { _, err := p.Check(ctx); return err },
		"zone":    func(ctx context.Context, p ports.DNSProvider) error { _, err := p.Zone(ctx, "a.test"); return err },
		"records": zoneRead,
		"apply":   zoneWrite,
	} {
		synctest.Test(t, func(t *testing.T) {
			circuits, began := New(Options{Failures: 1}), time.Now()
			err := call(t.Context(), dnsWith(circuits, hanging{}, "a"))
			if took := time.Since(began); took != callTimeout || outcome.Of(err) != outcome.Unknown {
				t.Errorf("%s: %v after %s", name, err, took)
			}
			if circuits.Circuits()[0].State != Open {
				t.Errorf("%s: silence does not count against the provider", name)
			}
		})
	}
}

// TestDNSCallsCountForTheirCredential checks that a budget gets the credential and the operation of
// each call before it is sent.
func TestDNSCallsCountForTheirCredential(t *testing.T) {
	var paid []string
	full := false
	far := &zoneProvider{}
	circuits := New(Options{Budget: func(_ context.Context, domain, operation string) (time.Duration, bool) {
		paid = append(paid, domain+" "+operation)
		return time.Minute, !full
	}})
	p := dnsWith(circuits, far, "a")
	_, _ = p.Check(t.Context())
	_, _ = p.Zone(t.Context(), "a.test")
	_ = zoneRead(t.Context(), p)
	_ = zoneWrite(t.Context(), p)
	if got := fmt.Sprint(paid); got != "[credential/a check credential/a zone credential/a records credential/a apply]" {
		t.Errorf("paid for %s", got)
	}
	far.asked, full = nil, true
	err := zoneWrite(t.Context(), p)
	var o *outcome.Error
	if !errors.As(err, &o) || o.Kind != outcome.Throttled || o.RetryAfter != time.Minute || len(far.asked) > 0 {
		t.Errorf("got %v, asked %v", err, far.asked)
	}
}
