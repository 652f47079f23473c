// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// EnforcementEvents is the log of blocked and unblocked mailboxes. A store adds each event in the
// transaction that stores the change of the mailbox, for example in TenantClaims.SaveChanges.
// Events belong to an account and remain after the mailbox or the tenant is deleted.
type EnforcementEvents interface {
	// Events returns a page of an account's events, newest first, and the number of all events that
	// match q, both from one snapshot. A larger offset does not make the call slower. If q names a
	// tenant that the account does not have now, Events fails with tenant_not_found. The events of
	// a deleted tenant appear only in queries without a tenant.
	Events(ctx context.Context, owner access.AccountID, q EventQuery) (EventPage, error)
	// DeleteEvents deletes the events of whole UTC days that ended at or before the given time. It
	// returns the number of deleted events. It deletes in batches, oldest events first, so an
	// interrupted call can be repeated.
	DeleteEvents(ctx context.Context, before time.Time) (int, error)
}

// EventQuery selects events. An empty Tenant or Action selects all. Limit must be positive.
type EventQuery struct {
	Tenant        tenant.GUID
	Action        sendlimit.Action
	Limit, Offset int
}

// EventPage is a page of events.
type EventPage struct {
	Events []sendlimit.Event
	Total  int
}
