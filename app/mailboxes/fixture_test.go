// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
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

var password = secret.New("Corr3ct-horse")

// fixture is a service over SQLite and the fake platform. It has a ready tenant and a verified
// domain that the mail server accepts.
type fixture struct {
	*Service
	store   *bunstore.Store
	fake    *fake.Platform
	account access.Account
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{fake: fake.New(), store: openStore(t)}
	fx.Service = fx.service()
	fx.fake.Connect(guid, fake.Setup{})
	account, err := fx.store.CreateAccount(t.Context(), "owner@example.com", "complete", 0, fx.Now())
	must(t, err)
	fx.account = account
	_, err = fx.store.Attach(t.Context(), account.ID, tenant.Tenant{
		GUID: guid, Name: "Fabrikam", BuiltinDomain: "f.onmicrosoft.com", ConsentedAt: fx.Now(),
	})
	must(t, err)
	fx.changeTenant(t, func(stored *tenant.Tenant) {
		stored.Bootstrap, stored.SMTPAuth, stored.Consent = tenant.BootstrapReady, tenant.SMTPAuthEnabled, tenant.ConsentGranted
	})
	fx.addDomain(t, zone)
	return fx
}

// service returns the service of a new process, with the same store and platform.
func (fx *fixture) service() *Service {
	reconciler := &reconcile.Reconciler{
		Platform: fx.fake, Domains: fx.store, DNS: fx.fake.DNS, Facts: fx.fake, Now: time.Now,
		Timeout: apptest.HangTimeout, Pause: time.Millisecond,
	}
	return &Service{
		Tenants: fx.store, Domains: fx.store, Mailboxes: fx.store, Policies: fx.store, Removals: fx.store, Platform: fx.fake, Reconciler: reconciler, Now: time.Now,
		RequireSMTPAuth: true, Pause: time.Millisecond, Timeout: apptest.HangTimeout,
	}
}

func (fx *fixture) changeTenant(t *testing.T, change func(*tenant.Tenant)) {
	t.Helper()
	apptest.ChangeTenant(t, fx.store, fx.account.ID, guid, change)
}

func (fx *fixture) changeDomain(t *testing.T, name string, change func(*domain.Domain)) {
	t.Helper()
	stored, err := fx.store.Domain(t.Context(), fx.account.ID, guid, name)
	must(t, err)
	change(&stored)
	must(t, fx.store.SaveDomain(t.Context(), fx.account.ID, stored, nil))
}

// addDomain adds a domain that is verified and accepted by the mail server, at the platform and in
// the store.
func (fx *fixture) addDomain(t *testing.T, name string) {
	t.Helper()
	platform := fx.fake.For(guid)
	_, err := platform.AddDomain(t.Context(), name)
	must(t, err)
	records, err := platform.Records(t.Context(), name)
	must(t, err)
	fx.fake.DNS.Publish(name, records.Verification...)
	_, err = platform.VerifyDomain(t.Context(), name)
	must(t, err)
	must(t, platform.EnableMail(t.Context(), name))
	d, err := fx.store.ReserveDomain(t.Context(), fx.account.ID, guid, name, domain.MaxPerTenant, fx.Now())
	must(t, err)
	d.Added, d.Verified, d.MailReady = true, true, true
	d.Status = dns.Status{MX: dns.Missing}
	must(t, fx.store.SaveDomain(t.Context(), fx.account.ID, d, nil))
}

func (fx *fixture) provision(ctx context.Context, addresses ...string) ([]Result, error) {
	return fx.Provision(ctx, fx.account, guid, newRequest(addresses...), nil)
}

func (fx *fixture) storedMailboxes(t *testing.T) []mailbox.Mailbox {
	t.Helper()
	list, err := fx.store.Mailboxes(t.Context(), fx.account.ID, guid)
	must(t, err)
	return list
}

// requireComplete requires that the platform has want mailboxes, and that all of them are complete
// and stored as ready.
func (fx *fixture) requireComplete(t *testing.T, want int) {
	t.Helper()
	atPlatform, stored := fx.fake.SnapshotOf(guid).Mailboxes, fx.storedMailboxes(t)
	if len(atPlatform) != want || len(stored) != want {
		t.Fatalf("the platform has %d mailboxes and the store has %d, want %d", len(atPlatform), len(stored), want)
	}
	for i, m := range atPlatform {
		if !m.PasswordSet || !m.SubmissionOpen || !m.AccountEnabled {
			t.Fatalf("the mailbox is unfinished at the platform: %+v", m)
		}
		row := stored[i]
		if row.Address != m.Address || row.ObjectID != m.ObjectID || row.Stage != mailbox.Ready || !row.Provisioned ||
			row.PrincipalName != m.Address || row.Alias != m.Alias || !row.AccountEnabled {
			t.Fatalf("the mailbox %+v is stored as %+v", m, row)
		}
	}
}

// reserveAnna reserves anna@example.test. It reports whether the reservation created a row, and so
// used one of the domain's mailbox slots.
func (fx *fixture) reserveAnna(t *testing.T) bool {
	t.Helper()
	d, err := fx.store.Domain(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	specs := []mailbox.Spec{{DisplayName: "Anna Keller", Address: "anna@example.test"}}
	rows, err := fx.store.ReserveMailboxes(t.Context(), fx.account.ID, d.ID, specs, mailbox.MaxPerDomain, fx.Now())
	must(t, err)
	return rows[0].JustReserved
}

// reserveFreeSlots reserves all free mailbox slots of the domain and returns their number.
func (fx *fixture) reserveFreeSlots(t *testing.T) int {
	t.Helper()
	d, err := fx.store.Domain(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	for reserved := range mailbox.MaxPerDomain + 1 {
		probe := mailbox.Spec{DisplayName: "Probe", Address: fmt.Sprintf("probe-%d@%s", reserved, zone)}
		_, err := fx.store.ReserveMailboxes(t.Context(), fx.account.ID, d.ID, []mailbox.Spec{probe}, mailbox.MaxPerDomain, fx.Now())
		if errors.Is(err, fault.MailboxLimitReached) {
			return reserved
		}
		must(t, err)
	}
	t.Fatalf("more than %d mailboxes were reserved, want mailbox_limit_reached", mailbox.MaxPerDomain)
	return 0
}

func newRequest(addresses ...string) Request {
	request := Request{Domain: zone, Password: password}
	for _, address := range addresses {
		request.Mailboxes = append(request.Mailboxes, mailbox.Spec{DisplayName: "Anna Keller", Address: address})
	}
	return request
}

func statuses(results []Result) (list []string) {
	for _, r := range results {
		list = append(list, r.Status)
	}
	return list
}
