// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

// Plans lists what accounts can pay for, with the limits that a new account
// of the plan starts with.
func Plans() []Plan {
	return []Plan{
		{Name: "api_starter", TenantSlots: 25},
		{Name: "api_growth", TenantSlots: 50, AutomaticDNS: true},
		{Name: "api_scale", TenantSlots: 100, AutomaticDNS: true},
		{Name: "complete", TenantSlots: 100, AutomaticDNS: true},
		{Name: "legacy_trial", TenantSlots: 5},
	}
}

// NoSuchPlan refuses a plan by a name that none has, and says which have one.
func NoSuchPlan() error {
	var names []string
	for _, plan := range Plans() {
		names = append(names, plan.Name)
	}
	return fault.InvalidRequest.With("there is no such plan; there are %s", strings.Join(names, ", "))
}

// Entitled refuses every request of an account whose plan is not active.
func (a Account) Entitled() error {
	if !a.Active {
		return fault.NoAPIPlan.With("the account has no active API plan")
	}
	return nil
}

// MayConnect refuses a connect link when every slot holds a tenant whose
// consent works. A tenant whose consent was revoked leaves room: connecting it
// again takes no new slot, and the confirmation counts once more.
func (a Account) MayConnect(working int) error {
	if working >= a.Plan.TenantSlots {
		return fault.TenantLimitReached.With("all %d tenant slots of the plan are taken", a.Plan.TenantSlots)
	}
	return nil
}

// MayAttach refuses one more tenant beside the held ones.
func (a Account) MayAttach(held int) error {
	if held >= a.Plan.TenantSlots {
		return fault.TenantLimitReached.With("all %d tenant slots of the plan are taken", a.Plan.TenantSlots)
	}
	return nil
}

// MayAutomateDNS refuses accounts whose plan has no automatic DNS.
func (a Account) MayAutomateDNS() error {
	if !a.Plan.AutomaticDNS {
		return fault.DNSAutomationNotInPlan.With("automatic DNS is not part of the account's plan")
	}
	return nil
}

// MayGrow refuses to add to tenants (a domain, mailboxes, DNS) while the
// account holds more of them than its plan allows, as after a downgrade.
func (a Account) MayGrow(held int) error {
	if held > a.Plan.TenantSlots {
		return fault.TenantLimitReached.With("the account holds %d tenants, its plan allows %d", held, a.Plan.TenantSlots)
	}
	return nil
}
