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

func TestListShowsTheLatestTenantFirst(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.ann, admin)
	fx.now = fx.now.Add(time.Minute)
	fx.connect(t, fx.ann, otherAdmin)
	if got := fx.listedTenants(t, fx.ann); !slices.Equal(got, []tenant.GUID{otherGUID, guid}) {
		t.Fatalf("listed %v, want the latest tenant first", got)
	}
	if got := fx.listedTenants(t, fx.bob); len(got) != 0 {
		t.Fatalf("bob sees the tenants %v of ann, want none", got)
	}
}

func TestGetDoesNotRevealTenantsOfOtherAccounts(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.bob, admin)
	_, _, errForeign := fx.Get(t.Context(), fx.ann, guid)
	_, _, errUnknown := fx.Get(t.Context(), fx.ann, otherGUID)
	requireRefusal(t, errForeign, fault.TenantNotFound)
	if errUnknown == nil || errForeign.Error() != errUnknown.Error() {
		t.Fatalf("got %v for a foreign tenant and %v for an unknown tenant, want the same error", errForeign, errUnknown)
	}
}

func TestDeleteReleasesTheTenantForADifferentAccount(t *testing.T) {
	fx := newFixture(t)
	tenantOfAnn := fx.connect(t, fx.ann, admin)
	if _, err := fx.Delete(t.Context(), fx.bob.ID, guid, nil); err == nil {
		t.Fatal("a different account deleted the tenant")
	}
	deleted, err := fx.Delete(t.Context(), fx.ann.ID, guid, nil)
	if err != nil || deleted.Name != "One" || len(fx.listedTenants(t, fx.ann)) != 0 {
		t.Fatalf("Delete returned %+v, %v, want the tenant One, which ann no longer has", deleted, err)
	}
	if got := fx.platform.SnapshotOf(guid).Consent; got != "granted" {
		t.Errorf("the consent at the platform is %s, want it unchanged", got)
	}
	_, err = fx.Delete(t.Context(), fx.ann.ID, guid, nil)
	requireRefusal(t, err, fault.TenantNotFound)
	_, err = fx.Sync(t.Context(), fx.ann.ID, guid)
	requireRefusal(t, err, fault.TenantNotFound)
	if tenantOfBob := fx.connect(t, fx.bob, admin); tenantOfBob.ID == tenantOfAnn.ID {
		t.Error("bob got the row of ann, want a new row")
	}
}

// newManagedFixture returns a fixture where the operator assigned the tenant to the account ann.
func newManagedFixture(t *testing.T) (*fixture, tenant.Tenant) {
	t.Helper()
	fx := newFixture(t)
	fx.visitPage(t, "https://login.fake.test/consent?state=operator", admin)
	assigned, err := fx.Assign(t.Context(), fx.ann, tenant.GUID(strings.ToUpper(string(guid))))
	must(t, err)
	return fx, assigned
}

func TestAssignConnectsAManagedTenant(t *testing.T) {
	fx, assigned := newManagedFixture(t)
	if !assigned.Managed || assigned.Name != "One" || assigned.GUID != guid || !assigned.ConsentedAt.Equal(fx.now) || assigned.ConnectedBy != "" {
		t.Fatalf("assigned as %+v, want a managed tenant that nobody connected", assigned)
	}
	if synced := fx.sync(t); synced.Partial {
		t.Fatalf("the sync of a managed tenant returned %+v, want a complete sync", synced)
	}
	_, err := fx.Assign(t.Context(), fx.bob, guid)
	requireRefusal(t, err, fault.TenantHeld)
	_, err = fx.Assign(t.Context(), fx.bob, otherGUID)
	requireRefusal(t, err, fault.AccessDenied) // the tenant has granted no consent
	for _, id := range []tenant.GUID{"x", tenant.NoGUID} {
		_, err = fx.Assign(t.Context(), fx.bob, id)
		requireRefusal(t, err, fault.InvalidRequest)
	}
}

func TestAssignKeepsConnectedTenant(t *testing.T) {
	fx := newFixture(t)
	connected := fx.connect(t, fx.ann, admin)
	_, err := fx.Assign(t.Context(), fx.ann, guid)
	requireRefusal(t, err, fault.TenantHeld)
	if tenantAfter, _, err := fx.Get(t.Context(), fx.ann, guid); err != nil || tenantAfter != connected {
		t.Fatalf("after Assign the tenant is %+v, %v, want %+v", tenantAfter, err, connected)
	}
}

func TestRepeatedAssignKeepsTheAdministrator(t *testing.T) {
	fx, _ := newManagedFixture(t)
	connected := fx.connect(t, fx.ann, admin)
	fx.now = fx.now.Add(time.Hour)
	assigned, err := fx.Assign(t.Context(), fx.ann, guid)
	must(t, err)
	if assigned.ConnectedBy != admin || !assigned.ConsentedAt.Equal(connected.ConsentedAt) {
		t.Fatalf("assigned again as %+v, want the consent of %+v", assigned, connected)
	}
}

func TestAssignToClosedAccountIsRefused(t *testing.T) {
	fx := newFixture(t)
	if _, err := fx.store.CloseAccount(t.Context(), fx.ann.ID, fx.now); err != nil {
		t.Fatal(err)
	}
	closed, err := fx.store.FindAccount(t.Context(), string(fx.ann.ID))
	must(t, err)
	_, err = fx.Assign(t.Context(), closed, guid)
	requireRefusal(t, err, fault.AccountClosed) // not the access_denied of a platform call
}

func TestManagedTenantsTakeSlots(t *testing.T) {
	fx, _ := newManagedFixture(t)
	oneSlotAccount := fx.createAccount(t, "small@example.com", 1)
	fx.connect(t, oneSlotAccount, otherAdmin)
	if _, err := fx.Delete(t.Context(), fx.ann.ID, guid, nil); err != nil {
		t.Fatal(err)
	}
	_, err := fx.Assign(t.Context(), oneSlotAccount, guid)
	requireRefusal(t, err, fault.TenantLimitReached)
}

func TestWithdrawEndsTheAccessOfTheAccount(t *testing.T) {
	fx, _ := newManagedFixture(t)
	withdrawn, err := fx.Withdraw(t.Context(), tenant.GUID(strings.ToUpper(string(guid))))
	if err != nil || withdrawn.Account != fx.ann.ID {
		t.Fatalf("Withdraw returned %+v, %v, want the account of ann", withdrawn, err)
	}
	_, err = fx.Sync(t.Context(), fx.ann.ID, guid)
	requireRefusal(t, err, fault.AccessDenied)
	_, err = fx.Sync(t.Context(), fx.bob.ID, guid)
	requireRefusal(t, err, fault.TenantNotFound)
	_, _, err = fx.Get(t.Context(), fx.ann, guid)
	requireRefusal(t, err, fault.TenantNotFound)
	_, err = fx.Delete(t.Context(), fx.ann.ID, guid, nil)
	requireRefusal(t, err, fault.TenantNotFound)
	_, err = fx.Withdraw(t.Context(), guid)
	requireRefusal(t, err, fault.TenantNotFound)
	if _, err := fx.Assign(t.Context(), fx.bob, guid); err != nil {
		t.Fatalf("the tenant cannot be assigned to a different account: %v", err)
	}
}

func TestDeleteEndsAssignment(t *testing.T) {
	fx, _ := newManagedFixture(t)
	if _, err := fx.Delete(t.Context(), fx.ann.ID, guid, nil); err != nil {
		t.Fatal(err)
	}
	_, err := fx.Sync(t.Context(), fx.ann.ID, guid)
	requireRefusal(t, err, fault.TenantNotFound)
}
