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
	fx := &fixture{fake: fake.New(), store: openStore(t)}
	fx.Service = fx.service()
	fx.fake.Connect(guid, fake.Setup{})
	acc, err := fx.store.CreateAccount(t.Context(), "owner@example.com", "complete", 0, fx.Now())
	must(t, err)
	fx.acc = acc
	_, err = fx.store.Attach(t.Context(), acc.ID, tenant.Tenant{
		GUID: guid, Name: "Fabrikam", BuiltinDomain: "f.onmicrosoft.com", ConsentedAt: fx.Now(),
	})
	must(t, err)
	fx.changeTenant(t, func(x *tenant.Tenant) {
		x.Bootstrap, x.SMTPAuth, x.Consent = tenant.BootstrapReady, tenant.SMTPAuthEnabled, tenant.ConsentGranted
	})
	fx.addDomain(t, zone)
	return fx
}

// service returns a service as a new process would have it, with the same store and platform.
func (fx *fixture) service() *Service {
	pass := &reconcile.Pass{
		Platform: fx.fake, Domains: fx.store, DNS: fx.fake.DNS, Facts: fx.fake, Now: time.Now,
		Limit: apptest.HangTimeout, Pause: time.Millisecond,
	}
	return &Service{
		Tenants: fx.store, Domains: fx.store, Mailboxes: fx.store, Policies: fx.store, Removals: fx.store, Platform: fx.fake, Reconciler: pass, Now: time.Now,
		RequireSMTPAuth: true, Pause: time.Millisecond, Limit: apptest.HangTimeout,
	}
}

func (fx *fixture) changeTenant(t *testing.T, change func(*tenant.Tenant)) {
	t.Helper()
	apptest.ChangeTenant(t, fx.store, fx.acc.ID, guid, change)
}

func (fx *fixture) changeDomain(t *testing.T, name string, change func(*domain.Domain)) {
	t.Helper()
	stored, err := fx.store.Domain(t.Context(), fx.acc.ID, guid, name)
	must(t, err)
	change(&stored)
	must(t, fx.store.SaveDomain(t.Context(), fx.acc.ID, stored, nil))
}

func (fx *fixture) addDomain(t *testing.T, name string) {
	t.Helper()
	at := fx.fake.For(guid)
	_, err := at.AddDomain(t.Context(), name)
	must(t, err)
	records, err := at.Records(t.Context(), name)
	must(t, err)
	fx.fake.DNS.Publish(name, records.Verification...)
	_, err = at.VerifyDomain(t.Context(), name)
	must(t, err)
	must(t, at.EnableMail(t.Context(), name))
	d, err := fx.store.ReserveDomain(t.Context(), fx.acc.ID, guid, name, domain.MaxPerTenant, fx.Now())
	must(t, err)
	d.Added, d.Verified, d.MailReady = true, true, true
	d.Status = dns.Status{MX: dns.Missing}
	must(t, fx.store.SaveDomain(t.Context(), fx.acc.ID, d, nil))
}

func (fx *fixture) provision(ctx context.Context, addresses ...string) ([]Result, error) {
	return fx.Provision(ctx, fx.acc, guid, request(addresses...), nil)
}

func (fx *fixture) stored(t *testing.T) []mailbox.Mailbox {
	t.Helper()
	list, err := fx.store.Mailboxes(t.Context(), fx.acc.ID, guid)
	must(t, err)
	return list
}

// requireComplete checks that the platform has want mailboxes, all of them complete, stored and
// ready.
func (fx *fixture) requireComplete(t *testing.T, want int) {
	t.Helper()
	held, stored := fx.fake.SnapshotOf(guid).Mailboxes, fx.stored(t)
	if len(held) != want || len(stored) != want {
		t.Fatalf("the platform has %d, the store %d, want %d", len(held), len(stored), want)
	}
	for i, m := range held {
		if !m.PasswordSet || !m.SubmissionOpen || !m.AccountEnabled {
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
func (fx *fixture) reservesRow(t *testing.T) bool {
	t.Helper()
	d, err := fx.store.Domain(t.Context(), fx.acc.ID, guid, zone)
	must(t, err)
	specs := []mailbox.Spec{{DisplayName: "Anna Keller", Address: "anna@example.test"}}
	rows, err := fx.store.ReserveMailboxes(t.Context(), fx.acc.ID, d.ID, specs, mailbox.MaxPerDomain, fx.Now())
	must(t, err)
	return rows[0].JustReserved
}

// free reserves all free mailbox slots of the domain and returns their number.
func (fx *fixture) free(t *testing.T) int {
	t.Helper()
	d, err := fx.store.Domain(t.Context(), fx.acc.ID, guid, zone)
	must(t, err)
	for n := range mailbox.MaxPerDomain + 1 {
		probe := mailbox.Spec{DisplayName: "Probe", Address: string(rune('p'+n)) + "robe@" + zone}
		_, err := fx.store.ReserveMailboxes(t.Context(), fx.acc.ID, d.ID, []mailbox.Spec{probe}, mailbox.MaxPerDomain, fx.Now())
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
