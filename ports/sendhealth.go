// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// SendWatch reports the state of counting and enforcement of send limits to operators.
type SendWatch interface {
	// SendHealth summarizes all accounts. A tenant is lagging if its messages were last counted
	// before the time laggingBefore. A tenant that was never counted is lagging if it was ready
	// before that time.
	SendHealth(ctx context.Context, now, laggingBefore time.Time) (SendHealth, error)
	// SendStandings returns the state of an account's tenants that were counted or have a blocked
	// mailbox.
	SendStandings(ctx context.Context, owner access.AccountID) (map[tenant.GUID]SendStanding, error)
}

// SendHealth is the state of enforcement for all accounts.
type SendHealth struct {
	// OldestDue is the earliest due time of all tenants that are due. Tenants with a lease do not
	// count. OldestDue is zero if no tenant is due.
	OldestDue time.Time
	// LimitedTenants is the number of tenants that have an enforced limit, a valid consent and a
	// prepared mail server. LaggingTenants is the number of these tenants that are lagging.
	LimitedTenants, LaggingTenants int
	// BlockedMailboxes is the number of blocked mailboxes. StrandedMailboxes is the number of
	// blocked mailboxes that tenantry cannot unblock, because the tenant has a revoked consent or
	// an unprepared mail server.
	BlockedMailboxes, StrandedMailboxes int
}

// SendStanding is the state of enforcement for one tenant.
type SendStanding struct {
	// CountedAt is when the tenant's messages were last counted, zero for never.
	CountedAt time.Time
	// Blocked is the number of blocked mailboxes.
	Blocked int
}
