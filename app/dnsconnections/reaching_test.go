// SPDX-License-Identifier: Apache-2.0

package dnsconnections_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// delegation is the delegation of the fake's zones.
var delegation = []string{"ns1.provider.test", "ns2.provider.test"}

// idle is a provider whose zones are not public.
type idle struct{ ports.DNSProvider }

func (p idle) Zone(ctx context.Context, name string) (dns.Zone, error) {
	zone, err := p.DNSProvider.Zone(ctx, name)
	zone.Idle = "pending"
	return zone, err
}

func TestReachingTakesTheOneThatReachesTheZone(t *testing.T) {
	for _, tt := range []struct {
		name     string
		tokens   []string // of cloudflare, but "elsewhere", which is of powerdns
		provider string
		seen     []string
		want     string // the token
		serves   bool
		asked    []string
	}{
		{"the only one", []string{"has"}, "cloudflare", delegation, "has", true, []string{"has"}},
		{"the second", []string{"empty", "has"}, "cloudflare", delegation, "has", true, []string{"empty", "has"}},
		{"no more are asked than needed", []string{"has", "empty", "also"}, "cloudflare", delegation, "has", true, []string{"has"}},
		{"after one that is refused", []string{"bad", "has"}, "cloudflare", delegation, "has", true, []string{"bad", "has"}},
		{"after one that is down", []string{"down", "has"}, "cloudflare", delegation, "has", true, []string{"down", "has"}},
		{"not of another provider", []string{"elsewhere", "has"}, "cloudflare", delegation, "has", true, []string{"has"}},
		{"of any provider", []string{"empty", "elsewhere"}, "", delegation, "elsewhere", true, []string{"empty", "elsewhere"}},
		{"one that serves before an idle one", []string{"idle", "has"}, "cloudflare", delegation, "has", true, []string{"idle", "has"}},
		{"an idle one is better than none", []string{"empty", "idle"}, "cloudflare", delegation, "idle", false, []string{"empty", "idle"}},
		{"the older of two that do not serve", []string{"has", "also"}, "cloudflare", []string{"ns1.other.test"}, "has", false, []string{"has", "also"}},
		{"a delegation that is not known", []string{"down", "has"}, "cloudflare", nil, "has", false, []string{"down", "has"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newFixture(t)
			w.fill(t, tt.tokens)
			got, err := w.Reaching(t.Context(), w.ann, tt.provider, "a.test", tt.seen)
			if err != nil || got.Connection.Name != tt.want || got.Serves != tt.serves || got.Zone.Name != "a.test" {
				t.Fatalf("%+v, %v", got, err)
			}
			if !slices.Equal(w.asked, tt.asked) {
				t.Errorf("asked %v", w.asked)
			}
			if _, err := got.Provider.Records(t.Context(), got.Zone); err != nil {
				t.Errorf("its provider: %v", err)
			}
		})
	}
}

func TestReachingSaysWhyNoneDoes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tokens []string
		want   func(error) bool
	}{
		{"no connection", nil, is(dnsconnections.ErrNoConnection)},
		{"another provider's only", []string{"elsewhere"}, is(dnsconnections.ErrNoConnection)},
		{"no zone", []string{"empty"}, dns.IsNoZone},
		{"refused", []string{"empty", "bad"}, is(fault.CredentialRejected)},
		{"down", []string{"bad", "down", "empty"}, is(fault.ProviderUnavailable)},
		{"settings that make no sense", []string{"absurd", "bad"}, is(fault.InvalidRequest)},
		{"down, where the other one does not serve", []string{"idle", "down"}, is(fault.ProviderUnavailable)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newFixture(t)
			w.fill(t, tt.tokens)
			got, err := w.Reaching(t.Context(), w.ann, "cloudflare", "a.test", delegation)
			if !tt.want(err) || got.Provider != nil {
				t.Fatalf("%+v, %v", got, err)
			}
		})
	}
}

// TestReachingAsksTheAccountsOwn checks that connections of other accounts are never used, and that
// an empty owner has none.
func TestReachingAsksTheAccountsOwn(t *testing.T) {
	w := newFixture(t)
	w.fill(t, []string{"has"})
	if _, err := w.Reaching(t.Context(), w.bob, "", "a.test", delegation); !errors.Is(err, dnsconnections.ErrNoConnection) {
		t.Errorf("bob: %v", err)
	}
	if _, err := w.Reaching(t.Context(), "", "", "a.test", delegation); !errors.Is(err, dnsconnections.ErrNoConnection) {
		t.Errorf("nobody: %v", err)
	}
	if len(w.asked) > 0 {
		t.Errorf("asked %v", w.asked)
	}
}

// fill adds connections of the account ann, which are valid when they are added.
func (w *fixture) fill(t *testing.T, tokens []string) {
	t.Helper()
	for i, token := range tokens {
		w.Now = func() time.Time { return now.Add(time.Duration(i) * time.Second) }
		provider := map[bool]string{true: "powerdns", false: "cloudflare"}[token == "elsewhere"]
		w.connect(t, w.ann, provider, token)
	}
	for _, token := range []string{"has", "also", "elsewhere"} {
		w.provide(token, "a.test")
	}
	w.byToken["idle"] = idle{w.provide("behind", "a.test")}
	w.byToken["down"], w.byToken["absurd"] = failing{err: down}, failing{err: absurd}
	delete(w.byToken, "bad")
	w.asked = nil // what follows counts
}

func is(want error) func(error) bool {
	return func(err error) bool { return errors.Is(err, want) }
}
