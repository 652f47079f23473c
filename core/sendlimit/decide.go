// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"maps"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

// Box is the state of a mailbox that Decide needs.
type Box struct {
	ID      string
	Address string
	Domain  string
	Own     int // stored limit of the mailbox, 0 for none
	// Sent is the number of messages sent on the day. It is a lower bound unless Counted.
	Sent    int
	Counted bool
	// BlockedAt is when the decision to block the mailbox was made, zero when it is not blocked.
	BlockedAt time.Time
	// BlockedBy is the limit that the mailbox exceeded, 0 when unknown.
	BlockedBy int
}

func (b Box) blocked() bool { return !b.BlockedAt.IsZero() }

// Ruling is the decision for a tenant: the addresses that each rule must block, and the changes.
type Ruling struct {
	// Lists holds the addresses to block, sorted, for the scope of each policy. An empty list means
	// that the rule is switched off.
	Lists map[string][]string
	// Changes are the mailboxes to block or unblock. They take effect only once the rules at the
	// platform equal Lists.
	Changes []Change
}

// Change is a mailbox that is blocked or unblocked.
type Change struct {
	Box    string // id of the mailbox
	Scope  string // scope whose rule blocks the mailbox, meaningless for Unblocked
	Action Action
	At     time.Time // time of the decision
	Event  Event     // without ID and At, which are set when the event is stored
}

// Decide returns the decision for a tenant's mailboxes on day, made at now.
//
// A mailbox is blocked when its count exceeds its limit. It is unblocked when the day ends, when
// the limit is raised to the count or above, or when no policy covers it. A missing count is not
// zero, and a partial count is a lower bound: neither unblocks a mailbox. A clock that steps back
// does not unblock a mailbox either.
func Decide(id tenant.GUID, policies Policies, boxes []Box, day Day, now time.Time) Ruling {
	r := Ruling{Lists: map[string][]string{}}
	for scope := range policies {
		r.Lists[scope] = []string{}
	}
	for _, b := range boxes {
		scope, covered := policies.Covering(b.Domain)
		over := covered && exceedsLimit(b, policies.Effective(b.Own, b.Domain), day)
		if over {
			r.Lists[scope] = append(r.Lists[scope], b.Address)
		}
		if over == b.blocked() {
			continue
		}
		action := Unblocked
		if over {
			action = Blocked
		}
		r.Changes = append(r.Changes, b.Becomes(action, id, policies, now))
	}
	for _, scope := range slices.Collect(maps.Keys(r.Lists)) {
		slices.Sort(r.Lists[scope])
		r.Lists[scope] = slices.Compact(r.Lists[scope])
	}
	return r
}

// Becomes returns the change that blocks or unblocks the mailbox. Its limit is the effective one.
// If no policy covers the mailbox any more, it is the limit of the block.
func (b Box) Becomes(action Action, id tenant.GUID, policies Policies, now time.Time) Change {
	limit := policies.Effective(b.Own, b.Domain)
	scope, covered := policies.Covering(b.Domain)
	if !covered && b.BlockedBy > 0 {
		limit = b.BlockedBy
	}
	return Change{Box: b.ID, Scope: scope, Action: action, At: now, Event: Event{
		Tenant: id, Address: b.Address, Action: action, Sent: b.Sent, Limit: limit,
	}}
}

// exceedsLimit reports whether a mailbox that a policy covers must be blocked.
func exceedsLimit(b Box, limit int, day Day) bool {
	if b.Sent > limit {
		return true
	}
	if b.Counted {
		// A block set after the end of the day means that the clock stepped back. A count of an
		// earlier day does not lift it.
		return b.blocked() && !b.BlockedAt.Before(day.End)
	}
	return b.blocked() && !b.BlockedAt.Before(day.Start)
}
