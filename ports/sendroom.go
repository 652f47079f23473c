// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// SendRoom keeps what tells how near a tenant is to what its platform lets it
// send. Another account's tenant is tenant_not_found like one that is unknown.
type SendRoom interface {
	// SaveLicenses stores the licences that the platform told at a moment. Of
	// two readings the later one stays. Refusal: tenant_not_found.
	SaveLicenses(ctx context.Context, owner access.AccountID, id tenant.GUID, l tenant.Licenses, at time.Time) error
	// Sending returns the licences that were read last, and how much the
	// tenant's listed mailboxes sent on the tenant's day in which now lies: a
	// count that was taken on another day is none of this one. Refusal:
	// tenant_not_found.
	Sending(ctx context.Context, owner access.AccountID, id tenant.GUID, now time.Time) (tenant.Sending, error)
}
