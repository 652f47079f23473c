// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// EnforcementEvents is the log of what enforcement did. It is found under its
// account alone, and stays when mailbox or tenant go.
type EnforcementEvents interface {
	// RecordEvents adds events, all or none. Those that are there already,
	// by their ids, are left as they are and counted once.
	RecordEvents(ctx context.Context, owner access.AccountID, events []sendlimit.Event) error
	// Events is a page of an account's events, newest first, and how many
	// there are in all; both as of one moment. It takes the same time at any
	// offset. Refusal: tenant_not_found for a tenant that the account does not
	// hold.
	Events(ctx context.Context, owner access.AccountID, q EventQuery) (EventPage, error)
	// DropEvents deletes the events of whole days (UTC) that ended by before,
	// and returns how many. It does so a day and an account at a time, so one
	// that is interrupted goes on where it stopped.
	DropEvents(ctx context.Context, before time.Time) (int, error)
}

// EventQuery selects events. Empty fields select all.
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
