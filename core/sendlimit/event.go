// SPDX-License-Identifier: Apache-2.0

// Package sendlimit holds the daily limits of mailboxes: which one applies,
// when a mailbox is blocked and when it is let go, and what is remembered of
// that.
package sendlimit

import (
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

// Action is what enforcement did to a mailbox.
type Action string

// The actions.
const (
	Blocked   Action = "blocked"
	Unblocked Action = "unblocked"
)

// Known reports whether there is such an action.
func (a Action) Known() bool { return a == Blocked || a == Unblocked }

// Event is one act of enforcement. It outlives the mailbox and the tenant that
// it is about.
type Event struct {
	ID      string // UUIDv7 of At, to the millisecond
	Tenant  tenant.GUID
	Address string // of the mailbox, as it was then
	Action  Action
	Sent    int       // how many were counted when it was decided
	Limit   int       // the limit that applied
	At      time.Time // when it was stored, which comes after the act
}

// Message is the event in words.
func (e Event) Message() string {
	if e.Action == Blocked {
		return fmt.Sprintf("Mailbox blocked: sent %d, limit %d", e.Sent, e.Limit)
	}
	return fmt.Sprintf("Mailbox unblocked: sent %d, limit %d", e.Sent, e.Limit)
}
