// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"time"
)

// listOrganization answers GET /organization with one element, which lists only verified domains.
func listOrganization(c *graphCall, t *tenant) result {
	const mail = "Email, OfficeCommunicationsOnline"
	hasDefault := false
	domains := []object{}
	for _, d := range t.Domains {
		if !d.Verified {
			continue
		}
		capabilities := "None"
		if d.isEmailEnabled() {
			capabilities = mail
		}
		hasDefault = hasDefault || d.Default
		domains = append(domains, object{"name": d.Name, "type": "Managed", "isDefault": d.Default,
			"isInitial": false, "capabilities": capabilities})
	}
	domains = append([]object{{"name": t.initialDomain(), "type": "Managed", "isDefault": !hasDefault,
		"isInitial": true, "capabilities": mail}}, domains...)
	return c.collection("organization", []object{{
		"id": t.ID, "displayName": t.Name, "tenantType": "AAD",
		"createdDateTime": t.Created.Format(time.RFC3339), "verifiedDomains": domains,
	}})
}

// getSecurityDefaults answers whether security defaults are enforced. At Microsoft, they block SMTP
// AUTH with a password.
func getSecurityDefaults(c *graphCall, t *tenant) result {
	return c.entity(http.StatusOK, "policies/identitySecurityDefaultsEnforcementPolicy", object{
		"id": "00000000-0000-0000-0000-000000000005", "displayName": "Security Defaults",
		"description": "Security defaults is a set of basic identity security mechanisms recommended by Microsoft.",
		"isEnabled":   t.Behaviour.SecurityDefaults,
	})
}

// licenses holds the number of a tenant's paid and trial licences that include e-mail.
type licenses struct {
	Paid  int `json:"paid"`
	Trial int `json:"trial"`
}

// product is the product of a subscription. Its ids and names are those of Microsoft's page
// "Product names and service plan identifiers for licensing".
type product struct {
	sku, name string
	plans     []object
}

// The products, each with some of its service plans: Microsoft 365 Business Basic, Office 365 E3,
// and the free Power BI, which every tenant has. Power BI includes the foundation plan of Exchange,
// which has no mailbox.
var (
	businessBasic = product{"3b555118-da6a-4418-894f-7df1e2096870", "O365_BUSINESS_ESSENTIALS", []object{
		servicePlan("9aaf7827-d63c-4b61-89c3-182f06f82e5c", "EXCHANGE_S_STANDARD", "User"),
		servicePlan("c7699d2e-19aa-44de-8edf-1736da088ca1", "SHAREPOINTSTANDARD", "User"),
	}}
	officeE3 = product{"6fd2c87f-b296-42f0-b197-1e91e994b900", "ENTERPRISEPACK", []object{
		servicePlan("efb87545-963c-4e0d-99df-69c6916d9eb0", "EXCHANGE_S_ENTERPRISE", "User"),
		servicePlan("5dbe027f-2339-4123-9542-606e4d348a72", "SHAREPOINTENTERPRISE", "User"),
	}}
	powerBI = product{"a403ebcc-fae0-4ca2-8c8c-7a907fd6c235", "POWER_BI_STANDARD", []object{
		servicePlan("2049e525-b859-401b-b2a0-e0a31c4b1fe4", "BI_AZURE_P0", "User"),
		servicePlan("113feb6c-3fe4-4440-bddc-54d774bf0318", "EXCHANGE_S_FOUNDATION", "Company"),
	}}
)

// servicePlan returns one service plan of a product as Graph shows it.
func servicePlan(id, name, appliesTo string) object {
	return object{"servicePlanId": id, "servicePlanName": name, "provisioningStatus": "Success", "appliesTo": appliesTo}
}

// licenses returns the licences in the settings, or by default one paid licence for each licensed
// user, but at least one.
func (t *tenant) licenses() licenses {
	if t.Behaviour.Licenses != nil {
		return *t.Behaviour.Licenses
	}
	users := 0
	for _, u := range t.Users {
		if u.Licensed {
			users++
		}
	}
	return licenses{Paid: max(1, users)}
}

// listSubscriptions answers GET /directory/subscriptions, in pages.
func listSubscriptions(c *graphCall, t *tenant) result {
	query := c.r.URL.Query()
	for _, name := range []string{"$top", "$skip", "$count", "$expand"} {
		if query.Has(name) { // according to the metadata, Graph does not support this option here
			return errorResult(errFilter.with(name))
		}
	}
	licenseCounts := t.licenses()
	objects := []object{}
	for _, s := range []struct {
		product
		trial    bool
		licences int
	}{{powerBI, false, 1000000}, {businessBasic, false, licenseCounts.Paid}, {officeE3, true, licenseCounts.Trial}} {
		if s.licences > 0 {
			objects = append(objects, t.subscription(s.product, s.trial, s.licences, c.now))
		}
	}
	rows, next := c.page(objects, t.Behaviour.PageSize)
	answer := c.collection("directory/subscriptions", rows)
	if next != "" {
		answer.body.(object)["@odata.nextLink"] = next
	}
	return answer
}

// subscription returns one subscription as Graph shows it.
func (t *tenant) subscription(p product, trial bool, licences int, now time.Time) object {
	return object{
		"id": guid("subscription", t.ID, p.sku), "commerceSubscriptionId": guid("commerce", t.ID, p.sku),
		"createdDateTime": t.Created.Format(time.RFC3339), "nextLifecycleDateTime": now.AddDate(0, 1, 0).Format(time.RFC3339),
		"isTrial": trial, "status": "Enabled", "totalLicenses": licences, "skuId": p.sku, "skuPartNumber": p.name,
		"serviceStatus": p.plans, "ownerId": nil, "ownerTenantId": nil, "ownerType": nil,
	}
}
