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

// email reports whether its licences come with a mailbox. The foundation plan
// is part of licences that have none.
func (s subscription) email() bool {
	return slices.ContainsFunc(s.Services, func(p servicePlan) bool {
		return strings.HasPrefix(p.Name, "EXCHANGE_") && p.Name != "EXCHANGE_S_FOUNDATION"
	})
}

// lives reports whether it still counts. One whose payment is late does.
func (s subscription) lives() bool { return equalFold(s.Status, "Enabled") || equalFold(s.Status, "Warning") }

// EmailLicenses implements sdk.MailTenant. Graph answers it even while the mail
// server is not prepared.
func (c *client) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	all, err := graph.List[subscription](ctx, c.graph, graph.Plain("/directory/subscriptions"), "")
	var l tenant.Licenses
	for _, s := range all {
		switch {
		case !s.email() || !s.lives():
		case s.Trial:
			l.Trial += s.Licenses
		default:
			l.Paid += s.Licenses
		}
	}
	return l, err
}
