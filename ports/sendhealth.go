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
	// before the time laggingBefore, or at a time that is too far in the future. A tenant without
	// counts is lagging if its trace was never read and it was ready before that time, or if its
	// mark is more than 26 hours older than that time.
	SendHealth(ctx context.Context, now, laggingBefore time.Time) (SendHealth, error)
	// SendStandings returns the state of an account's tenants that were counted or have a blocked
	// mailbox.
	SendStandings(ctx context.Context, owner access.AccountID) (map[tenant.GUID]SendStanding, error)
}

// SendHealth is the state of enforcement for all accounts.
type SendHealth struct {
	// OldestDue is when the first of the due tenants began to wait: at its due time, but not before
	// it was connected. Tenants with a lease do not count. OldestDue is zero if no tenant is due.
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
