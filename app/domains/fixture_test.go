// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

var (
	must           = apptest.Must
	requireRefusal = apptest.RequireRefusal
	openStore      = apptest.NewStore
	inFakeTime     = apptest.InFakeTime
)

const (
	guid = tenant.GUID("11111111-2222-4333-8444-555555555555")
	zone = "example.test"
)

// fixture is a service over SQLite and the fake platform. It has a ready tenant and a published
// zone without records.
type fixture struct {
	*Service
	store     *bunstore.Store
	fake      *fake.Platform
	providers *fake.DNSProviders
	sealer    ports.Sealer
	account   access.Account
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{fake: fake.New(), store: openStore(t), sealer: apptest.NewSealer(t), providers: &fake.DNSProviders{}}
	fx.Service = fx.service(fx.fake, fx.store)
	fx.fake.Connect(guid, fake.Setup{})
	fx.fake.DNS.Publish(zone)
	account, err := fx.store.CreateAccount(t.Context(), "owner@example.com", "complete", 0, fx.Now())
	must(t, err)
	fx.account = account
	_, err = fx.store.Attach(t.Context(), account.ID, tenant.Tenant{
		GUID: guid, Name: "Fabrikam", BuiltinDomain: "f.onmicrosoft.com", ConsentedAt: fx.Now(),
	})
	must(t, err)
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap, x.Consent = tenant.BootstrapReady, tenant.ConsentGranted })
	return fx
}

// service returns a new Service without in-memory state, as after a restart. It uses platform and
// domains. All other ports are those of the fixture.
func (fx *fixture) service(platform ports.MailPlatform, domains ports.Domains) *Service {
	reconciler := &reconcile.Reconciler{
		Platform: platform, Domains: domains, DNS: fx.fake.DNS, Facts: fx.fake, Now: time.Now,
		Timeout: apptest.HangTimeout, Pause: time.Millisecond,
	}
	return &Service{Search: apptest.HangTimeout, Removals: fx.store, Steps: &domainsteps.Steps{
		Tenants: fx.store, Domains: domains, Platform: platform, DNS: fx.fake.DNS, Facts: fx.fake, Reconciler: reconciler, Now: time.Now, Writes: fx.store,
		Connections: &dnsconnections.Service{Connections: fx.store, Providers: fx.providers, Sealer: fx.sealer, Now: time.Now},
	}}
}

// lagMailServer makes the mail server accept domains so late that ReconcileDomain reaches its time
// limit first. It is for tests in fake time.
func (fx *fixture) lagMailServer() {
	fx.fake.SetLag(guid, fake.Lag{CallsUntilListed: 1_000_000})
	fx.Reconciler.Timeout = 100 * time.Millisecond
}

func (fx *fixture) changeTenant(t *testing.T, change func(*tenant.Tenant)) {
	t.Helper()
	apptest.ChangeTenant(t, fx.store, fx.account.ID, guid, change)
}

func (fx *fixture) storedTenant(t *testing.T) tenant.Tenant {
	t.Helper()
	stored, err := fx.store.Tenant(t.Context(), fx.account.ID, guid)
	must(t, err)
	return stored
}

func (fx *fixture) storedDomain(t *testing.T) domain.Domain {
	t.Helper()
	d, err := fx.store.Domain(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	return d
}

func (fx *fixture) addDomain(t *testing.T) AddResult {
	t.Helper()
	got, err := fx.Add(t.Context(), fx.account, guid, zone, nil)
	must(t, err)
	return got
}

// addAndPublish adds the domain and publishes its ownership record.
func (fx *fixture) addAndPublish(t *testing.T) {
	t.Helper()
	fx.fake.DNS.Publish(zone, fx.addDomain(t).Domain.Verification...)
}

func (fx *fixture) addAndVerify(t *testing.T) domain.Domain {
	t.Helper()
	fx.addAndPublish(t)
	d, err := fx.Verify(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	return d
}

// addAndPublishDKIM adds and verifies the domain, and publishes all its records, among them the
// DKIM CNAMEs.
func (fx *fixture) addAndPublishDKIM(t *testing.T) {
	t.Helper()
	d := fx.addAndVerify(t)
	fx.publish(d, d.Signing.Selector1, d.Signing.Selector2)
}

// publish publishes the verification and service records of d, and further records.
func (fx *fixture) publish(d domain.Domain, further ...dns.Record) {
	fx.fake.DNS.Publish(zone, slices.Concat(d.Verification, d.Service, further)...)
}
