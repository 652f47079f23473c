// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// SendHealthReader reports the state of counting and enforcement of send limits to operators.
type SendHealthReader interface {
	// SendHealth summarizes all accounts. A tenant is lagging in these cases:
	//
	//   - Its messages were last counted before laggingBefore, or at a time that is too far in the
	//     future.
	//   - It has no counts, because its messages were never read, although it was ready
	//     before laggingBefore.
	//   - It has no counts, and TenantClaim.Mark is more than 26 hours before laggingBefore.
	SendHealth(ctx context.Context, now, laggingBefore time.Time) (SendHealth, error)
	// SendStandings returns the state of an account's tenants that were counted or have a blocked
	// mailbox.
	SendStandings(ctx context.Context, owner access.AccountID) (map[tenant.GUID]SendState, error)
}

// SendHealth is the state of enforcement for all accounts.
type SendHealth struct {
	// OldestDue is when the first of the due tenants began to wait, zero if no tenant is due. A
	// tenant waits from its due time. If that time is not after the consent, the tenant waits from
	// its last sync, or from the consent if it was never synced. Tenants with a lease do not count.
	OldestDue time.Time
	// LimitedTenants is the number of tenants that have an enforced limit, a valid consent and a
	// prepared mail server. LaggingTenants is the number of these tenants that are lagging.
	LimitedTenants, LaggingTenants int
	// BlockedMailboxes is the number of blocked mailboxes. StrandedMailboxes is the number of
	// blocked mailboxes that tenantry cannot unblock, because the tenant has a revoked consent or
	// an unprepared mail server.
	BlockedMailboxes, StrandedMailboxes int
}

// SendState is the state of enforcement for one tenant.
type SendState struct {
	// CountedAt is when the tenant's messages were last counted, zero for never.
	CountedAt time.Time
	// Blocked is the number of blocked mailboxes.
	Blocked int
}
