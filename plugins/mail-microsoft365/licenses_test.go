// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

// TestEmailLicensesCountsActiveSubscriptionsWithAMailbox checks each subscription together with a
// paid subscription for one mailbox, which always counts.
func TestEmailLicensesCountsActiveSubscriptionsWithAMailbox(t *testing.T) {
	for name, tc := range map[string]struct {
		subscription string
		want         tenant.Licenses // without the licence that always counts
	}{
		"paid":                           {`{"status":"Enabled","totalLicenses":25,"serviceStatus":[{"servicePlanName":"SHAREPOINTSTANDARD"},{"servicePlanName":"EXCHANGE_S_STANDARD"}]}`, tenant.Licenses{Paid: 25}},
		"trial":                          {`{"isTrial":true,"status":"Enabled","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_ENTERPRISE"}]}`, tenant.Licenses{Trial: 25}},
		"paid, payment late":             {`{"isTrial":false,"status":"Warning","totalLicenses":2,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_DESKLESS"}]}`, tenant.Licenses{Paid: 2}},
		"for government":                 {`{"status":"enabled","totalLicenses":3,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_ENTERPRISE_GOV"}]}`, tenant.Licenses{Paid: 3}},
		"Exchange Online Essentials":     {`{"status":"Enabled","totalLicenses":3,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_ESSENTIALS"}]}`, tenant.Licenses{Paid: 3}},
		"Exchange Online POP":            {`{"status":"Enabled","totalLicenses":3,"serviceStatus":[{"servicePlanName":"EXCHANGE_B_STANDARD"}]}`, tenant.Licenses{Paid: 3}},
		"former small business plan":     {`{"status":"Enabled","totalLicenses":3,"serviceStatus":[{"servicePlanName":"EXCHANGE_L_STANDARD"}]}`, tenant.Licenses{Paid: 3}},
		"suspended":                      {`{"status":"Suspended","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_STANDARD"}]}`, tenant.Licenses{}},
		"locked out":                     {`{"status":"LockedOut","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_STANDARD"}]}`, tenant.Licenses{}},
		"deleted":                        {`{"status":"Deleted","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_STANDARD"}]}`, tenant.Licenses{}},
		"foundation plan":                {`{"status":"Enabled","totalLicenses":1000000,"serviceStatus":[{"servicePlanName":"BI_AZURE_P0"},{"servicePlanName":"EXCHANGE_S_FOUNDATION"}]}`, tenant.Licenses{}},
		"foundation plan for government": {`{"status":"Enabled","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_FOUNDATION_GOV"},{"servicePlanName":"EXCHANGE_FOUNDATION_GOV"}]}`, tenant.Licenses{}},
		"archive add-on":                 {`{"status":"Enabled","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_ARCHIVE_ADDON"}]}`, tenant.Licenses{}},
		"archive plan":                   {`{"status":"Enabled","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_ARCHIVE"}]}`, tenant.Licenses{}},
		"analytics and multi-geo":        {`{"status":"Enabled","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_ANALYTICS"},{"servicePlanName":"EXCHANGEONLINE_MULTIGEO"}]}`, tenant.Licenses{}},
		"no number":                      {`{"status":"Enabled","totalLicenses":null,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_STANDARD"}]}`, tenant.Licenses{}},
		"no status":                      {`{"serviceStatus":null}`, tenant.Licenses{}},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakePlatform(t)
			fake.answers["GET /directory/subscriptions"] = `{"value":[` + tc.subscription +
				`,{"status":"Enabled","totalLicenses":1,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_STANDARD"}]}]}`
			want := tc.want
			want.Paid++
			want.RecipientLimit = recipientLimit(want.Paid)
			got, err := fake.client.EmailLicenses(t.Context())
			expectEqual(t, err, got, want)
		})
	}
}

// TestRecipientLimitFollowsThePublishedValues compares the formula with the values that Microsoft
// has published.
func TestRecipientLimitFollowsThePublishedValues(t *testing.T) {
	for paid, want := range map[int]int{
		0: 5000, 1: 10000, 2: 10312, 10: 12006, 25: 14259, 100: 22059, 1000: 72446, 10_000: 324979, 100_000: 1590639,
	} {
		if got := recipientLimit(paid); got != want {
			t.Errorf("%d paid licences: the limit is %d, want %d", paid, got, want)
		}
	}
}

func TestEmailLicensesReadsAllPages(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.preparedTenant(t, options{"page_size": 1, "licenses": options{"paid": 25, "trial": 4}})
	got, err := client.EmailLicenses(t.Context())
	expectEqual(t, err, got, tenant.Licenses{Paid: 25, Trial: 4, RecipientLimit: 14259})
	// Without this setting, the simulator has one paid licence for each licensed user, at least
	// one.
	env.setBehaviour(t, tenantInfo.GUID, options{"licenses": nil})
	got, err = client.EmailLicenses(t.Context())
	expectEqual(t, err, got, tenant.Licenses{Paid: 1, RecipientLimit: 10000})
}

func TestEmailLicensesIsRefusedWithoutPermission(t *testing.T) {
	fake := newFakePlatform(t)
	fake.answers["GET /directory/subscriptions"] = `{"error":{"code":"Authorization_RequestDenied","message":"Insufficient privileges to complete the operation."}}`
	fake.statuses["GET /directory/subscriptions"] = http.StatusForbidden
	_, err := fake.client.EmailLicenses(t.Context())
	expectOutcome(t, err, outcome.Refused, fault.AccessDenied)
}
