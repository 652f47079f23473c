// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

func (fx *fixture) headroom(t *testing.T) *tenant.Headroom {
	t.Helper()
	return fx.readiness(t).Headroom
}

func TestSyncReadsLicenses(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{Licenses: tenant.Licenses{Paid: 25, Trial: 5, RecipientLimit: 14259}})
	if got := fx.headroom(t); got != nil {
		t.Fatalf("the headroom before the first sync is %+v, want none", got)
	}
	fx.sync(t)
	want := tenant.Headroom{Limit: 14259, Remaining: 14259, Licenses: 25, LicensesAt: fx.now}
	if got := fx.headroom(t); got == nil || *got != want {
		t.Fatalf("the headroom is %+v, want %+v", got, want)
	}
}

// TestASyncSucceedsWithoutLicenses checks that a sync succeeds if the licenses cannot be read. The
// sync then keeps the earlier number.
func TestASyncSucceedsWithoutLicenses(t *testing.T) {
	for _, licenseFault := range []fake.Fault{
		{Method: "EmailLicenses", Kind: outcome.Down}, {Method: "EmailLicenses", Kind: outcome.Unknown},
		{Method: "EmailLicenses", Kind: outcome.Refused, Code: fault.AccessDenied},
	} {
		t.Run(licenseFault.Kind.String(), func(t *testing.T) {
			fx := newConnectedFixture(t, fake.Setup{})
			fx.addPlatformObjects(t)
			endFault := fx.platform.Fail(licenseFault)
			if synced := fx.sync(t); synced.Partial || synced.MailboxError != "" || fx.headroom(t) != nil {
				t.Fatalf("before a sync has read the licenses: %+v, headroom %+v, want a complete sync and no headroom", synced, fx.headroom(t))
			}
			endFault()
			fx.sync(t)
			headroomBefore := *fx.headroom(t)
			fx.platform.Fail(licenseFault)
			fx.now = fx.now.Add(time.Hour)
			if synced := fx.sync(t); synced.Partial || !synced.Tenant.LastSyncAt.Equal(fx.now) {
				t.Fatalf("a sync that could not read the licenses: %+v, want a complete sync", synced)
			}
			if got := fx.headroom(t); got == nil || *got != headroomBefore {
				t.Fatalf("the headroom is %+v, want the earlier headroom %+v", got, headroomBefore)
			}
		})
	}
}
