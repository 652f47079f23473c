// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"time"
)

// listOrganization answers GET /organization: always exactly one element, with
// the verified domains only.
func listOrganization(c *graphCall, t *tenant) result {
	const mail = "Email, OfficeCommunicationsOnline"
	hasDefault := false
	domains := []object{}
	for _, d := range t.Domains {
		if !d.Verified {
			continue
		}
		capabilities := "None"
		if d.mail() {
			capabilities = mail
		}
		hasDefault = hasDefault || d.Default
		domains = append(domains, object{"name": d.Name, "type": "Managed", "isDefault": d.Default,
			"isInitial": false, "capabilities": capabilities})
	}
	domains = append([]object{{"name": t.initial(), "type": "Managed", "isDefault": !hasDefault,
		"isInitial": true, "capabilities": mail}}, domains...)
	return c.many("organization", []object{{
		"id": t.ID, "displayName": t.Name, "tenantType": "AAD",
		"createdDateTime": t.Created.Format(time.RFC3339), "verifiedDomains": domains,
	}})
}

// securityDefaults answers whether the tenant forces extra sign-in checks,
// which blocks SMTP AUTH with a password.
func securityDefaults(c *graphCall, t *tenant) result {
	return c.one(http.StatusOK, "policies/identitySecurityDefaultsEnforcementPolicy", object{
		"id": "00000000-0000-0000-0000-000000000005", "displayName": "Security Defaults",
		"description": "Security defaults is a set of basic identity security mechanisms recommended by Microsoft.",
		"isEnabled":   t.Behaviour.SecurityDefaults,
	})
}
