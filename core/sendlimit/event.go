// SPDX-License-Identifier: Apache-2.0

// Package sendlimit holds the rules of daily send limits: which limit applies to a mailbox, when
// the mailbox is blocked and unblocked, and which event is recorded.
//
// Decide is the place to start reading: it maps policies and counts to a Ruling, the list of
// addresses that each transport rule must block. The main types are Policy, Box, Ruling, Rule,
// Reading and Event.
//
// limit.go defines limits and Policies, policy.go the stored Policy, and event.go the Event.
// decide.go makes the decision, and next.go schedules the next evaluation. carry.go orders the
// writes of rules, rule.go and rulename.go describe rules at the mail platform. count.go, day.go
// and passed.go turn message traces into counts per day.
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

// Known reports whether a is a defined action.
func (a Action) Known() bool { return a == Blocked || a == Unblocked }

// Event records that a mailbox was blocked or unblocked. It is kept after its mailbox and tenant
// are deleted.
type Event struct {
	ID      string // UUIDv7 of At, in milliseconds
	Tenant  tenant.GUID
	Address string // address of the mailbox at that time
	Action  Action
	Sent    int       // messages counted at the time of the decision
	Limit   int       // the limit that applied
	At      time.Time // when the event was stored, after the rule was changed
}

// Message returns the event as a sentence.
func (e Event) Message() string {
	if e.Action == Blocked {
		return fmt.Sprintf("Mailbox blocked: sent %d, limit %d", e.Sent, e.Limit)
	}
	return fmt.Sprintf("Mailbox unblocked: sent %d, limit %d", e.Sent, e.Limit)
}
