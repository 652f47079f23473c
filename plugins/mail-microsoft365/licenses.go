// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
)

// subscription is a product that the tenant has bought or is trying out.
type subscription struct {
	Trial    bool          `json:"isTrial"`
	Status   string        `json:"status"`
	Licenses int           `json:"totalLicenses"`
	Services []servicePlan `json:"serviceStatus"`
}

type servicePlan struct {
	Name string `json:"servicePlanName"`
}

// emailPlans are the service plans that include a mailbox. A plan also matches if its name begins
// with a listed name and an underscore, like the variants for governments. Foundation, archive,
// analytics and multi-geo plans include no mailbox.
//
// This list is an assumption, and so are the statuses of isActive: Microsoft does not publish which
// plans count as licences for e-mail, nor whether a subscription with a late payment counts.
var emailPlans = []string{
	"EXCHANGE_S_STANDARD", "EXCHANGE_S_ENTERPRISE", "EXCHANGE_S_DESKLESS", "EXCHANGE_S_ESSENTIALS",
	"EXCHANGE_B_STANDARD", "EXCHANGE_L_STANDARD",
}

func (s subscription) includesMailbox() bool {
	return slices.ContainsFunc(s.Services, func(p servicePlan) bool {
		name := strings.ToUpper(p.Name)
		return slices.ContainsFunc(emailPlans, func(plan string) bool { return name == plan || strings.HasPrefix(name, plan+"_") })
	})
}

// isActive reports whether the licences of the subscription count. They count if its status is
// Enabled, or Warning, which means that a payment is late. They do not count with any other status,
// such as Suspended, LockedOut or Deleted.
func (s subscription) isActive() bool {
	return strings.EqualFold(s.Status, "Enabled") || strings.EqualFold(s.Status, "Warning")
}

// EmailLicenses implements sdk.MailTenant. It uses Graph, so it works before Exchange is prepared.
func (c *tenantClient) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	subscriptions, err := graph.List[subscription](ctx, c.graph, graph.StaticPath("/directory/subscriptions"), "")
	var licenses tenant.Licenses
	for _, s := range subscriptions {
		switch {
		case !s.includesMailbox() || !s.isActive():
		case s.Trial:
			licenses.Trial += max(0, s.Licenses)
		default:
			licenses.Paid += max(0, s.Licenses)
		}
	}
	licenses.RecipientLimit = recipientLimit(licenses.Paid)
	return licenses, err
}

// trialRecipientLimit is the limit of a tenant without paid licences.
const trialRecipientLimit = 5000

// recipientLimit returns the maximum number of external recipients of a tenant in 24 hours, by the
// formula that Microsoft publishes. Trial licences do not count.
func recipientLimit(paid int) int {
	if paid <= 0 {
		return trialRecipientLimit
	}
	return int(math.Round(500*math.Pow(float64(paid), 0.7) + 9500))
}
