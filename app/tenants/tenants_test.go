// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestListShowsTheLatestFirst(t *testing.T) {
	w := newWorld(t)
	w.connect(t, w.ann, admin)
	w.now = w.now.Add(time.Minute)
	w.connect(t, w.ann, otherAdmin)
	if got := w.holds(t, w.ann); !slices.Equal(got, []tenant.GUID{other, guid}) {
		t.Fatalf("listed %v", got)
	}
	if got := w.holds(t, w.bob); len(got) != 0 {
		t.Fatalf("another account sees %v", got)
	}
}

func TestGetForeignAndUnknown(t *testing.T) {
	w := newWorld(t)
	w.connect(t, w.bob, admin)
	_, _, foreign := w.Get(t.Context(), w.ann, guid)
	_, _, unknown := w.Get(t.Context(), w.ann, other)
	refused(t, foreign, fault.TenantNotFound)
	if unknown == nil || foreign.Error() != unknown.Error() {
		t.Fatalf("%v and %v", foreign, unknown)
	}
}

func TestDelete(t *testing.T) {
	w := newWorld(t)
	first := w.connect(t, w.ann, admin)
	if _, err := w.Delete(t.Context(), w.bob.ID, guid); err == nil {
		t.Fatal("another account deleted it")
	}
	gone, err := w.Delete(t.Context(), w.ann.ID, guid)
	if err != nil || gone.Name != "One" || len(w.holds(t, w.ann)) != 0 {
		t.Fatalf("got %+v, %v", gone, err)
	}
	if got := w.platform.Holds(guid).Consent; got != "granted" {
		t.Errorf("the platform was touched: consent %s", got)
	}
	_, err = w.Delete(t.Context(), w.ann.ID, guid)
	refused(t, err, fault.TenantNotFound)
	_, err = w.Sync(t.Context(), w.ann.ID, guid)
	refused(t, err, fault.TenantNotFound)
	if again := w.connect(t, w.bob, admin); again.ID == first.ID {
		t.Error("the next holder got the old row")
	}
}

// managed is a world where the operator assigned the tenant to ann.
func managed(t *testing.T) (*world, tenant.Tenant) {
	t.Helper()
	w := newWorld(t)
	w.visit(t, "https://login.fake.test/consent?state=operator", admin, true)
	held, err := w.Assign(t.Context(), w.ann, tenant.GUID(strings.ToUpper(string(guid))))
	if err != nil {
		t.Fatal(err)
	}
	return w, held
}

func TestAssign(t *testing.T) {
	w, held := managed(t)
	if !held.Managed || held.Name != "One" || held.GUID != guid || !held.ConsentedAt.Equal(w.now) || held.ConnectedBy != "" {
		t.Fatalf("assigned as %+v", held)
	}
	if out := w.sync(t); out.Partial {
		t.Fatalf("the sync of a managed tenant: %+v", out)
	}
	_, err := w.Assign(t.Context(), w.bob, guid)
	refused(t, err, fault.TenantHeld)
	_, err = w.Assign(t.Context(), w.bob, other)
	refused(t, err, fault.AccessDenied) // no consent there
	for _, id := range []tenant.GUID{"x", tenant.NoGUID} {
		_, err = w.Assign(t.Context(), w.bob, id)
		refused(t, err, fault.InvalidRequest)
	}
}

func TestAssignLeavesTheAccountsOwnAlone(t *testing.T) {
	w := newWorld(t)
	own := w.connect(t, w.ann, admin)
	_, err := w.Assign(t.Context(), w.ann, guid)
	refused(t, err, fault.TenantHeld)
	if now, _, err := w.Get(t.Context(), w.ann, guid); err != nil || now != own {
		t.Fatalf("now %+v, %v; it was %+v", now, err, own)
	}
}

func TestNothingIsAssignedToAClosedAccount(t *testing.T) {
	w := newWorld(t)
	if _, err := w.store.CloseAccount(t.Context(), w.ann.ID, w.now); err != nil {
		t.Fatal(err)
	}
	closed, err := w.store.FindAccount(t.Context(), string(w.ann.ID))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Assign(t.Context(), closed, guid)
	refused(t, err, fault.AccountClosed) // and the platform is not asked: nobody consented there
}

func TestManagedTenantsTakeSlots(t *testing.T) {
	w, _ := managed(t)
	small := w.account(t, "none@example.com", 1)
	w.connect(t, small, otherAdmin)
	if _, err := w.Delete(t.Context(), w.ann.ID, guid); err != nil {
		t.Fatal(err)
	}
	_, err := w.Assign(t.Context(), small, guid)
	refused(t, err, fault.TenantLimitReached)
}

func TestWithdraw(t *testing.T) {
	w, _ := managed(t)
	gone, err := w.Withdraw(t.Context(), tenant.GUID(strings.ToUpper(string(guid))))
	if err != nil || gone.Account != w.ann.ID {
		t.Fatalf("got %+v, %v", gone, err)
	}
	_, err = w.Sync(t.Context(), w.ann.ID, guid)
	refused(t, err, fault.AccessDenied)
	_, err = w.Sync(t.Context(), w.bob.ID, guid)
	refused(t, err, fault.TenantNotFound)
	_, _, err = w.Get(t.Context(), w.ann, guid)
	refused(t, err, fault.TenantNotFound)
	_, err = w.Delete(t.Context(), w.ann.ID, guid)
	refused(t, err, fault.TenantNotFound)
	_, err = w.Withdraw(t.Context(), guid)
	refused(t, err, fault.TenantNotFound)
	if _, err := w.Assign(t.Context(), w.bob, guid); err != nil {
		t.Fatalf("the tenant is not free: %v", err)
	}
}

func TestDeletingAManagedTenantEndsTheAssignment(t *testing.T) {
	w, _ := managed(t)
	if _, err := w.Delete(t.Context(), w.ann.ID, guid); err != nil {
		t.Fatal(err)
	}
	_, err := w.Sync(t.Context(), w.ann.ID, guid)
	refused(t, err, fault.TenantNotFound)
}
