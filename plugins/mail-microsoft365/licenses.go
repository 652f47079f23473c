// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
)

// subscription is what a tenant has bought, or tries out.
type subscription struct {
	Trial    bool          `json:"isTrial"`
	Status   string        `json:"status"`
	Licenses int           `json:"totalLicenses"`
	Services []servicePlan `json:"serviceStatus"`
}

type servicePlan struct {
	Name string `json:"servicePlanName"`
}

// emailPlans are how the names of the service plans begin that come with a
// mailbox; variants for government and the like add to them. The foundation,
// archives, analytics and multi-geo have none.
//
// UNVERIFIED: which plans Microsoft counts as licences for e-mail is published
// nowhere; that a subscription whose payment is late still counts, neither.
var emailPlans = []string{
	"EXCHANGE_S_STANDARD", "EXCHANGE_S_ENTERPRISE", "EXCHANGE_S_DESKLESS", "EXCHANGE_S_ESSENTIALS",
	"EXCHANGE_B_STANDARD", "EXCHANGE_L_STANDARD",
}

// email reports whether its licences come with a mailbox.
func (s subscription) email() bool {
	return slices.ContainsFunc(s.Services, func(p servicePlan) bool {
		name := strings.ToUpper(p.Name)
		return slices.ContainsFunc(emailPlans, func(begin string) bool { return name == begin || strings.HasPrefix(name, begin+"_") })
	})
}

// lives reports whether it still counts: Suspended, LockedOut and Deleted do
// not. One whose payment is late, Warning, works as before.
func (s subscription) lives() bool {
	return equalFold(s.Status, "Enabled") || equalFold(s.Status, "Warning")
}

// EmailLicenses implements sdk.MailTenant. Graph answers it even while the mail
// server is not prepared.
func (c *client) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	all, err := graph.List[subscription](ctx, c.graph, graph.Plain("/directory/subscriptions"), "")
	var l tenant.Licenses
	for _, s := range all {
		switch {
		case !s.email() || !s.lives():
		case s.Trial:
			l.Trial += max(0, s.Licenses)
		default:
			l.Paid += max(0, s.Licenses)
		}
	}
	return l, err
}
