// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
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

var password = secret.New("Corr3ct-horse")

// fixture is a service over SQLite and the fake platform. It has a ready tenant and a verified
// domain that the mail server accepts.
type fixture struct {
	*Service
	store *bunstore.Store
	fake  *fake.Platform
	acc   access.Account
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	h := &fixture{fake: fake.New(), store: openStore(t)}
	h.Service = h.service()
	h.fake.Connect(guid, fake.Setup{})
	acc, err := h.store.CreateAccount(t.Context(), "owner@example.com", "complete", 0, h.Now())
	must(t, err)
	h.acc = acc
	_, err = h.store.Attach(t.Context(), acc.ID, tenant.Tenant{
		GUID: guid, Name: "Fabrikam", BuiltinDomain: "f.onmicrosoft.com", ConsentedAt: h.Now(),
	})
	must(t, err)
	h.changeTenant(t, func(x *tenant.Tenant) {
		x.Bootstrap, x.SMTPAuth, x.Consent = tenant.BootstrapReady, tenant.SMTPAuthEnabled, tenant.ConsentGranted
	})
	h.addDomain(t, zone)
	return h
}

// service returns a service as a new process would have it, with the same store and platform.
func (h *fixture) service() *Service {
	pass := &reconcile.Pass{
		Platform: h.fake, Domains: h.store, DNS: h.fake.DNS, Facts: h.fake, Now: time.Now,
		Limit: apptest.HangTimeout, Pause: time.Millisecond,
	}
	return &Service{
		Tenants: h.store, Domains: h.store, Mailboxes: h.store, Policies: h.store, Removals: h.store, Platform: h.fake, Reconciler: pass, Now: time.Now,
		RequireSMTPAuth: true, Pause: time.Millisecond, Limit: apptest.HangTimeout,
	}
}

func (h *fixture) changeTenant(t *testing.T, change func(*tenant.Tenant)) {
	t.Helper()
	apptest.ChangeTenant(t, h.store, h.acc.ID, guid, change)
}

func (h *fixture) changeDomain(t *testing.T, name string, change func(*domain.Domain)) {
	t.Helper()
	stored, err := h.store.Domain(t.Context(), h.acc.ID, guid, name)
	must(t, err)
	change(&stored)
	must(t, h.store.SaveDomain(t.Context(), h.acc.ID, stored, nil))
}

func (h *fixture) addDomain(t *testing.T, name string) {
	t.Helper()
	at := h.fake.For(guid)
	_, err := at.AddDomain(t.Context(), name)
	must(t, err)
	records, err := at.Records(t.Context(), name)
	must(t, err)
	h.fake.DNS.Publish(name, records.Verification...)
	_, err = at.VerifyDomain(t.Context(), name)
	must(t, err)
	must(t, at.EnableMail(t.Context(), name))
	d, err := h.store.ReserveDomain(t.Context(), h.acc.ID, guid, name, domain.MaxPerTenant, h.Now())
	must(t, err)
	d.Added, d.Verified, d.MailReady = true, true, true
	d.Status = dns.Status{MX: dns.Missing}
	must(t, h.store.SaveDomain(t.Context(), h.acc.ID, d, nil))
}

func (h *fixture) provision(ctx context.Context, addresses ...string) ([]Result, error) {
	return h.Provision(ctx, h.acc, guid, request(addresses...), nil)
}

func (h *fixture) stored(t *testing.T) []mailbox.Mailbox {
	t.Helper()
	list, err := h.store.Mailboxes(t.Context(), h.acc.ID, guid)
	must(t, err)
	return list
}

// requireComplete checks that the platform holds want mailboxes, all of them complete, stored and
// ready.
func (h *fixture) requireComplete(t *testing.T, want int) {
	t.Helper()
	held, stored := h.fake.Holds(guid).Mailboxes, h.stored(t)
	if len(held) != want || len(stored) != want {
		t.Fatalf("the platform has %d, the store %d, want %d", len(held), len(stored), want)
	}
	for i, m := range held {
		if !m.PasswordSet || !m.Submission || !m.AccountEnabled {
			t.Fatalf("unfinished at the platform: %+v", m)
		}
		s := stored[i]
		if s.Address != m.Address || s.ObjectID != m.ObjectID || s.Stage != mailbox.Ready || !s.Provisioned ||
			s.PrincipalName != m.Address || s.Alias != m.Alias || !s.AccountEnabled {
			t.Fatalf("stored %+v of %+v", s, m)
		}
	}
}

// reservesRow reserves the address of Anna Keller and reports whether this used one of the domain's
// mailbox slots.
func (h *fixture) reservesRow(t *testing.T) bool {
	t.Helper()
	d, err := h.store.Domain(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	specs := []mailbox.Spec{{DisplayName: "Anna Keller", Address: "anna@example.test"}}
	rows, err := h.store.ReserveMailboxes(t.Context(), h.acc.ID, d.ID, specs, mailbox.MaxPerDomain, h.Now())
	must(t, err)
	return rows[0].JustReserved
}

// free reserves all free mailbox slots of the domain and returns their number.
func (h *fixture) free(t *testing.T) int {
	t.Helper()
	d, err := h.store.Domain(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	for n := range mailbox.MaxPerDomain + 1 {
		probe := mailbox.Spec{DisplayName: "Probe", Address: string(rune('p'+n)) + "robe@" + zone}
		_, err := h.store.ReserveMailboxes(t.Context(), h.acc.ID, d.ID, []mailbox.Spec{probe}, mailbox.MaxPerDomain, h.Now())
		if errors.Is(err, fault.MailboxLimitReached) {
			return n
		}
		must(t, err)
	}
	t.Fatal("the limit is exceeded")
	return 0
}

func request(addresses ...string) Request {
	r := Request{Domain: zone, Password: password}
	for _, a := range addresses {
		r.Mailboxes = append(r.Mailboxes, mailbox.Spec{DisplayName: "Anna Keller", Address: a})
	}
	return r
}

func statuses(results []Result) (out []string) {
	for _, r := range results {
		out = append(out, r.Status)
	}
	return out
}
