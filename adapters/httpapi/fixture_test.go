// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/console"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/audits"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/app/events"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

var must = apptest.Must

const (
	tenantOfA = tenant.GUID("aaaaaaaa-0000-4000-8000-000000000001")
	tenantOfB = tenant.GUID("bbbbbbbb-0000-4000-8000-000000000002")
)

// testEnv has the services behind the API and two accounts with a tenant each. By default its store
// is SQLite in memory. Its providers are fakes.
type testEnv struct {
	store              *bunstore.Store
	platform           *fake.Platform
	dnsProviders       fake.DNSProviders
	sendingPlatforms   fake.SendingPlatforms
	sendingPlatform    *fake.SendingPlatform // accepts exampleAPIKey
	options            httpapi.Options
	queue              fake.Wakeups
	accountA, accountB testAccount
}

// testAccount is an account with an API key and a tenant.
type testAccount struct {
	account access.Account
	key     string
	tenant  tenant.GUID
}

// administrator returns the address of the administrator of the account's tenant at the fake
// platform.
func (a testAccount) administrator() string {
	return "admin@t" + strings.ReplaceAll(string(a.tenant), "-", "")[:8] + ".onmicrosoft.com"
}

func newTestEnv(t testing.TB) *testEnv {
	t.Helper()
	return newTestEnvOn(t, bunstore.MemoryURL)
}

// newTestEnvOn returns an environment whose store uses the database with this URL.
func newTestEnvOn(t testing.TB, databaseURL string) *testEnv {
	t.Helper()
	store, err := bunstore.Open(t.Context(), databaseURL, apptest.StoreOptions())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	must(t, store.Migrate(t.Context()))
	env := &testEnv{store: store, platform: fake.New()}
	env.sendingPlatform = env.addSendingPlatforms()
	keyset, err := secrets.OpenKeyset(filepath.Join(t.TempDir(), "keyset.json"), secrets.CreateMissing)
	must(t, err)
	platform := wire.MailInProcess(env.platform, recordingCalls(breaker.ByTenant))
	reconciler := &reconcile.Reconciler{Platform: platform, Domains: store, DNS: env.platform.DNS, Facts: env.platform, Now: time.Now, Timeout: testTimeout, Pause: time.Millisecond}
	env.options = httpapi.Options{
		Guard: guard.Options{
			Log:         slog.New(slog.DiscardHandler),
			Keys:        &keys.Service{Keys: store, AccountKeys: store, Prefix: "tny", Random: rand.Reader, Now: time.Now},
			Idempotency: guard.Idempotency{Keys: store, Sealer: keyset, Fingerprinter: keyset, Now: time.Now},
			Audit:       store,
			Limits:      guard.Limits{Counters: newCounters(t), Off: true},
		},
		Tenants: &tenants.Service{Tenants: store, Assignments: store, Discoveries: store, Domains: store, Flows: store, Sessions: store, Settings: store, Accounts: store, Policies: store, Claims: store, Capacity: store,
			Platform: platform, Reconciler: reconciler, Sealer: keyset, Random: rand.Reader, Now: time.Now,
			PublicURL: "https://api.example", PlatformName: "microsoft365"},
		Domains: &domains.Service{Removals: store, Steps: &domainsteps.Steps{Tenants: store, Domains: store, Platform: platform, DNS: env.platform.DNS, Facts: env.platform, Reconciler: reconciler, Writes: store, Now: time.Now,
			Connections: &dnsconnections.Service{Connections: store, Providers: &env.dnsProviders, Sealer: keyset, Now: time.Now}}},
		DNSRuns: &dnsruns.Service{Tenants: store, Domains: store, Runs: store, Queue: &env.queue, Random: rand.Reader, Now: time.Now,
			Trace: func(context.Context) string { return "" }},
		Mailboxes: &mailboxes.Service{Tenants: store, Domains: store, Mailboxes: store, Policies: store, Platform: platform, Reconciler: reconciler, Now: time.Now,
			RequireSMTPAuth: true, Pause: time.Millisecond, Timeout: testTimeout},
		Integrations: &integrations.Service{Integrations: store, Connections: store, Tenants: store, Platforms: interceptedSending{&env.sendingPlatforms, recordingCalls(breaker.ByCredential("one"))}, Sealer: keyset,
			Queue: &env.queue, Random: rand.Reader, Now: time.Now},
		SendLimits: &limits.Service{Claims: store, Removals: store, Tenants: store, Domains: store, Mailboxes: store, Policies: store, Platform: platform, Now: time.Now,
			Pause: time.Millisecond, Timeout: testTimeout},
		Enforcement: &enforcement.Service{Events: store, Now: time.Now},
		Events:      &events.Service{Events: store, Now: time.Now, Log: slog.New(slog.DiscardHandler)},
		Audit:       &audits.Service{Chains: store, Now: time.Now},
	}
	env.addWebhookService(keyset)
	env.options.DNSRuns.Survey = env.options.Domains
	env.options.Mailboxes.Removals, env.options.Mailboxes.Connections = store, env.options.Integrations
	env.options.Profile = &keys.Profile{Tenants: store, Platforms: &env.sendingPlatforms, Providers: &env.dnsProviders, Connections: store}
	env.accountA = env.addAccount(t, "ann@a.example", tenantOfA)
	env.accountB = env.addAccount(t, "bob@b.example", tenantOfB)
	return env
}

// longWindows is a limiter whose windows last at least ten minutes. On a slow machine, the first
// requests of a test could leave a shorter window before the test ends.
type longWindows struct{ ports.Limiter }

func (l longWindows) Take(ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
	b.Window = max(b.Window, 10*time.Minute)
	return l.Limiter.Take(ctx, b)
}

func (l longWindows) Remaining(ctx context.Context, b ratelimit.Bucket) int {
	b.Window = max(b.Window, 10*time.Minute)
	return l.Limiter.Remaining(ctx, b)
}

// newCounters returns a longWindows with the counters of one process, without Redis.
func newCounters(t testing.TB) ports.Limiter {
	t.Helper()
	l, err := limiter.Open(t.Context(), limiter.Options{})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return longWindows{l}
}

// addAccount adds an account with a new API key and a connected tenant.
func (env *testEnv) addAccount(t testing.TB, email string, id tenant.GUID) testAccount {
	t.Helper()
	account, err := env.store.CreateAccount(t.Context(), email, "api_starter", 0, time.Now())
	must(t, err)
	env.platform.Connect(id, fake.Setup{})
	_, err = env.store.Attach(t.Context(), account.ID, tenant.Tenant{GUID: id, Name: "Tenant", BuiltinDomain: "t.onmicrosoft.com",
		Consent: tenant.ConsentGranted, ConsentedAt: time.Now(), ConnectedBy: "admin@t.onmicrosoft.com", Bootstrap: tenant.BootstrapPending,
		SMTPAuth: tenant.SMTPAuthUnknown, Discovery: tenant.DiscoveryPending})
	must(t, err)
	return testAccount{account: account, key: env.addKey(t, account.ID), tenant: id}
}

func (env *testEnv) addKey(t testing.TB, id access.AccountID) string {
	t.Helper()
	return env.addBoundedKey(t, id, access.Unbounded())
}

func (env *testEnv) addBoundedKey(t testing.TB, id access.AccountID, bounds access.Bounds) string {
	t.Helper()
	key, text, err := access.NewKey(rand.Reader, "tny", access.Live, id, "test", time.Now())
	must(t, err)
	key.Bounds = bounds
	must(t, env.store.AddKey(t.Context(), key))
	return text.Reveal()
}

func (env *testEnv) deactivate(t *testing.T, owner testAccount) {
	t.Helper()
	if _, err := env.store.SetActive(t.Context(), owner.account.ID, false); err != nil {
		t.Fatal(err)
	}
}

func (env *testEnv) handler(t testing.TB) http.Handler {
	t.Helper()
	return httpapi.New(env.options)
}

// publishRecords publishes the verification and service records that the platform requires for a
// domain.
func (env *testEnv) publishRecords(t *testing.T, owner testAccount, name string) {
	t.Helper()
	ctx := context.Background()
	records, err := env.platform.For(owner.tenant).Records(ctx, name)
	must(t, err)
	env.platform.DNS.Publish(name, append(records.Verification, records.Service...)...)
}

func (env *testEnv) dkimRecords(t *testing.T, owner testAccount, name string) []dns.Record {
	t.Helper()
	s, err := env.platform.For(owner.tenant).Signing(t.Context(), name)
	must(t, err)
	return []dns.Record{s.Selector1, s.Selector2}
}

// addMailbox adds a discovered mailbox to the account's tenant and returns its path in the API.
func (env *testEnv) addMailbox(t *testing.T, owner testAccount) string {
	t.Helper()
	_, m := env.addDomainAndMailbox(t, owner)
	return "/v1/tenants/" + string(owner.tenant) + "/mailboxes/" + m.ID
}

// addDomainAndMailbox adds a verified domain and a mailbox in it to the account's tenant.
func (env *testEnv) addDomainAndMailbox(t *testing.T, owner testAccount) (domain.Domain, mailbox.Mailbox) {
	t.Helper()
	name := string(owner.tenant)[:8] + ".example"
	err := env.store.SaveDiscovery(t.Context(), owner.account.ID, owner.tenant, ports.DiscoveryResult{
		Began:     time.Now(),
		Domains:   []domain.Platform{{Name: name, Verified: true}},
		Mailboxes: []mailbox.Platform{{ObjectID: "object-" + name, DisplayName: "Ana", Address: "ana@" + name, PrincipalName: "ana@" + name, Alias: "ana", AccountEnabled: true, CreatedAt: time.Now()}},
	})
	must(t, err)
	d, err := env.store.Domain(t.Context(), owner.account.ID, owner.tenant, name)
	must(t, err)
	d.MailReady = true
	if d, err = env.store.ChangeDomain(t.Context(), owner.account.ID, d); err != nil {
		t.Fatal(err)
	}
	discovered, err := env.store.Mailboxes(t.Context(), owner.account.ID, owner.tenant)
	if err != nil || len(discovered) != 1 {
		t.Fatalf("the mailboxes are %v, want one (%v)", discovered, err)
	}
	return d, discovered[0]
}

const (
	integrationsPath = "/v1/integrations"
	oauthPath        = integrationsPath + "/{integration_id}/mailboxes/{mailbox_id}/oauth/microsoft"
	exampleAPIKey    = "<PROVIDER_API_KEY>" // the value in the examples of the OpenAPI document
)

// recordingCalls returns the interceptor that records in ports.Effects whether a provider was
// called. It is a circuit breaker that does not open in these tests.
func recordingCalls(faultDomain breaker.FaultDomain) wire.Interceptor {
	return breaker.New(breaker.Options{Failures: 1000}).Interceptor(faultDomain)
}

// interceptedSending calls the fake platforms through an interceptor.
type interceptedSending struct {
	*fake.SendingPlatforms
	interceptor wire.Interceptor
}

func (p interceptedSending) For(provider string, c secret.Credential) ports.SendingPlatform {
	return wire.SendingInProcess(p.SendingPlatforms.For(provider, c), p.interceptor)
}

// addSendingPlatforms adds the providers instantly and salesblink. It returns the fake platform to
// which exampleAPIKey has access.
func (env *testEnv) addSendingPlatforms() *fake.SendingPlatform {
	platform := fake.NewSendingPlatform()
	platform.Now = time.Now
	for _, id := range []string{"instantly", "salesblink"} {
		env.sendingPlatforms.AddProvider(integration.Provider{ID: id, Title: id, AuthHosts: []string{"login.microsoftonline.com"}}, nil)
		for _, workspace := range []string{"", "ws-1", "ws-9"} {
			env.sendingPlatforms.AddWorkspace(id, exampleAPIKey, workspace, platform)
		}
	}
	return platform
}

// addIntegration adds an integration with instantly to an account.
func (env *testEnv) addIntegration(t *testing.T, owner testAccount) integration.Integration {
	t.Helper()
	created, err := env.options.Integrations.Create(t.Context(), integrations.NewIntegration{Account: owner.account.ID, Provider: "instantly", Name: "Outbound", APIKey: secret.New(exampleAPIKey)}, nil)
	must(t, err)
	return created.Integration
}

// addSession stores a pending OAuth session for the mailbox and returns its id.
func (env *testEnv) addSession(t *testing.T, owner testAccount, i integration.Integration, m mailbox.Mailbox) string {
	t.Helper()
	now := time.Now().UTC()
	s := integration.Session{ID: newID(now), IntegrationID: i.ID, MailboxID: m.ID, Status: integration.SessionPending, Opened: true, PlatformID: "session-0",
		CreatedAt: now, ExpiresAt: now.Add(10 * time.Minute), CheckedAt: now.Add(time.Hour)} // in the future, so the platform is not called
	must(t, env.store.BeginSession(t.Context(), owner.account.ID, s, newID(now), now.Add(-time.Minute)))
	return s.ID
}

func (env *testEnv) addConnectSession(t *testing.T, owner testAccount) string {
	t.Helper()
	link, err := env.options.Tenants.ConnectURL(t.Context(), owner.account, tenants.LinkRequest{})
	must(t, err)
	return link.SessionID
}

// serveConnectPages adds the connect pages to the handlers that are created afterwards.
func (env *testEnv) serveConnectPages() {
	env.options.Guard.Pages = console.New(console.Options{
		Tenants: env.options.Tenants, Log: env.options.Guard.Log, Platform: "microsoft365", Facts: env.platform, Setting: func(string) string { return "" },
	})
}

func newID(now time.Time) string {
	return ident.New(now, [ident.EntropyBytes]byte([]byte(rand.Text())[:ident.EntropyBytes]))
}

func (env *testEnv) attachTenant(t *testing.T, owner testAccount, id tenant.GUID) {
	t.Helper()
	env.platform.Connect(id, fake.Setup{})
	_, err := env.store.Attach(t.Context(), owner.account.ID, tenant.Tenant{GUID: id, Name: "More", BuiltinDomain: "m.onmicrosoft.com",
		Consent: tenant.ConsentGranted, ConsentedAt: time.Now(), Bootstrap: tenant.BootstrapPending, SMTPAuth: tenant.SMTPAuthUnknown,
		Discovery: tenant.DiscoveryPending})
	must(t, err)
}

func (env *testEnv) markProvisioned(t *testing.T, owner testAccount, m mailbox.Mailbox) {
	t.Helper()
	m.Provisioned, m.Observed.Stage = true, time.Now()
	must(t, env.store.SaveMailbox(context.Background(), owner.account.ID, m))
}
