// SPDX-License-Identifier: Apache-2.0

// Package sendlimit defines the rules of daily send limits: which limit applies to a mailbox, when
// the mailbox is blocked and unblocked, and which event is recorded.
//
// Start reading at Decide in decide.go. It maps policies and counts to a Decision: the addresses
// that each transport rule must block, and the mailboxes to block or unblock. The main types are
// Policy, MailboxState, Decision, Rule, Reading and Event.
//
//   - decide.go: Decide, the events, and NextEvaluation, which schedules the next evaluation.
//   - policy.go: limits, and the policies with their scopes.
//   - apply.go: the order in which the rules of a Decision are written.
//   - rule.go: the transport rules at the mail platform, and their names.
//   - count.go: the messages of a trace, counted by mailbox and day.
//   - day.go: the days of a time zone.
package sendlimit

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

// MailboxState is the state of a mailbox that Decide needs.
type MailboxState struct {
	ID       string
	Address  string
	Domain   string
	OwnLimit int // the mailbox's own limit, 0 for none
	// Sent is the number of messages sent on the day. It is a lower bound unless Counted is true.
	Sent    int
	Counted bool
	// BlockedAt is when the decision to block the mailbox was made, zero when it is not blocked.
	BlockedAt time.Time
	// ExceededLimit is the limit that the mailbox exceeded when it was blocked, 0 when unknown.
	ExceededLimit int
}

func (m MailboxState) isBlocked() bool { return !m.BlockedAt.IsZero() }

// Decision is the decision for a tenant: the addresses that each rule must block, and the mailboxes
// to block or unblock.
type Decision struct {
	// BlockLists maps the scope of each policy to the addresses to block, sorted. An empty list
	// means that the rule must be switched off.
	BlockLists map[string][]string
	// Changes are the mailboxes to block or unblock. The caller stores a change as done only after
	// the rules at the platform have its effect.
	Changes []Change
}

// Change is the decision to block or unblock one mailbox.
type Change struct {
	MailboxID string
	// Scope is the scope of the policy that covers the mailbox, TenantWide if none does. The rule of
	// this scope blocks the mailbox if Action is Blocked.
	Scope  string
	Action Action
	At     time.Time // time of the decision
	Event  Event     // without ID and At, which are set when the event is stored
}

// Action is what enforcement does to a mailbox.
type Action string

// The actions.
const (
	Blocked   Action = "blocked"
	Unblocked Action = "unblocked"
)

// IsKnown reports whether a is a defined action.
func (a Action) IsKnown() bool { return a == Blocked || a == Unblocked }

// Event records that a mailbox was blocked or unblocked. It is kept after its mailbox and tenant
// are deleted.
type Event struct {
	ID      string // UUIDv7 with the time At
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

// Decide returns the decision at the time now for a tenant's mailboxes on a day.
//
// A mailbox is blocked when its count exceeds its limit. It is unblocked when the day ends, when
// the limit is raised to the count or above, or when no policy covers it. A missing count is not
// zero, and a partial count is a lower bound: neither unblocks a mailbox. A clock that goes back
// does not unblock a mailbox either.
func Decide(id tenant.GUID, policies Policies, mailboxes []MailboxState, day Day, now time.Time) Decision {
	decision := Decision{BlockLists: map[string][]string{}}
	for scope := range policies {
		decision.BlockLists[scope] = []string{}
	}
	for _, m := range mailboxes {
		scope, covered := policies.Covering(m.Domain)
		block := covered && mustBlock(m, policies.Effective(m.OwnLimit, m.Domain), day)
		if block {
			decision.BlockLists[scope] = append(decision.BlockLists[scope], m.Address)
		}
		if block == m.isBlocked() {
			continue
		}
		action := Unblocked
		if block {
			action = Blocked
		}
		decision.Changes = append(decision.Changes, m.ChangeTo(action, id, policies, now))
	}
	for scope, list := range decision.BlockLists {
		slices.Sort(list)
		decision.BlockLists[scope] = slices.Compact(list)
	}
	return decision
}

// ChangeTo returns the change that blocks or unblocks the mailbox. The event of the change has the
// limit that applies now. If no policy covers the mailbox any more, the event has the limit that
// caused the block, if it is known.
func (m MailboxState) ChangeTo(action Action, id tenant.GUID, policies Policies, now time.Time) Change {
	limit := policies.Effective(m.OwnLimit, m.Domain)
	scope, covered := policies.Covering(m.Domain)
	if !covered && m.ExceededLimit > 0 {
		limit = m.ExceededLimit
	}
	return Change{MailboxID: m.ID, Scope: scope, Action: action, At: now, Event: Event{
		Tenant: id, Address: m.Address, Action: action, Sent: m.Sent, Limit: limit,
	}}
}

// mustBlock reports whether a mailbox that a policy covers must be blocked.
func mustBlock(m MailboxState, limit int, day Day) bool {
	if m.Sent > limit {
		return true
	}
	if m.Counted {
		// A block after the end of day means that the clock went back. The count of this earlier
		// day must not unblock the mailbox.
		return m.isBlocked() && !m.BlockedAt.Before(day.End)
	}
	return m.isBlocked() && !m.BlockedAt.Before(day.Start)
}

// MinInterval and MaxInterval bound the interval between two evaluations of a tenant, before
// NextEvaluation subtracts the tenant's offset. The platform's trace lags by minutes, so more
// frequent evaluations would find little that is new.
const (
	MinInterval = 5 * time.Minute
	MaxInterval = 30 * time.Minute
)

// NextEvaluation returns the time of a tenant's next evaluation. The interval shrinks as a mailbox
// approaches its limit. If a mailbox is blocked or exceeds its limit, the next evaluation is at the
// end of the day or earlier. To spread the load, each tenant has an offset of up to a tenth of the
// interval, which makes the interval shorter.
func NextEvaluation(id tenant.GUID, policies Policies, mailboxes []MailboxState, day Day, now time.Time) time.Time {
	highestUse, anyBlocked := 0.0, false
	for _, m := range mailboxes {
		if _, covered := policies.Covering(m.Domain); !covered {
			continue
		}
		limit := policies.Effective(m.OwnLimit, m.Domain)
		anyBlocked = anyBlocked || m.isBlocked() || limit > 0 && m.Sent > limit
		if !m.isBlocked() && limit > 0 {
			highestUse = max(highestUse, min(1, float64(m.Sent)/float64(limit)))
		}
	}
	wait := MaxInterval - time.Duration(highestUse*float64(MaxInterval-MinInterval))
	next := now.Add(wait - tenantOffset(id, wait/10))
	if anyBlocked && day.Contains(now) && next.After(day.End) {
		return day.End
	}
	return next
}

// tenantOffset returns a fixed fraction of maxOffset for a tenant, derived from a hash of its id.
func tenantOffset(id tenant.GUID, maxOffset time.Duration) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(id)) // never fails
	return time.Duration(float64(hash.Sum32()) / (1 << 32) * float64(maxOffset))
}
