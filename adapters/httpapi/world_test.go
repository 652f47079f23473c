// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	tenantOfA = tenant.GUID("aaaaaaaa-0000-4000-8000-000000000001")
	tenantOfB = tenant.GUID("bbbbbbbb-0000-4000-8000-000000000002")
)

// world is two accounts with a tenant each over a store in memory and the
// fake platform.
type world struct {
	store     *bunstore.Store
	platform  *fake.Platform
	providers fake.DNSProviders
	sending   fake.SendingPlatforms
	sent      *fake.SendingPlatform // where the example credential leads
	options   httpapi.Options
	woken     wakeups
	a, b      owner
}

// owner is an account with its key and what it holds.
type owner struct {
	account access.Account
	key     string
	tenant  tenant.GUID
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, bunstore.Memory)
}

func newWorldIn(t *testing.T, database string) *world {
	t.Helper()
	store, err := bunstore.Open(t.Context(), database, bunstore.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &world{store: store, platform: fake.New()}
	w.sent = w.sends()
	keyset, err := secrets.OpenKeyset(filepath.Join(t.TempDir(), "keyset.json"), true)
	if err != nil {
		t.Fatal(err)
	}
	platform := breaker.Mail(w.platform, breaker.Options{Failures: 1000}) // notes what was asked
	pass := &settling.Pass{Platform: platform, Domains: store, DNS: w.platform.DNS, Now: time.Now, Limit: hang, Pause: time.Millisecond}
	w.options = httpapi.Options{
		Log:  slog.New(slog.DiscardHandler),
		Keys: &keys.Service{Keys: store, Prefix: "tny", Random: rand.Reader, Now: time.Now},
		Tenants: &tenants.Service{Tenants: store, Assignments: store, Discovered: store, Domains: store, Flows: store, Accounts: store, Policies: store, Runs: store, Room: store,
			Platform: platform, Settling: pass, Sealer: keyset, Random: rand.Reader, Now: time.Now,
			PublicURL: "https://api.example"},
		Domains: &domains.Service{Tenants: store, Domains: store, Platform: platform, DNS: w.platform.DNS, Settling: pass, Writes: store, Now: time.Now,
			Connections: &dnsconnections.Service{Connections: store, Providers: &w.providers, Sealer: keyset, Now: time.Now}},
		DNSRuns: &dnsruns.Service{Tenants: store, Domains: store, Runs: store, Queue: &w.woken, Random: rand.Reader, Now: time.Now,
			Trace: func(context.Context) string { return "" }},
		Mailboxes: &mailboxes.Service{Tenants: store, Domains: store, Mailboxes: store, Policies: store, Platform: platform, Settling: pass, Now: time.Now,
			RequireSMTPAuth: true, Pause: time.Millisecond, Limit: hang},
		Integrations: &integrations.Service{Integrations: store, Connections: store, Tenants: store, Platforms: guardedSending{&w.sending, breaker.NewSending(breaker.Options{Failures: 1000})}, Sealer: keyset,
			Queue: &w.woken, Random: rand.Reader, Now: time.Now},
		SendLimits: &limits.Service{Tenants: store, Domains: store, Mailboxes: store, Policies: store, Platform: platform, Now: time.Now,
			Pause: time.Millisecond, Limit: hang},
		Enforcement: &enforcement.Service{Events: store, Now: time.Now},
		Idempotency: httpapi.Idempotency{Keys: store, Sealer: keyset, Prints: keyset, Now: time.Now},
		Limits:      httpapi.Limits{Counters: counters(t), Off: true},
	}
	w.options.DNSRuns.Survey = w.options.Domains
	w.a = w.addOwner(t, "ann@a.example", tenantOfA)
	w.b = w.addOwner(t, "bob@b.example", tenantOfB)
	return w
}

// counters are a process's own.
func counters(t *testing.T) ports.Limiter {
	t.Helper()
	l, err := limiter.Open(t.Context(), limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (w *world) addOwner(t *testing.T, email string, id tenant.GUID) owner {
	t.Helper()
	acc, err := w.store.CreateAccount(t.Context(), email, "api_starter", 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w.platform.Connect(id, fake.Setup{})
	_, err = w.store.Attach(t.Context(), acc.ID, tenant.Tenant{GUID: id, Name: "Tenant", BuiltinDomain: "t.onmicrosoft.com",
		Consent: tenant.ConsentGranted, ConsentedAt: time.Now(), ConnectedBy: "admin@t.onmicrosoft.com", Bootstrap: tenant.BootstrapPending,
		SMTPAuth: tenant.SMTPAuthUnknown, Discovery: tenant.DiscoveryPending}, acc.Plan.TenantSlots)
	if err != nil {
		t.Fatal(err)
	}
	return owner{account: acc, key: w.addKey(t, acc.ID), tenant: id}
}

func (w *world) addKey(t *testing.T, id access.AccountID) string {
	t.Helper()
	key, text, err := access.NewKey(rand.Reader, "tny", access.Live, id, "test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.AddKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	return text.Reveal()
}

// lapse ends an account's plan.
func (w *world) lapse(t *testing.T, o owner) {
	t.Helper()
	if _, err := w.store.SetActive(t.Context(), o.account.ID, false); err != nil {
		t.Fatal(err)
	}
}

func (w *world) handler(t *testing.T) http.Handler {
	t.Helper()
	return httpapi.New(w.options)
}

// publish lets the DNS show whatever the platform asks of a domain.
func (w *world) publish(t *testing.T, o owner, name string) {
	t.Helper()
	ctx := context.Background()
	records, err := w.platform.For(o.tenant).Records(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	w.platform.DNS.Publish(name, append(records.Verification, records.Service...)...)
}

// signing is the DKIM records that the platform has made for a domain.
func (w *world) signing(t *testing.T, o owner, name string) []dns.Record {
	t.Helper()
	s, err := w.platform.For(o.tenant).Signing(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return []dns.Record{s.Selector1, s.Selector2}
}

// mailbox makes a mailbox that discovery could have found and returns its path.
func (w *world) mailbox(t *testing.T, o owner) string {
	t.Helper()
	_, m := w.holding(t, o)
	return "/v1/tenants/" + string(o.tenant) + "/mailboxes/" + m.ID
}

// holding gives an owner a verified domain and a mailbox on it.
func (w *world) holding(t *testing.T, o owner) (domain.Domain, mailbox.Mailbox) {
	t.Helper()
	name := string(o.tenant)[:8] + ".example"
	err := w.store.SaveDiscovery(t.Context(), o.account.ID, o.tenant, ports.Found{
		Began:     time.Now(),
		Domains:   []domain.Domain{{Name: name, Added: true, Verified: true, MailReady: true}},
		Mailboxes: []mailbox.Platform{{ObjectID: "object-" + name, DisplayName: "Ana", Address: "ana@" + name, PrincipalName: "ana@" + name, Alias: "ana", AccountEnabled: true, CreatedAt: time.Now()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := w.store.Domain(t.Context(), o.account.ID, o.tenant, name)
	if err != nil {
		t.Fatal(err)
	}
	list, err := w.store.Mailboxes(t.Context(), o.account.ID, o.tenant)
	if err != nil || len(list) != 1 {
		t.Fatalf("mailboxes %v, %v", list, err)
	}
	return d, list[0]
}
