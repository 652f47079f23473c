// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/tenant"
)

// EventLogs reads the event logs of accounts and deletes old events. It has no method that adds an
// event: the store adds it in the transaction that changes the object.
type EventLogs interface {
	// LoggedEvents returns a page of the owner's log, in the order of Sequence. Every event that is
	// committed later has a Sequence greater than LogPage.Next. LoggedEvents fails with
	// cursor_expired if events after q.After were deleted, and with invalid_request if q.After is
	// after the end of the log.
	LoggedEvents(ctx context.Context, owner access.AccountID, q LogQuery) (LogPage, error)
	// LastEvents returns the highest Sequence in the log of each owner, 0 for an empty log.
	LastEvents(ctx context.Context, owners ...access.AccountID) (map[access.AccountID]int64, error)
	// DropEvents deletes the events of the UTC days that ended at or before the given time. It
	// deletes the events of one account after the other, so an interrupted call can be repeated. It
	// returns the number of deleted events.
	DropEvents(ctx context.Context, before time.Time) (int, error)
}

// LogQuery selects events of one account.
type LogQuery struct {
	// After is the Sequence after which the page begins, or FromOldest.
	After int64
	// Types and Tenants select events; empty selects all. Events without a tenant are selected only
	// if Tenants is empty.
	Types   []event.Type
	Tenants []tenant.GUID
	Limit   int // maximum number of events
}

// FromOldest as LogQuery.After selects the page that begins with the oldest event.
const FromOldest int64 = -1

// LogPage is a part of a log.
type LogPage struct {
	Events []event.Event
	// Next is the LogQuery.After of the next page. It is at least the Sequence of the last event in
	// Events.
	Next int64
	// More is true if more events matched the query when the page was read.
	More bool
}
