// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	must       = apptest.Must
	refused    = apptest.RequireRefusal
	openStore  = apptest.NewStore
	inFakeTime = apptest.InFakeTime
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
	acc       access.Account
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	h := &fixture{fake: fake.New(), store: openStore(t), sealer: apptest.NewSealer(t), providers: &fake.DNSProviders{}}
	h.Service = h.service(h.fake, h.store)
	h.fake.Connect(guid, fake.Setup{})
	h.fake.DNS.Publish(zone)
	acc, err := h.store.CreateAccount(t.Context(), "owner@example.com", "complete", 0, h.Now())
	must(t, err)
	h.acc = acc
	_, err = h.store.Attach(t.Context(), acc.ID, tenant.Tenant{
		GUID: guid, Name: "Fabrikam", BuiltinDomain: "f.onmicrosoft.com", ConsentedAt: h.Now(),
	})
	must(t, err)
	h.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap, x.Consent = tenant.BootstrapReady, tenant.ConsentGranted })
	return h
}

// service returns the service of a new process, with this platform and this store.
func (h *fixture) service(p ports.MailPlatform, d ports.Domains) *Service {
	pass := &reconcile.Reconciler{
		Platform: p, Domains: d, DNS: h.fake.DNS, Facts: h.fake, Now: time.Now,
		Limit: apptest.HangTimeout, Pause: time.Millisecond,
	}
	return &Service{Search: apptest.HangTimeout, Removals: h.store, Steps: &domainsteps.Steps{
		Tenants: h.store, Domains: d, Platform: p, DNS: h.fake.DNS, Facts: h.fake, Reconciler: pass, Now: time.Now, Writes: h.store,
		Connections: &dnsconnections.Service{Connections: h.store, Providers: h.providers, Sealer: h.sealer, Now: time.Now},
	}}
}

// lag makes the mail server accept a domain only after more time than a pass has. It is for tests
// in fake time.
func (h *fixture) lag() {
	h.fake.SetLag(guid, fake.Lag{CallsUntilListed: 1_000_000})
	h.Reconciler.Limit = 100 * time.Millisecond
}

func (h *fixture) changeTenant(t *testing.T, change func(*tenant.Tenant)) {
	t.Helper()
	apptest.ChangeTenant(t, h.store, h.acc.ID, guid, change)
}

func (h *fixture) tenant(t *testing.T) tenant.Tenant {
	t.Helper()
	stored, err := h.store.Tenant(t.Context(), h.acc.ID, guid)
	must(t, err)
	return stored
}

func (h *fixture) stored(t *testing.T) domain.Domain {
	t.Helper()
	d, err := h.store.Domain(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	return d
}

// added adds the domain. published also publishes its ownership record, verified also verifies it,
// and signable also publishes the DKIM CNAMEs.
func (h *fixture) added(t *testing.T) AddResult {
	t.Helper()
	got, err := h.Add(t.Context(), h.acc, guid, zone, nil)
	must(t, err)
	return got
}

func (h *fixture) published(t *testing.T) {
	t.Helper()
	h.fake.DNS.Publish(zone, h.added(t).Domain.Verification...)
}

func (h *fixture) verified(t *testing.T) domain.Domain {
	t.Helper()
	h.published(t)
	d, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	return d
}

func (h *fixture) signable(t *testing.T) {
	t.Helper()
	d := h.verified(t)
	h.publish(d, d.Signing.Selector1, d.Signing.Selector2)
}

func (h *fixture) publish(d domain.Domain, extra ...dns.Record) {
	h.fake.DNS.Publish(zone, append(append(append([]dns.Record{}, d.Verification...), d.Service...), extra...)...)
}
