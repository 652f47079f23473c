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

func (w *world) headroom(t *testing.T) *tenant.Headroom {
	t.Helper()
	return w.readiness(t).Headroom
}

func TestASyncReadsTheLicenses(t *testing.T) {
	w := connected(t, fake.Setup{Licenses: tenant.Licenses{Paid: 25, Trial: 5}})
	if got := w.headroom(t); got != nil {
		t.Fatalf("before the first sync: %+v", got)
	}
	w.sync(t)
	want := tenant.Headroom{Limit: 14259, Remaining: 14259, Licenses: 25, At: w.now}
	if got := w.headroom(t); got == nil || *got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

// TestLicensesThatCannotBeRead: a sync is no worse for it, and what was read
// before stays.
func TestLicensesThatCannotBeRead(t *testing.T) {
	for _, fails := range []fake.Fault{
		{Method: "EmailLicenses", Kind: outcome.Down}, {Method: "EmailLicenses", Kind: outcome.Unknown},
		{Method: "EmailLicenses", Kind: outcome.Refused, Code: fault.AccessDenied},
	} {
		t.Run(fails.Kind.String(), func(t *testing.T) {
			w := connected(t, fake.Setup{})
			w.furnish(t)
			lift := w.platform.Fail(fails)
			if out := w.sync(t); out.Partial || out.MailboxError != "" || w.headroom(t) != nil {
				t.Fatalf("at first: %+v, headroom %+v", out, w.headroom(t))
			}
			lift()
			w.sync(t)
			before := *w.headroom(t)
			w.platform.Fail(fails)
			w.now = w.now.Add(time.Hour)
			if out := w.sync(t); out.Partial || !out.Tenant.LastSyncAt.Equal(w.now) {
				t.Fatalf("got %+v", out)
			}
			if got := w.headroom(t); got == nil || *got != before {
				t.Fatalf("got %+v, want %+v", got, before)
			}
		})
	}
}
