// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/tenant"
)

// TestExternalRecipientLimit compares the formula with the values that the platform has published.
func TestExternalRecipientLimit(t *testing.T) {
	for _, tt := range []struct {
		name     string
		licenses tenant.Licenses
		want     int
	}{
		{"1 licence", tenant.Licenses{Paid: 1}, 10000},
		{"2 licences", tenant.Licenses{Paid: 2}, 10312},
		{"10 licences", tenant.Licenses{Paid: 10}, 12006},
		{"25 licences", tenant.Licenses{Paid: 25}, 14259},
		{"100 licences", tenant.Licenses{Paid: 100}, 22059},
		{"1,000 licences", tenant.Licenses{Paid: 1000}, 72446},
		{"10,000 licences", tenant.Licenses{Paid: 10000}, 324979},
		{"100,000 licences", tenant.Licenses{Paid: 100000}, 1590639},
		{"only a trial", tenant.Licenses{Trial: 25}, 5000},
		{"trial licences add nothing to paid ones", tenant.Licenses{Paid: 25, Trial: 25}, 14259},
		{"no licences count as a trial", tenant.Licenses{}, 5000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.licenses.ExternalRecipientLimit(); got != tt.want {
				t.Fatalf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestHeadroomSubtractsTheMessagesOfTheDay(t *testing.T) {
	at := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		sending tenant.Sending
		want    *tenant.Headroom
	}{
		{"licences never read", tenant.Sending{Today: 7}, nil},
		{"nothing sent", tenant.Sending{Licenses: tenant.Licenses{Paid: 1}, LicensesAt: at},
			&tenant.Headroom{Limit: 10000, Remaining: 10000, Licenses: 1, At: at}},
		{"some sent", tenant.Sending{Licenses: tenant.Licenses{Paid: 25}, LicensesAt: at, Today: 900, TodayAt: at.Add(time.Hour)},
			&tenant.Headroom{Limit: 14259, Sent: 900, SentAt: at.Add(time.Hour), Remaining: 13359, Percent: 6.3, Licenses: 25, At: at}},
		{"near the limit of a trial", tenant.Sending{Licenses: tenant.Licenses{Trial: 25}, LicensesAt: at, Today: 4987},
			&tenant.Headroom{Limit: 5000, Sent: 4987, Remaining: 13, Percent: 99.7, At: at}},
		{"above the limit nothing remains", tenant.Sending{LicensesAt: at, Today: 5200},
			&tenant.Headroom{Limit: 5000, Sent: 5200, Percent: 104, At: at}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.sending.Headroom()
			if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
				t.Fatalf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestHeadroomIsConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paid, sent := rapid.IntRange(0, 300000).Draw(t, "paid"), rapid.IntRange(0, 100000).Draw(t, "sent")
		sending := tenant.Sending{Licenses: tenant.Licenses{Paid: paid}, LicensesAt: time.Unix(1, 0), Today: sent}
		headroom, limitWithOneMore := sending.Headroom(), tenant.Licenses{Paid: paid + 1}.ExternalRecipientLimit()
		exact := float64(sent) / float64(headroom.Limit) * 100
		if headroom.Remaining < 0 || headroom.Remaining+min(sent, headroom.Limit) != headroom.Limit || headroom.Percent-exact > 0.051 || exact-headroom.Percent > 0.051 || limitWithOneMore <= headroom.Limit {
			t.Fatalf("%d sent with %d licences: %+v, one licence more: %d", sent, paid, headroom, limitWithOneMore)
		}
	})
}
