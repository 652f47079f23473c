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
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// delegation has the name servers of the fake's zones.
var delegation = []string{"ns1.provider.test", "ns2.provider.test"}

// idleProvider is a provider that does not publish its zones.
type idleProvider struct{ ports.DNSProvider }

func (p idleProvider) Zone(ctx context.Context, name string) (dns.Zone, error) {
	zone, err := p.DNSProvider.Zone(ctx, name)
	zone.Idle = "pending"
	return zone, err
}

func TestForZoneSelectsTheConnectionForTheZone(t *testing.T) {
	for _, tc := range []struct {
		name       string
		tokens     []string // the token "elsewhere" belongs to powerdns, all others to cloudflare
		provider   string
		delegation []string
		want       string // the token of the selected connection
		wantServes bool
		wantTokens []string // the tokens that were used
	}{
		{"the only connection", []string{"has"}, "cloudflare", delegation, "has", true, []string{"has"}},
		{"the second connection", []string{"empty", "has"}, "cloudflare", delegation, "has", true, []string{"empty", "has"}},
		{"no further connection is tested", []string{"has", "empty", "also"}, "cloudflare", delegation, "has", true, []string{"has"}},
		{"after a rejected credential", []string{"bad", "has"}, "cloudflare", delegation, "has", true, []string{"bad", "has"}},
		{"after a provider that is down", []string{"down", "has"}, "cloudflare", delegation, "has", true, []string{"down", "has"}},
		{"no connection to a different provider is tested", []string{"elsewhere", "has"}, "cloudflare", delegation, "has", true, []string{"has"}},
		{"a connection to any provider", []string{"empty", "elsewhere"}, "", delegation, "elsewhere", true, []string{"empty", "elsewhere"}},
		{"a serving zone is preferred to an idle zone", []string{"idle", "has"}, "cloudflare", delegation, "has", true, []string{"idle", "has"}},
		{"an idle zone if no connection has a serving zone", []string{"empty", "idle"}, "cloudflare", delegation, "idle", false, []string{"empty", "idle"}},
		{"the older of two connections whose zones do not serve", []string{"has", "also"}, "cloudflare", []string{"ns1.other.test"}, "has", false, []string{"has", "also"}},
		{"an unknown delegation", []string{"down", "has"}, "cloudflare", nil, "has", false, []string{"down", "has"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.connectTokens(t, tc.tokens)
			got, err := fx.ForZone(t.Context(), fx.ann, fx.connectionsTo(t, tc.provider), "a.test", tc.delegation)
			if err != nil || got.Connection.Name != tc.want || got.Serves != tc.wantServes || got.Zone.Name != "a.test" {
				t.Fatalf("selected %+v, %v, want the token %q with Serves %v", got, err, tc.want, tc.wantServes)
			}
			if !slices.Equal(fx.usedTokens, tc.wantTokens) {
				t.Errorf("the tokens %v were used, want %v", fx.usedTokens, tc.wantTokens)
			}
			if _, err := got.Provider.Records(t.Context(), got.Zone); err != nil {
				t.Errorf("the selected provider cannot read the zone: %v", err)
			}
		})
	}
}

func TestForZoneFailsWithTheMostSignificantError(t *testing.T) {
	for _, tc := range []struct {
		name     string
		tokens   []string
		isWanted func(error) bool
	}{
		{"no connection", nil, isError(dnsconnections.ErrNoConnection)},
		{"only a connection to a different provider", []string{"elsewhere"}, isError(dnsconnections.ErrNoConnection)},
		{"no zone", []string{"empty"}, dns.IsNoZone},
		{"a rejected credential", []string{"empty", "bad"}, isError(fault.CredentialRejected)},
		{"a provider that is down", []string{"bad", "down", "empty"}, isError(fault.ProviderUnavailable)},
		{"an invalid setting", []string{"invalid-setting", "bad"}, isError(fault.InvalidRequest)},
		{"an unreadable credential after a provider that is down", []string{"down", "unreadable"}, isUnreadable},
		{"an unreadable credential before a provider that is down", []string{"unreadable", "down"}, isUnreadable},
		{"a provider that is down, and a zone that does not serve", []string{"idle", "down"}, isError(fault.ProviderUnavailable)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.connectTokens(t, tc.tokens)
			got, err := fx.ForZone(t.Context(), fx.ann, fx.connectionsTo(t, "cloudflare"), "a.test", delegation)
			if !tc.isWanted(err) || got.Provider != nil {
				t.Fatalf("selected %+v with the error %v, want none with the error of this case", got, err)
			}
		})
	}
}

// TestForZoneUsesOnlyConnectionsOfTheAccount passes candidates that belong to a different account,
// and then an empty owner. ForZone must use none of the candidates.
func TestForZoneUsesOnlyConnectionsOfTheAccount(t *testing.T) {
	fx := newFixture(t)
	fx.connectTokens(t, []string{"has"})
	if _, err := fx.ForZone(t.Context(), fx.bob, fx.connectionsTo(t, ""), "a.test", delegation); !errors.Is(err, dnsconnections.ErrNoConnection) {
		t.Errorf("the account bob: got %v, want ErrNoConnection", err)
	}
	if _, err := fx.ForZone(t.Context(), "", fx.connectionsTo(t, ""), "a.test", delegation); !errors.Is(err, dnsconnections.ErrNoConnection) {
		t.Errorf("an empty owner: got %v, want ErrNoConnection", err)
	}
	if len(fx.usedTokens) > 0 {
		t.Errorf("the tokens %v were used, want none", fx.usedTokens)
	}
}

// connectionsTo returns the connections to a provider, or all connections if provider is empty.
func (fx *fixture) connectionsTo(t *testing.T, provider string) []dnsconnection.Connection {
	t.Helper()
	return slices.DeleteFunc(fx.storedConnections(t), func(c dnsconnection.Connection) bool { return provider != "" && c.Provider != provider })
}

// connectTokens adds a connection of the account ann for each token. After that, the provider of a
// token behaves as the token says. The provider of "down" fails, no provider accepts "bad", and the
// stored credential of "unreadable" cannot be decrypted. The providers of "has", "also",
// "elsewhere" and "idle" have the zone a.test. The provider of "empty" has no zone.
func (fx *fixture) connectTokens(t *testing.T, tokens []string) {
	t.Helper()
	for i, token := range tokens {
		fx.Now = func() time.Time { return now.Add(time.Duration(i) * time.Second) }
		provider := "cloudflare"
		if token == "elsewhere" {
			provider = "powerdns"
		}
		c := fx.connect(t, fx.ann, provider, token)
		if token == "unreadable" {
			_, err := fx.store.RemoveDNSConnection(t.Context(), c.ID)
			must(t, err)
			must(t, fx.store.AddDNSConnection(t.Context(), c, []byte("not a sealed credential")))
		}
	}
	for _, token := range []string{"has", "also", "elsewhere"} {
		fx.provideZones(token, "a.test")
	}
	fx.byToken["idle"] = idleProvider{fx.provideZones("of the idle provider", "a.test")}
	fx.byToken["down"], fx.byToken["invalid-setting"] = failingProvider{err: errDown}, failingProvider{err: errInvalidSetting}
	delete(fx.byToken, "bad")
	fx.usedTokens = nil // only later calls count
}

func isUnreadable(err error) bool { return errors.As(err, &dnsconnections.UnreadableError{}) }

func isError(want error) func(error) bool {
	return func(err error) bool { return errors.Is(err, want) }
}
