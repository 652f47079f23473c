// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// SendCapacity stores the data from which the headroom of a tenant is computed (see
// tenant.Headroom). To an account, the tenants of other accounts do not exist.
type SendCapacity interface {
	// SaveLicenses stores the licences that the platform reported at the time at. It ignores them
	// if a later report is already stored. It fails with tenant_not_found.
	SaveLicenses(ctx context.Context, owner access.AccountID, id tenant.GUID, l tenant.Licenses, at time.Time) error
	// Sending returns the last licences and the number of messages that the mailboxes of
	// TenantClaims.CountedMailboxes sent on the day that contains now. Counts of other days are
	// ignored. Sending fails with tenant_not_found.
	Sending(ctx context.Context, owner access.AccountID, id tenant.GUID, now time.Time) (tenant.Sending, error)
}
