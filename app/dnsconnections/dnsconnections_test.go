// SPDX-License-Identifier: Apache-2.0

package dnsconnections_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

var must = apptest.Must

var now = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// fixture is a service with two accounts, ann and bob. It is also the ports.DNSProviders of the
// service. The token of a credential selects the provider, which refuses a token that is not in
// byToken.
type fixture struct {
	*dnsconnections.Service
	store      *bunstore.Store
	byToken    map[string]ports.DNSProvider
	usedTokens []string // in the order of the calls of For
	ann, bob   access.AccountID
}

func (fx *fixture) Providers(context.Context) ([]dns.Provider, error) { return nil, nil }

func (fx *fixture) For(_ string, credential secret.Credential) ports.DNSProvider {
	token := credential.Secrets["api_token"].Reveal()
	fx.usedTokens = append(fx.usedTokens, token)
	if provider := fx.byToken[token]; provider != nil {
		return provider
	}
	return fake.RefusingDNSProvider{}
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store := apptest.NewStore(t)
	fx := &fixture{store: store, byToken: map[string]ports.DNSProvider{}}
	fx.Service = &dnsconnections.Service{Connections: store, Providers: fx, Sealer: apptest.NewSealer(t), Now: func() time.Time { return now }}
	for email, id := range map[string]*access.AccountID{"ann@example.com": &fx.ann, "bob@example.com": &fx.bob} {
		account, err := store.CreateAccount(t.Context(), email, "complete", 0, now)
		must(t, err)
		*id = account.ID
	}
	return fx
}

// provideZones adds a provider that accepts the token and has these zones.
func (fx *fixture) provideZones(token string, zones ...string) *fake.DNSProvider {
	provider := &fake.DNSProvider{}
	for _, zone := range zones {
		provider.AddZone(zone)
	}
	fx.byToken[token] = provider
	return provider
}

func credential(token string) secret.Credential {
	return secret.Credential{
		Settings: map[string]string{"api_url": "https://dns.example.com"}, Secrets: map[string]secret.Text{"api_token": secret.New(token)},
	}
}

// connect adds a connection. If byToken has no provider for the token, connect first adds a
// provider without zones.
func (fx *fixture) connect(t *testing.T, owner access.AccountID, provider, token string) dnsconnection.Connection {
	t.Helper()
	if fx.byToken[token] == nil {
		fx.provideZones(token)
	}
	c, err := fx.Add(t.Context(), dnsconnections.NewConnection{Account: owner, Provider: provider, Name: token, Credential: credential(token)})
	must(t, err)
	return c
}

func (fx *fixture) storedConnections(t *testing.T) []dnsconnection.Connection {
	t.Helper()
	connections, err := fx.List(t.Context(), "")
	must(t, err)
	return connections
}

// failingProvider is a provider whose Check and Zone fail with err.
type failingProvider struct {
	ports.DNSProvider

	err error
}

func (p failingProvider) Check(context.Context) (int, error)             { return 0, p.err }
func (p failingProvider) Zone(context.Context, string) (dns.Zone, error) { return dns.Zone{}, p.err }

var (
	errDown           = &outcome.Error{Kind: outcome.Down, Detail: "nobody there"}
	errInvalidSetting = &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Detail: "api_url: it must be a URL"}
)

func TestAddTestsAndStoresTheConnection(t *testing.T) {
	fx := newFixture(t)
	fx.provideZones("good", "a.test", "b.test")
	c := fx.connect(t, fx.ann, "cloudflare", "good")
	want := dnsconnection.Connection{
		ID: c.ID, AccountID: fx.ann, Provider: "cloudflare", Name: "good", Status: dnsconnection.Connected,
		ZonesVisible: 2, TestedAt: now.Truncate(time.Microsecond), CreatedAt: now.Truncate(time.Microsecond),
	}
	if diff := cmp.Diff([]dnsconnection.Connection{want}, fx.storedConnections(t)); diff != "" || c != want {
		t.Fatalf("Add returned %+v, want %+v; stored connections (-want +got):\n%s", c, want, diff)
	}
	_, sealed, err := fx.store.DNSConnection(t.Context(), fx.ann, c.ID)
	must(t, err)
	for _, part := range []string{"good", "api_token", "dns.example.com"} {
		if strings.Contains(string(sealed), part) {
			t.Errorf("the sealed credential contains %q as plain text", part)
		}
	}
	duplicate := fx.connect(t, fx.ann, "cloudflare", "good")
	if duplicate.ID == c.ID || len(fx.storedConnections(t)) != 2 {
		t.Error("a second Add with the same credential did not create a second connection")
	}
}

func TestFailedAddStoresNoConnection(t *testing.T) {
	fx := newFixture(t)
	fx.byToken["down"], fx.byToken["invalid-setting"] = failingProvider{err: errDown}, failingProvider{err: errInvalidSetting}
	fx.byToken["stuck"] = failingProvider{err: context.DeadlineExceeded}
	fx.provideZones("good")
	_, err := fx.store.CloseAccount(t.Context(), fx.bob, now)
	must(t, err)
	for _, tc := range []struct {
		token string
		owner access.AccountID
		want  fault.Code
	}{
		{"bad", fx.ann, fault.CredentialRejected},
		{"down", fx.ann, fault.ProviderUnavailable},
		{"invalid-setting", fx.ann, fault.InvalidRequest},
		{"stuck", fx.ann, fault.ProviderTimeout},
		{"good", fx.bob, fault.AccountClosed},
		{"good", "10000000-0000-4000-8000-000000000000", fault.AccountNotFound},
	} {
		_, err := fx.Add(t.Context(), dnsconnections.NewConnection{Account: tc.owner, Provider: "cloudflare", Credential: credential(tc.token)})
		if fault.ErrorOf(err).Code != tc.want || len(fx.storedConnections(t)) != 0 {
			t.Errorf("the token %s: got %v, want %s; stored are %v, want none", tc.token, err, tc.want.Name, fx.storedConnections(t))
		}
	}
}

func TestTestStoresItsResult(t *testing.T) {
	fx := newFixture(t)
	provider := fx.provideZones("good", "a.test")
	c := fx.connect(t, fx.ann, "cloudflare", "good")
	later := now.Add(time.Hour).Truncate(time.Microsecond)
	fx.Now = func() time.Time { return later }
	provider.AddZone("b.test")
	got, err := fx.Test(t.Context(), "", c.ID)
	c.ZonesVisible, c.TestedAt = 2, later
	if err != nil || got != c || fx.storedConnections(t)[0] != c {
		t.Fatalf("a test with two zones: got %+v, %v, want %+v, also in the store", got, err, c)
	}
	delete(fx.byToken, "good")
	got, err = fx.Test(t.Context(), fx.ann, c.ID)
	c.Status = dnsconnection.Failed
	if !errors.Is(err, fault.CredentialRejected) || got != c || fx.storedConnections(t)[0] != c {
		t.Fatalf("a test with a rejected credential: got %+v, %v, want %+v, also in the store", got, err, c)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	fx.byToken["good"], fx.Now = provider, func() time.Time { return later.Add(time.Hour) }
	if _, err := fx.Test(cancelled, "", c.ID); err == nil || fx.storedConnections(t)[0] != c {
		t.Fatalf("a cancelled test: got %v, want an error; stored is %+v, want %+v", err, fx.storedConnections(t)[0], c)
	}
	for owner, id := range map[access.AccountID]string{fx.bob: c.ID, "": "10000000-0000-4000-8000-000000000000"} {
		if _, err := fx.Test(t.Context(), owner, id); !errors.Is(err, fault.DNSConnectionNotFound) {
			t.Errorf("a test of %q for the account %q: %v, want dns_connection_not_found", id, owner, err)
		}
	}
}

// TestCredentialOpensOnlyForItsConnectionAndAccount checks that a sealed credential cannot be
// opened in the row of a different connection or account.
func TestCredentialOpensOnlyForItsConnectionAndAccount(t *testing.T) {
	fx := newFixture(t)
	c := fx.connect(t, fx.ann, "cloudflare", "good")
	_, sealed, err := fx.store.DNSConnection(t.Context(), fx.ann, c.ID)
	must(t, err)
	for name, moved := range map[string]dnsconnection.Connection{
		"a different account":    {ID: c.ID, AccountID: fx.bob},
		"a different connection": {ID: "019aa000-0000-7000-8000-000000000001", AccountID: fx.ann},
	} {
		moved.Provider, moved.Status, moved.TestedAt, moved.CreatedAt = c.Provider, c.Status, now, now
		must(t, fx.store.AddDNSConnection(t.Context(), moved, sealed))
		var unreadable dnsconnections.UnreadableError
		if _, _, err := fx.Open(t.Context(), moved.AccountID, moved.ID); !errors.As(err, &unreadable) {
			t.Errorf("Open with the credential of %s: %v, want an UnreadableError", name, err)
		}
		got, err := fx.Test(t.Context(), moved.AccountID, moved.ID)
		if !errors.As(err, &unreadable) || got.Status != dnsconnection.Failed {
			t.Errorf("Test with the credential of %s: %+v, %v, want a failed connection and an UnreadableError", name, got, err)
		}
	}
}

func TestRemoveDeletesTheConnection(t *testing.T) {
	fx := newFixture(t)
	c := fx.connect(t, fx.ann, "cloudflare", "good")
	got, err := fx.Remove(t.Context(), c.ID)
	if err != nil || got != c || len(fx.storedConnections(t)) != 0 {
		t.Fatalf("Remove returns %+v, %v, want %+v; stored are %v, want none", got, err, c, fx.storedConnections(t))
	}
	if _, err := fx.Remove(t.Context(), c.ID); !errors.Is(err, fault.DNSConnectionNotFound) {
		t.Fatalf("a second Remove: got %v, want dns_connection_not_found", err)
	}
}
