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
	fx := connected(t, fake.Setup{Licenses: tenant.Licenses{Paid: 25, Trial: 5}})
	if got := fx.headroom(t); got != nil {
		t.Fatalf("before the first sync: %+v", got)
	}
	fx.sync(t)
	want := tenant.Headroom{Limit: 14259, Remaining: 14259, Licenses: 25, At: fx.now}
	if got := fx.headroom(t); got == nil || *got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

// A sync succeeds without the licenses and keeps the earlier number.
func TestASyncSucceedsWithoutLicenses(t *testing.T) {
	for _, fails := range []fake.Fault{
		{Method: "EmailLicenses", Kind: outcome.Down}, {Method: "EmailLicenses", Kind: outcome.Unknown},
		{Method: "EmailLicenses", Kind: outcome.Refused, Code: fault.AccessDenied},
	} {
		t.Run(fails.Kind.String(), func(t *testing.T) {
			fx := connected(t, fake.Setup{})
			fx.addPlatformObjects(t)
			lift := fx.platform.Fail(fails)
			if out := fx.sync(t); out.Partial || out.MailboxError != "" || fx.headroom(t) != nil {
				t.Fatalf("at first: %+v, headroom %+v", out, fx.headroom(t))
			}
			lift()
			fx.sync(t)
			before := *fx.headroom(t)
			fx.platform.Fail(fails)
			fx.now = fx.now.Add(time.Hour)
			if out := fx.sync(t); out.Partial || !out.Tenant.LastSyncAt.Equal(fx.now) {
				t.Fatalf("got %+v", out)
			}
			if got := fx.headroom(t); got == nil || *got != before {
				t.Fatalf("got %+v, want %+v", got, before)
			}
		})
	}
}
