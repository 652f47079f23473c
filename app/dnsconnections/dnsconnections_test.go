// SPDX-License-Identifier: Apache-2.0

package dnsconnections_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/secrets"
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

var now = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// fixture has one provider for each token; other tokens are refused.
type fixture struct {
	*dnsconnections.Service
	store    *bunstore.Store
	byToken  map[string]ports.DNSProvider
	asked    []string // tokens, in the order of calls
	ann, bob access.AccountID
}

func (w *fixture) Providers(context.Context) ([]dns.Provider, error) { return nil, nil }

func (w *fixture) For(_ string, credential secret.Credential) ports.DNSProvider {
	token := credential.Secrets["api_token"].Reveal()
	w.asked = append(w.asked, token)
	if p := w.byToken[token]; p != nil {
		return p
	}
	return fake.Refusing{}
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store, err := bunstore.Open(t.Context(), bunstore.Memory, bunstore.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	must(t, store.Migrate(t.Context()))
	sealer, err := secrets.OpenKeyset(filepath.Join(t.TempDir(), "keyset"), true)
	must(t, err)
	w := &fixture{store: store, byToken: map[string]ports.DNSProvider{}}
	w.Service = &dnsconnections.Service{Connections: store, Providers: w, Sealer: sealer, Now: func() time.Time { return now }}
	for _, at := range []*access.AccountID{&w.ann, &w.bob} {
		acc, err := store.CreateAccount(t.Context(), map[bool]string{true: "ann", false: "bob"}[at == &w.ann]+"@example.com", "complete", 0, now)
		must(t, err)
		*at = acc.ID
	}
	return w
}

// provide adds a token that reaches these zones.
func (w *fixture) provide(token string, zones ...string) *fake.DNSProvider {
	p := &fake.DNSProvider{}
	for _, zone := range zones {
		p.AddZone(zone)
	}
	w.byToken[token] = p
	return p
}

func credential(token string) secret.Credential {
	return secret.Credential{
		Settings: map[string]string{"api_url": "https://dns.example.com"}, Secrets: map[string]secret.Text{"api_token": secret.New(token)},
	}
}

// connect adds a connection whose token is valid.
func (w *fixture) connect(t *testing.T, owner access.AccountID, provider, token string) dnsconnection.Connection {
	t.Helper()
	if w.byToken[token] == nil {
		w.provide(token)
	}
	c, err := w.Add(t.Context(), dnsconnections.New{Account: owner, Provider: provider, Name: token, Credential: credential(token)})
	must(t, err)
	return c
}

func (w *fixture) stored(t *testing.T) []dnsconnection.Connection {
	t.Helper()
	all, err := w.List(t.Context(), "")
	must(t, err)
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// failing is a provider whose calls all fail with one error.
type failing struct {
	ports.DNSProvider

	err error
}

func (f failing) Check(context.Context) (int, error)             { return 0, f.err }
func (f failing) Zone(context.Context, string) (dns.Zone, error) { return dns.Zone{}, f.err }

var (
	down   = &outcome.Error{Kind: outcome.Down, Detail: "nobody there"}
	absurd = &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Detail: "api_url: it is a URL"}
)

func TestAddTestsAndStores(t *testing.T) {
	w := newFixture(t)
	w.provide("good", "a.test", "b.test")
	c := w.connect(t, w.ann, "cloudflare", "good")
	want := dnsconnection.Connection{
		ID: c.ID, AccountID: w.ann, Provider: "cloudflare", Name: "good", Status: dnsconnection.Connected,
		ZonesVisible: 2, TestedAt: now.Truncate(time.Microsecond), CreatedAt: now.Truncate(time.Microsecond),
	}
	if diff := cmp.Diff([]dnsconnection.Connection{want}, append([]dnsconnection.Connection{}, w.stored(t)...)); diff != "" || c != want {
		t.Fatalf("%+v\n%s", c, diff)
	}
	_, sealed, err := w.store.DNSConnection(t.Context(), w.ann, c.ID)
	must(t, err)
	for _, part := range []string{"good", "api_token", "dns.example.com"} {
		if strings.Contains(string(sealed), part) {
			t.Errorf("%q can be read", part)
		}
	}
	second := w.connect(t, w.ann, "cloudflare", "good")
	if second.ID == c.ID || len(w.stored(t)) != 2 {
		t.Error("the same provider twice is not two connections")
	}
}

func TestRejectedCredentialIsNotStored(t *testing.T) {
	w := newFixture(t)
	w.byToken["down"], w.byToken["absurd"] = failing{err: down}, failing{err: absurd}
	w.byToken["stuck"] = failing{err: context.DeadlineExceeded}
	w.provide("good")
	_, err := w.store.CloseAccount(t.Context(), w.bob, now)
	must(t, err)
	for _, tt := range []struct {
		token string
		owner access.AccountID
		want  fault.Code
	}{
		{"bad", w.ann, fault.CredentialRejected},
		{"down", w.ann, fault.ProviderUnavailable},
		{"absurd", w.ann, fault.InvalidRequest},
		{"stuck", w.ann, fault.ProviderTimeout},
		{"good", w.bob, fault.AccountClosed},
		{"good", "10000000-0000-4000-8000-000000000000", fault.AccountNotFound},
	} {
		_, err := w.Add(t.Context(), dnsconnections.New{Account: tt.owner, Provider: "cloudflare", Credential: credential(tt.token)})
		if fault.Of(err).Code != tt.want || len(w.stored(t)) != 0 {
			t.Errorf("%s: %v, stored %v", tt.token, err, w.stored(t))
		}
	}
}

func TestTestStoresHowItEnded(t *testing.T) {
	w := newFixture(t)
	p := w.provide("good", "a.test")
	c := w.connect(t, w.ann, "cloudflare", "good")
	later := now.Add(time.Hour).Truncate(time.Microsecond)
	w.Now = func() time.Time { return later }
	p.AddZone("b.test")
	got, err := w.Test(t.Context(), "", c.ID)
	c.ZonesVisible, c.TestedAt = 2, later
	if err != nil || got != c || w.stored(t)[0] != c {
		t.Fatalf("%+v, %v", got, err)
	}
	delete(w.byToken, "good")
	got, err = w.Test(t.Context(), w.ann, c.ID)
	c.Status = dnsconnection.Failed
	if !errors.Is(err, fault.CredentialRejected) || got != c || w.stored(t)[0] != c {
		t.Fatalf("%+v, %v", got, err)
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	w.byToken["good"], w.Now = p, func() time.Time { return later.Add(time.Hour) }
	if _, err := w.Test(given, "", c.ID); err == nil || w.stored(t)[0] != c {
		t.Fatalf("a test that was given up: %v, %+v", err, w.stored(t)[0])
	}
	for owner, id := range map[access.AccountID]string{w.bob: c.ID, "": "10000000-0000-4000-8000-000000000000"} {
		if _, err := w.Test(t.Context(), owner, id); !errors.Is(err, fault.DNSConnectionNotFound) {
			t.Errorf("%q of %q: %v", id, owner, err)
		}
	}
}

// TestACredentialIsOfItsConnectionAndAccount checks that a sealed credential opens only in the row
// that it was sealed for.
func TestACredentialIsOfItsConnectionAndAccount(t *testing.T) {
	w := newFixture(t)
	c := w.connect(t, w.ann, "cloudflare", "good")
	_, sealed, err := w.store.DNSConnection(t.Context(), w.ann, c.ID)
	must(t, err)
	for name, moved := range map[string]dnsconnection.Connection{
		"another account's": {ID: c.ID, AccountID: w.bob},
		"another one":       {ID: "019aa000-0000-7000-8000-000000000001", AccountID: w.ann},
	} {
		moved.Provider, moved.Status, moved.TestedAt, moved.CreatedAt = c.Provider, c.Status, now, now
		must(t, w.store.AddDNSConnection(t.Context(), moved, sealed))
		var unreadable dnsconnections.Unreadable
		if _, _, err := w.Open(t.Context(), moved.AccountID, moved.ID); !errors.As(err, &unreadable) {
			t.Errorf("%s: %v", name, err)
		}
		got, err := w.Test(t.Context(), moved.AccountID, moved.ID)
		if !errors.As(err, &unreadable) || got.Status != dnsconnection.Failed {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestRemoveForgets(t *testing.T) {
	w := newFixture(t)
	c := w.connect(t, w.ann, "cloudflare", "good")
	got, err := w.Remove(t.Context(), c.ID)
	if err != nil || got != c || len(w.stored(t)) != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := w.Remove(t.Context(), c.ID); !errors.Is(err, fault.DNSConnectionNotFound) {
		t.Fatalf("again: %v", err)
	}
}
