// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Confirm attaches the tenant to the account, or ends the flow when connect
// is false (then the tenant returned is the zero value). Refusals:
// connect_link_invalid, no_api_plan, tenant_limit_reached,
// tenant_held_elsewhere.
//
// The flow ends first: a confirmation that dies half-way is begun anew with a
// new link, and finds the tenant attached or not. Nothing slow happens here;
// the sync that follows prepares the tenant.
func (s *Service) Confirm(ctx context.Context, cookie secret.Text, csrf string, connect bool) (tenant.Tenant, error) {
	if !same(csrf, derived(cookie, "csrf")) {
		return tenant.Tenant{}, invalidLink()
	}
	flow, err := s.take(ctx, cookie, ports.FlowConfirm, ports.FlowDone)
	if err != nil || !connect {
		return tenant.Tenant{}, err
	}
	failpoint.Hit("tenants.after-confirm")
	acc, err := s.Accounts.Account(ctx, flow.Account)
	if err != nil {
		return tenant.Tenant{}, err
	}
	if err := acc.Entitled(); err != nil {
		return tenant.Tenant{}, err
	}
	t, err := s.fresh(flow.Claimed, flow.Profile)
	if err != nil {
		return tenant.Tenant{}, err
	}
	t.ConnectedBy = flow.Administrator.Address
	return s.attach(ctx, acc, t)
}
