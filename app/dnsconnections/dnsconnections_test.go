// SPDX-License-Identifier: Apache-2.0

package dnsconnections_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = apptest.Must

var now = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// fixture is a service whose providers are found by the token. A token without a provider is
// refused.
type fixture struct {
	*dnsconnections.Service
	store      *bunstore.Store
	byToken    map[string]ports.DNSProvider
	usedTokens []string // in the order of calls
	ann, bob   access.AccountID
}

func (f *fixture) Providers(context.Context) ([]dns.Provider, error) { return nil, nil }

func (f *fixture) For(_ string, credential secret.Credential) ports.DNSProvider {
	token := credential.Secrets["api_token"].Reveal()
	f.usedTokens = append(f.usedTokens, token)
	if p := f.byToken[token]; p != nil {
		return p
	}
	return fake.RefusingDNSProvider{}
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store := apptest.NewStore(t)
	f := &fixture{store: store, byToken: map[string]ports.DNSProvider{}}
	f.Service = &dnsconnections.Service{Connections: store, Providers: f, Sealer: apptest.NewSealer(t), Now: func() time.Time { return now }}
	for _, at := range []*access.AccountID{&f.ann, &f.bob} {
		acc, err := store.CreateAccount(t.Context(), map[bool]string{true: "ann", false: "bob"}[at == &f.ann]+"@example.com", "complete", 0, now)
		must(t, err)
		*at = acc.ID
	}
	return f
}

// provide adds a provider that accepts the token and has these zones.
func (f *fixture) provide(token string, zones ...string) *fake.DNSProvider {
	p := &fake.DNSProvider{}
	for _, zone := range zones {
		p.AddZone(zone)
	}
	f.byToken[token] = p
	return p
}

func credential(token string) secret.Credential {
	return secret.Credential{
		Settings: map[string]string{"api_url": "https://dns.example.com"}, Secrets: map[string]secret.Text{"api_token": secret.New(token)},
	}
}

// connect adds a connection whose token is valid.
func (f *fixture) connect(t *testing.T, owner access.AccountID, provider, token string) dnsconnection.Connection {
	t.Helper()
	if f.byToken[token] == nil {
		f.provide(token)
	}
	c, err := f.Add(t.Context(), dnsconnections.New{Account: owner, Provider: provider, Name: token, Credential: credential(token)})
	must(t, err)
	return c
}

func (f *fixture) stored(t *testing.T) []dnsconnection.Connection {
	t.Helper()
	all, err := f.List(t.Context(), "")
	must(t, err)
	return all
}

// failing is a provider whose calls all fail with one error.
type failing struct {
	ports.DNSProvider

	err error
}

func (f failing) Check(context.Context) (int, error)             { return 0, f.err }
func (f failing) Zone(context.Context, string) (dns.Zone, error) { return dns.Zone{}, f.err }

var (
	errDown           = &outcome.Error{Kind: outcome.Down, Detail: "nobody there"}
	errInvalidSetting = &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Detail: "api_url: it must be a URL"}
)

func TestAddTestsAndStores(t *testing.T) {
	f := newFixture(t)
	f.provide("good", "a.test", "b.test")
	c := f.connect(t, f.ann, "cloudflare", "good")
	want := dnsconnection.Connection{
		ID: c.ID, AccountID: f.ann, Provider: "cloudflare", Name: "good", Status: dnsconnection.Connected,
		ZonesVisible: 2, TestedAt: now.Truncate(time.Microsecond), CreatedAt: now.Truncate(time.Microsecond),
	}
	if diff := cmp.Diff([]dnsconnection.Connection{want}, append([]dnsconnection.Connection{}, f.stored(t)...)); diff != "" || c != want {
		t.Fatalf("%+v\n%s", c, diff)
	}
	_, sealed, err := f.store.DNSConnection(t.Context(), f.ann, c.ID)
	must(t, err)
	for _, part := range []string{"good", "api_token", "dns.example.com"} {
		if strings.Contains(string(sealed), part) {
			t.Errorf("%q can be read", part)
		}
	}
	second := f.connect(t, f.ann, "cloudflare", "good")
	if second.ID == c.ID || len(f.stored(t)) != 2 {
		t.Error("the same provider twice is not two connections")
	}
}

func TestRejectedCredentialIsNotStored(t *testing.T) {
	f := newFixture(t)
	f.byToken["down"], f.byToken["absurd"] = failing{err: errDown}, failing{err: errInvalidSetting}
	f.byToken["stuck"] = failing{err: context.DeadlineExceeded}
	f.provide("good")
	_, err := f.store.CloseAccount(t.Context(), f.bob, now)
	must(t, err)
	for _, tt := range []struct {
		token string
		owner access.AccountID
		want  fault.Code
	}{
		{"bad", f.ann, fault.CredentialRejected},
		{"down", f.ann, fault.ProviderUnavailable},
		{"absurd", f.ann, fault.InvalidRequest},
		{"stuck", f.ann, fault.ProviderTimeout},
		{"good", f.bob, fault.AccountClosed},
		{"good", "10000000-0000-4000-8000-000000000000", fault.AccountNotFound},
	} {
		_, err := f.Add(t.Context(), dnsconnections.New{Account: tt.owner, Provider: "cloudflare", Credential: credential(tt.token)})
		if fault.Of(err).Code != tt.want || len(f.stored(t)) != 0 {
			t.Errorf("%s: %v, stored %v", tt.token, err, f.stored(t))
		}
	}
}

func TestTestStoresItsResult(t *testing.T) {
	f := newFixture(t)
	p := f.provide("good", "a.test")
	c := f.connect(t, f.ann, "cloudflare", "good")
	later := now.Add(time.Hour).Truncate(time.Microsecond)
	f.Now = func() time.Time { return later }
	p.AddZone("b.test")
	got, err := f.Test(t.Context(), "", c.ID)
	c.ZonesVisible, c.TestedAt = 2, later
	if err != nil || got != c || f.stored(t)[0] != c {
		t.Fatalf("%+v, %v", got, err)
	}
	delete(f.byToken, "good")
	got, err = f.Test(t.Context(), f.ann, c.ID)
	c.Status = dnsconnection.Failed
	if !errors.Is(err, fault.CredentialRejected) || got != c || f.stored(t)[0] != c {
		t.Fatalf("%+v, %v", got, err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	f.byToken["good"], f.Now = p, func() time.Time { return later.Add(time.Hour) }
	if _, err := f.Test(cancelled, "", c.ID); err == nil || f.stored(t)[0] != c {
		t.Fatalf("a cancelled test: %v, %+v", err, f.stored(t)[0])
	}
	for owner, id := range map[access.AccountID]string{f.bob: c.ID, "": "10000000-0000-4000-8000-000000000000"} {
		if _, err := f.Test(t.Context(), owner, id); !errors.Is(err, fault.DNSConnectionNotFound) {
			t.Errorf("%q of %q: %v", id, owner, err)
		}
	}
}

// TestCredentialOpensOnlyForItsConnectionAndAccount checks that a sealed credential cannot be
// opened in the row of a different connection or account.
func TestCredentialOpensOnlyForItsConnectionAndAccount(t *testing.T) {
	f := newFixture(t)
	c := f.connect(t, f.ann, "cloudflare", "good")
	_, sealed, err := f.store.DNSConnection(t.Context(), f.ann, c.ID)
	must(t, err)
	for name, moved := range map[string]dnsconnection.Connection{
		"a different account":    {ID: c.ID, AccountID: f.bob},
		"a different connection": {ID: "019aa000-0000-7000-8000-000000000001", AccountID: f.ann},
	} {
		moved.Provider, moved.Status, moved.TestedAt, moved.CreatedAt = c.Provider, c.Status, now, now
		must(t, f.store.AddDNSConnection(t.Context(), moved, sealed))
		var unreadable dnsconnections.Unreadable
		if _, _, err := f.Open(t.Context(), moved.AccountID, moved.ID); !errors.As(err, &unreadable) {
			t.Errorf("%s: %v", name, err)
		}
		got, err := f.Test(t.Context(), moved.AccountID, moved.ID)
		if !errors.As(err, &unreadable) || got.Status != dnsconnection.Failed {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestRemoveDeletesTheConnection(t *testing.T) {
	f := newFixture(t)
	c := f.connect(t, f.ann, "cloudflare", "good")
	got, err := f.Remove(t.Context(), c.ID)
	if err != nil || got != c || len(f.stored(t)) != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := f.Remove(t.Context(), c.ID); !errors.Is(err, fault.DNSConnectionNotFound) {
		t.Fatalf("again: %v", err)
	}
}
