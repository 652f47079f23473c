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
	"github.com/tenantry/tenantry/ports"
)

// zoneProvider is a DNS provider as provider is a mail platform.
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

// A zone that moved, or that the credential does not reach, says nothing
// against the provider; a server that does not answer does.
func TestWhatOpensACircuitOfADNSProvider(t *testing.T) {
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
			p := NewDNS(Options{}).Guard(&zoneProvider{provider{err: tt.err}}, "a")
			for range 5 {
				if err := zoneWrite(t.Context(), p); !errors.Is(err, tt.err) {
					t.Fatalf("got %v", err)
				}
			}
			if _, open := refused(zoneRead(t.Context(), p)); open != tt.opens {
				t.Fatalf("open is %v", open)
			}
		})
	}
}

func TestOneCredentialsTroubleIsItsOwn(t *testing.T) {
	down, up := &zoneProvider{provider{err: ended(outcome.Down)}}, &zoneProvider{}
	circuits := NewDNS(Options{Domains: 3})
	for range 6 {
		_ = zoneRead(t.Context(), circuits.Guard(down, "ann"))
	}
	if _, open := refused(zoneRead(t.Context(), circuits.Guard(up, "ann"))); !open {
		t.Fatal("the circuit of the credential in trouble is closed")
	}
	for _, other := range []string{"bob", "cid", "dan"} {
		if err := zoneWrite(t.Context(), circuits.Guard(up, other)); err != nil {
			t.Fatalf("another credential: %v", err)
		}
	}
	if got := circuits.Circuits(); len(got) != 3 || got[0].Domain != "credential/dan" || got[2].Domain != "credential/bob" {
		t.Fatalf("%d circuits are kept: %v", len(got), got)
	}
}

// The first to meet a provider that comes back looks for the zone.
func TestALookGoesAheadOfAnApply(t *testing.T) {
	for back, want := range map[bool]string{true: "[Zone Apply]", false: "[Zone]"} {
		synctest.Test(t, func(t *testing.T) {
			far := &zoneProvider{provider{err: ended(outcome.Unknown)}}
			p := NewDNS(Options{Open: time.Minute}).Guard(far, "a")
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

// hanging never answers before its caller's deadline.
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

// Every call ends, also for a caller who sets no deadline, and counts.
func TestDNSCallsHaveADeadline(t *testing.T) {
	for name, call := range map[string]func(context.Context, ports.DNSProvider) error{
		"check":   func(ctx context.Context, p ports.DNSProvider) error { _, err := p.Check(ctx); return err },
		"zone":    func(ctx context.Context, p ports.DNSProvider) error { _, err := p.Zone(ctx, "a.test"); return err },
		"records": zoneRead,
		"apply":   zoneWrite,
	} {
		synctest.Test(t, func(t *testing.T) {
			circuits, began := NewDNS(Options{Failures: 1}), time.Now()
			err := call(t.Context(), circuits.Guard(hanging{}, "a"))
			if took := time.Since(began); took != 20*time.Second || outcome.Of(err) != outcome.Unknown {
				t.Errorf("%s: %v after %s", name, err, took)
			}
			if circuits.Circuits()[0].State != Open {
				t.Errorf("%s: silence does not count against the provider", name)
			}
		})
	}
}

// TestDNSCallsCostWhatTheirOperationCosts: the budget hears which operation it
// is, before anything leaves, and a write that waits for a look pays for both.
func TestDNSCallsCostWhatTheirOperationCosts(t *testing.T) {
	var paid []string
	full := false
	far := &zoneProvider{}
	p := NewDNS(Options{Budget: func(_ context.Context, domain, operation string) (time.Duration, bool) {
		paid = append(paid, domain+" "+operation)
		return time.Minute, !full
	}}).Guard(far, "a")
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
