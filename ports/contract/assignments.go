// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

func assign(t testing.TB, s Stores, owner access.AccountID, n int) tenant.Tenant {
	t.Helper()
	made, err := s.Attach(t.Context(), owner, tenant.Tenant{GUID: guid(n), Managed: true, ConsentedAt: now}, 100)
	must(t, "assign", err)
	if !made.Managed {
		t.Fatal("the tenant is not managed")
	}
	return made
}

func withdrawn(t testing.TB, s Stores, owner access.AccountID, n int, want bool) {
	t.Helper()
	got, err := s.Withdrawn(t.Context(), owner, guid(n))
	must(t, "withdrawn", err)
	if got != want {
		t.Fatalf("withdrawn is %v, want %v", got, want)
	}
}

var assignmentChecks = []storeCheck{
	{"a withdrawn tenant is gone, and only its account remembers", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		assign(t, s, ann, 1)
		addDomain(t, s, ann, guid(1), "contoso.test")
		withdrawn(t, s, ann, 1, false)
		if holder, err := s.Assigned(t.Context(), guid(1)); err != nil || holder != ann {
			t.Fatalf("assigned to %s, want %s: %v", holder, ann, err)
		}
		holder, err := s.Withdraw(t.Context(), guid(1))
		must(t, "withdraw", err)
		if holder != ann {
			t.Fatalf("withdrawn from %s, want %s", holder, ann)
		}
		_, err = s.Tenant(t.Context(), ann, guid(1))
		refused(t, "tenant", err, fault.TenantNotFound)
		withdrawn(t, s, ann, 1, true)
		withdrawn(t, s, bob, 1, false)
		withdrawn(t, s, ann, 2, false)
		assign(t, s, bob, 1)
	}},
	{"what the operator did not assign cannot be withdrawn", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		for _, id := range []tenant.GUID{guid(1), noGUID, "nonsense"} {
			_, err := s.Assigned(t.Context(), id)
			refused(t, "assigned", err, fault.TenantNotFound)
			_, err = s.Withdraw(t.Context(), id)
			refused(t, "withdraw", err, fault.TenantNotFound)
		}
		_, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "the tenant afterwards", err)
	}},
	{"a tenant that the account connected itself is not the operator's to assign", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		connected := attach(t, s, ann, 1)
		_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), Managed: true, ConsentedAt: now.Add(time.Hour)}, 100)
		refused(t, "assign", err, fault.TenantHeld)
		got, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "the tenant afterwards", err)
		if got != connected {
			t.Fatalf("got %+v, want %+v", got, connected)
		}
	}},
	{"deleting it or being assigned again ends the remembering", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		for n := range 2 {
			assign(t, s, ann, n)
			_, err := s.Withdraw(t.Context(), guid(n))
			must(t, "withdraw", err)
		}
		refused(t, "delete", s.DeleteTenant(t.Context(), ann, guid(0)), fault.TenantNotFound)
		assign(t, s, ann, 1)
		withdrawn(t, s, ann, 0, false)
		withdrawn(t, s, ann, 1, false)
	}},
	{"deleting a managed tenant ends the assignment without a memory", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		assign(t, s, ann, 1)
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1)))
		withdrawn(t, s, ann, 1, false)
		_, err := s.Withdraw(t.Context(), guid(1))
		refused(t, "withdraw", err, fault.TenantNotFound)
	}},
	{"of two withdrawals at once one wins", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		assign(t, s, ann, 1)
		errs := atOnce(8, func(int) error {
			_, err := s.Withdraw(t.Context(), guid(1))
			return err
		})
		if n := winners(t, errs, fault.TenantNotFound); n != 1 {
			t.Fatalf("%d won", n)
		}
		withdrawn(t, s, ann, 1, true)
	}},
}
