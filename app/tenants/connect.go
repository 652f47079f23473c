// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

// Redirect sends a browser on, and may set the cookie that binds it.
type Redirect struct {
	URL    string
	Cookie secret.Text
}

// Offer is what the confirmation page shows: who is about to manage what.
type Offer struct {
	Account       access.Account
	Tenant        tenant.GUID
	Profile       tenant.Profile
	Administrator tenant.Administrator
	CSRF          string
}

// Callback takes the platform's answer to the consent: it checks and uses up
// the link's state, binds the flow to this browser and sends it to sign in at
// the tenant that the answer claims. rawQuery is the callback's query.
// Refusals: connect_link_invalid, consent_declined, invalid_request.
func (s *Service) Callback(ctx context.Context, rawQuery string) (Redirect, error) {
	panic("unwritten")
}

// SignedIn takes the answer of the sign-in, proves tenant and administrator
// and returns what the confirmation page shows. cookie is the browser's.
// Refusals: connect_link_invalid, not_an_administrator, tenant_held_elsewhere,
// tenant_limit_reached.
func (s *Service) SignedIn(ctx context.Context, rawQuery string, cookie secret.Text) (Offer, error) {
	panic("unwritten")
}

// Confirm attaches the tenant to the account, or ends the flow when connect
// is false (then the tenant returned is the zero value). Refusals as SignedIn's.
func (s *Service) Confirm(ctx context.Context, cookie secret.Text, csrf string, connect bool) (tenant.Tenant, error) {
	panic("unwritten")
}
