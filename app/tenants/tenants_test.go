// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestListShowsTheLatestFirst(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.ann, admin)
	fx.now = fx.now.Add(time.Minute)
	fx.connect(t, fx.ann, otherAdmin)
	if got := fx.heldTenants(t, fx.ann); !slices.Equal(got, []tenant.GUID{other, guid}) {
		t.Fatalf("listed %v", got)
	}
	if got := fx.heldTenants(t, fx.bob); len(got) != 0 {
		t.Fatalf("a different account sees %v", got)
	}
}

func TestGetForeignAndUnknown(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.bob, admin)
	_, _, foreign := fx.Get(t.Context(), fx.ann, guid)
	_, _, unknown := fx.Get(t.Context(), fx.ann, other)
	refused(t, foreign, fault.TenantNotFound)
	if unknown == nil || foreign.Error() != unknown.Error() {
		t.Fatalf("%v and %v", foreign, unknown)
	}
}

func TestDeleteReleasesTheTenantForADifferentAccount(t *testing.T) {
	fx := newFixture(t)
	first := fx.connect(t, fx.ann, admin)
	if _, err := fx.Delete(t.Context(), fx.bob.ID, guid, nil); err == nil {
		t.Fatal("a different account deleted it")
	}
	gone, err := fx.Delete(t.Context(), fx.ann.ID, guid, nil)
	if err != nil || gone.Name != "One" || len(fx.heldTenants(t, fx.ann)) != 0 {
		t.Fatalf("got %+v, %v", gone, err)
	}
	if got := fx.platform.SnapshotOf(guid).Consent; got != "granted" {
		t.Errorf("the platform was changed: consent %s", got)
	}
	_, err = fx.Delete(t.Context(), fx.ann.ID, guid, nil)
	refused(t, err, fault.TenantNotFound)
	_, err = fx.Sync(t.Context(), fx.ann.ID, guid)
	refused(t, err, fault.TenantNotFound)
	if again := fx.connect(t, fx.bob, admin); again.ID == first.ID {
		t.Error("the next holder got the old row")
	}
}

// managed returns a fixture where the operator assigned the tenant to the account ann.
func managed(t *testing.T) (*fixture, tenant.Tenant) {
	t.Helper()
	fx := newFixture(t)
	fx.visit(t, "https://login.fake.test/consent?state=operator", admin)
	held, err := fx.Assign(t.Context(), fx.ann, tenant.GUID(strings.ToUpper(string(guid))))
	apptest.Must(t, err)
	return fx, held
}

func TestAssignConnectsAManagedTenant(t *testing.T) {
	fx, held := managed(t)
	if !held.Managed || held.Name != "One" || held.GUID != guid || !held.ConsentedAt.Equal(fx.now) || held.ConnectedBy != "" {
		t.Fatalf("assigned as %+v", held)
	}
	if out := fx.sync(t); out.Partial {
		t.Fatalf("the sync of a managed tenant: %+v", out)
	}
	_, err := fx.Assign(t.Context(), fx.bob, guid)
	refused(t, err, fault.TenantHeld)
	_, err = fx.Assign(t.Context(), fx.bob, other)
	refused(t, err, fault.AccessDenied) // no consent there
	for _, id := range []tenant.GUID{"x", tenant.NoGUID} {
		_, err = fx.Assign(t.Context(), fx.bob, id)
		refused(t, err, fault.InvalidRequest)
	}
}

func TestAssignKeepsConnectedTenant(t *testing.T) {
	fx := newFixture(t)
	own := fx.connect(t, fx.ann, admin)
	_, err := fx.Assign(t.Context(), fx.ann, guid)
	refused(t, err, fault.TenantHeld)
	if now, _, err := fx.Get(t.Context(), fx.ann, guid); err != nil || now != own {
		t.Fatalf("now %+v, %v; it was %+v", now, err, own)
	}
}

func TestAssignToClosedAccount(t *testing.T) {
	fx := newFixture(t)
	if _, err := fx.store.CloseAccount(t.Context(), fx.ann.ID, fx.now); err != nil {
		t.Fatal(err)
	}
	closed, err := fx.store.FindAccount(t.Context(), string(fx.ann.ID))
	apptest.Must(t, err)
	_, err = fx.Assign(t.Context(), closed, guid)
	refused(t, err, fault.AccountClosed) // without a platform call, because that tenant has no consent
}

func TestManagedTenantsTakeSlots(t *testing.T) {
	fx, _ := managed(t)
	small := fx.account(t, "none@example.com", 1)
	fx.connect(t, small, otherAdmin)
	if _, err := fx.Delete(t.Context(), fx.ann.ID, guid, nil); err != nil {
		t.Fatal(err)
	}
	_, err := fx.Assign(t.Context(), small, guid)
	refused(t, err, fault.TenantLimitReached)
}

func TestWithdrawEndsTheAccessOfTheAccount(t *testing.T) {
	fx, _ := managed(t)
	gone, err := fx.Withdraw(t.Context(), tenant.GUID(strings.ToUpper(string(guid))))
	if err != nil || gone.Account != fx.ann.ID {
		t.Fatalf("got %+v, %v", gone, err)
	}
	_, err = fx.Sync(t.Context(), fx.ann.ID, guid)
	refused(t, err, fault.AccessDenied)
	_, err = fx.Sync(t.Context(), fx.bob.ID, guid)
	refused(t, err, fault.TenantNotFound)
	_, _, err = fx.Get(t.Context(), fx.ann, guid)
	refused(t, err, fault.TenantNotFound)
	_, err = fx.Delete(t.Context(), fx.ann.ID, guid, nil)
	refused(t, err, fault.TenantNotFound)
	_, err = fx.Withdraw(t.Context(), guid)
	refused(t, err, fault.TenantNotFound)
	if _, err := fx.Assign(t.Context(), fx.bob, guid); err != nil {
		t.Fatalf("the tenant is not free: %v", err)
	}
}

func TestDeleteEndsAssignment(t *testing.T) {
	fx, _ := managed(t)
	if _, err := fx.Delete(t.Context(), fx.ann.ID, guid, nil); err != nil {
		t.Fatal(err)
	}
	_, err := fx.Sync(t.Context(), fx.ann.ID, guid)
	refused(t, err, fault.TenantNotFound)
}
