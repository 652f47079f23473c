// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/tenant"
)

func TestHeadroomSubtractsTheMessagesOfTheDay(t *testing.T) {
	licensesAt := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name    string
		sending tenant.Sending
		want    *tenant.Headroom
	}{
		{"licences never read", tenant.Sending{SentToday: 7}, nil},
		{"the platform publishes no limit", tenant.Sending{Licenses: tenant.Licenses{Paid: 1}, LicensesAt: licensesAt, SentToday: 7}, nil},
		{"nothing sent", tenant.Sending{Licenses: tenant.Licenses{Paid: 1, RecipientLimit: 10000}, LicensesAt: licensesAt},
			&tenant.Headroom{Limit: 10000, Remaining: 10000, Licenses: 1, LicensesAt: licensesAt}},
		{"some sent", tenant.Sending{Licenses: tenant.Licenses{Paid: 25, RecipientLimit: 14259}, LicensesAt: licensesAt, SentToday: 900, CountedAt: licensesAt.Add(time.Hour)},
			&tenant.Headroom{Limit: 14259, Sent: 900, CountedAt: licensesAt.Add(time.Hour), Remaining: 13359, UsedPercent: 6.3, Licenses: 25, LicensesAt: licensesAt}},
		{"near the limit of a trial", tenant.Sending{Licenses: tenant.Licenses{Trial: 25, RecipientLimit: 5000}, LicensesAt: licensesAt, SentToday: 4987},
			&tenant.Headroom{Limit: 5000, Sent: 4987, Remaining: 13, UsedPercent: 99.7, LicensesAt: licensesAt}},
		{"above the limit nothing remains", tenant.Sending{Licenses: tenant.Licenses{RecipientLimit: 5000}, LicensesAt: licensesAt, SentToday: 5200},
			&tenant.Headroom{Limit: 5000, Sent: 5200, UsedPercent: 104, LicensesAt: licensesAt}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.sending.Headroom()
			if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
				t.Fatalf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestHeadroomIsConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, sent := rapid.IntRange(1, 3000000).Draw(t, "limit"), rapid.IntRange(0, 100000).Draw(t, "sent")
		headroom := tenant.Sending{Licenses: tenant.Licenses{RecipientLimit: limit}, LicensesAt: time.Unix(1, 0), SentToday: sent}.Headroom()
		exact := float64(sent) / float64(headroom.Limit) * 100
		if headroom.Remaining < 0 || headroom.Remaining+min(sent, headroom.Limit) != headroom.Limit || headroom.UsedPercent-exact > 0.051 || exact-headroom.UsedPercent > 0.051 {
			t.Fatalf("%d sent of %d: Remaining or UsedPercent is wrong: %+v", sent, limit, headroom)
		}
	})
}
