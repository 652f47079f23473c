// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

// TestLicensesThatCount: those of subscriptions that are alive and come with a
// mailbox.
func TestLicensesThatCount(t *testing.T) {
	for name, tt := range map[string]struct {
		subscription string
		want         tenant.Licenses
	}{
		"bought":                      {`{"status":"Enabled","totalLicenses":25,"serviceStatus":[{"servicePlanName":"SHAREPOINTSTANDARD"},{"servicePlanName":"EXCHANGE_S_STANDARD"}]}`, tenant.Licenses{Paid: 25}},
		"tried out":                   {`{"isTrial":true,"status":"Enabled","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_ENTERPRISE"}]}`, tenant.Licenses{Trial: 25}},
		"bought, payment late":        {`{"isTrial":false,"status":"Warning","totalLicenses":2,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_DESKLESS"}]}`, tenant.Licenses{Paid: 2}},
		"for government":              {`{"status":"enabled","totalLicenses":3,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_ENTERPRISE_GOV"}]}`, tenant.Licenses{Paid: 3}},
		"Exchange Online Essentials":  {`{"status":"Enabled","totalLicenses":3,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_ESSENTIALS"}]}`, tenant.Licenses{Paid: 3}},
		"Exchange Online POP":         {`{"status":"Enabled","totalLicenses":3,"serviceStatus":[{"servicePlanName":"EXCHANGE_B_STANDARD"}]}`, tenant.Licenses{Paid: 3}},
		"the small business of old":   {`{"status":"Enabled","totalLicenses":3,"serviceStatus":[{"servicePlanName":"EXCHANGE_L_STANDARD"}]}`, tenant.Licenses{Paid: 3}},
		"suspended":                   {`{"status":"Suspended","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_STANDARD"}]}`, tenant.Licenses{}},
		"locked out":                  {`{"status":"LockedOut","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_STANDARD"}]}`, tenant.Licenses{}},
		"deleted":                     {`{"status":"Deleted","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_STANDARD"}]}`, tenant.Licenses{}},
		"the foundation of others":    {`{"status":"Enabled","totalLicenses":1000000,"serviceStatus":[{"servicePlanName":"BI_AZURE_P0"},{"servicePlanName":"EXCHANGE_S_FOUNDATION"}]}`, tenant.Licenses{}},
		"its form for government":     {`{"status":"Enabled","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_FOUNDATION_GOV"},{"servicePlanName":"EXCHANGE_FOUNDATION_GOV"}]}`, tenant.Licenses{}},
		"an archive beside a mailbox": {`{"status":"Enabled","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_ARCHIVE_ADDON"}]}`, tenant.Licenses{}},
		"an archive of its own":       {`{"status":"Enabled","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_ARCHIVE"}]}`, tenant.Licenses{}},
		"analytics, several places":   {`{"status":"Enabled","totalLicenses":25,"serviceStatus":[{"servicePlanName":"EXCHANGE_ANALYTICS"},{"servicePlanName":"EXCHANGEONLINE_MULTIGEO"}]}`, tenant.Licenses{}},
		"no number":                   {`{"status":"Enabled","totalLicenses":null,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_STANDARD"}]}`, tenant.Licenses{}},
		"nothing told":                {`{"serviceStatus":null}`, tenant.Licenses{}},
	} {
		t.Run(name, func(t *testing.T) {
			im := newImitation(t)
			// Beside it one licence that counts.
			im.answers["GET /directory/subscriptions"] = `{"value":[` + tt.subscription +
				`,{"status":"Enabled","totalLicenses":1,"serviceStatus":[{"servicePlanName":"EXCHANGE_S_STANDARD"}]}]}`
			tt.want.Paid++
			got, err := im.client.EmailLicenses(t.Context())
			same(t, err, got, tt.want)
		})
	}
}

func TestLicensesOfSeveralPages(t *testing.T) {
	w := newWorld(t)
	who, c := w.prepared(t, knobs{"page_size": 1, "licenses": knobs{"paid": 25, "trial": 4}})
	got, err := c.EmailLicenses(t.Context())
	same(t, err, got, tenant.Licenses{Paid: 25, Trial: 4})
	w.behave(t, who.GUID, knobs{"licenses": nil})
	got, err = c.EmailLicenses(t.Context())
	same(t, err, got, tenant.Licenses{Paid: 1})
}

func TestLicensesThatWeMayNotRead(t *testing.T) {
	im := newImitation(t)
	im.answers["GET /directory/subscriptions"] = `{"error":{"code":"Authorization_RequestDenied","message":"Insufficient privileges to complete the operation."}}`
	im.statuses["GET /directory/subscriptions"] = http.StatusForbidden
	_, err := im.client.EmailLicenses(t.Context())
	ends(t, err, outcome.Refused, fault.AccessDenied)
}
