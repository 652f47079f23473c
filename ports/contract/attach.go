// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

var attachChecks = []storeCheck{
	{"a new tenant starts at the beginning", func(t testing.TB, s Stores) {
		got := attach(t, s, newAccount(t, s, "ann"), 1)
		want := tenant.Tenant{
			ID: got.ID, GUID: guid(1), Name: "Contoso", ConsentedAt: now, ConnectedBy: "admin@contoso.test",
			Consent: tenant.ConsentGranted, Bootstrap: tenant.BootstrapPending,
			SMTPAuth: tenant.SMTPAuthUnknown, Discovery: tenant.DiscoveryPending,
		}
		if got != want || got.ID == "" {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	}},
	{"a second consent renews the first and takes no slot", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		first := attach(t, s, ann, 1)
		first.Consent = tenant.ConsentRevoked
		must(t, "save", s.SaveTenant(t.Context(), ann, first))
		d := addDomain(t, s, ann, guid(1), "contoso.test")
		again, err := s.Attach(t.Context(), ann, tenant.Tenant{
			GUID: guid(1), Name: "Other", ConsentedAt: now.Add(time.Hour), ConnectedBy: "other@contoso.test",
		}, 1)
		must(t, "attach at the ceiling", err)
		if again.ID != first.ID || again.Consent != tenant.ConsentGranted || again.Name != "Contoso" ||
			again.ConnectedBy != "other@contoso.test" || !again.ConsentedAt.Equal(now.Add(time.Hour)) {
			t.Fatalf("got %+v", again)
		}
		_, err = s.DomainByID(t.Context(), ann, d.ID)
		must(t, "the domain afterwards", err)
	}},
	{"the ceiling refuses one more", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(2), ConsentedAt: now}, 1)
		refused(t, "attach", err, fault.TenantLimitReached)
		_, err = s.Attach(t.Context(), newAccount(t, s, "bob"), tenant.Tenant{GUID: guid(2), ConsentedAt: now}, 1)
		must(t, "attach by another account", err)
	}},
	{"a tenant that another account holds is refused", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attach(t, s, ann, 1)
		_, err := s.Attach(t.Context(), bob, tenant.Tenant{GUID: guid(1), ConsentedAt: now}, 100)
		refused(t, "attach", err, fault.TenantHeld)
		held, err := s.TenantCount(t.Context(), bob)
		must(t, "count", err)
		if held != 0 {
			t.Fatalf("the refused account holds %d", held)
		}
	}},
	{"a crowd takes exactly the slots there are", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		errs := atOnce(crowd, func(i int) error {
			_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(i), ConsentedAt: now}, 5)
			return err
		})
		held, err := s.TenantCount(t.Context(), ann)
		must(t, "count", err)
		if n := winners(t, errs, fault.TenantLimitReached); n != 5 || held != 5 {
			t.Fatalf("%d were let in, %d are stored, of 5", n, held)
		}
	}},
	{"of several accounts at once one becomes the holder", func(t testing.TB, s Stores) {
		accounts := make([]access.AccountID, 8)
		for i := range accounts {
			accounts[i] = newAccount(t, s, string(rune('a'+i)))
		}
		errs := atOnce(len(accounts), func(i int) error {
			_, err := s.Attach(t.Context(), accounts[i], tenant.Tenant{GUID: guid(1), ConsentedAt: now}, 100)
			return err
		})
		if n := winners(t, errs, fault.TenantHeld); n != 1 {
			t.Fatalf("%d accounts hold the tenant", n)
		}
	}},
	{"the same consent at once is one tenant", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		errs := atOnce(8, func(int) error {
			_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), ConsentedAt: now}, 1)
			return err
		})
		list, err := s.Tenants(t.Context(), ann)
		must(t, "list", err)
		if n := winners(t, errs, nil); n != 8 || len(list) != 1 {
			t.Fatalf("%d attached, stored: %+v", n, list)
		}
	}},
	{"no account, no tenant", func(t testing.TB, s Stores) {
		_, err := s.Attach(t.Context(), "nonsense", tenant.Tenant{GUID: guid(1), ConsentedAt: now}, 1)
		refused(t, "attach", err, fault.AccountNotFound)
	}},
}
