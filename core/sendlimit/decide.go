// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"maps"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

// Box is a mailbox as enforcement sees it.
type Box struct {
	ID      string
	Address string
	Domain  string
	Own     int // its stored limit, 0 for none
	// Sent is how many it has sent on the day, or at least that many unless
	// Counted.
	Sent    int
	Counted bool
	// BlockedAt is when it was decided to block it, zero when it is not blocked.
	BlockedAt time.Time
	// BlockedBy is the limit by which it was blocked, 0 where that is not known.
	BlockedBy int
}

func (b Box) blocked() bool { return !b.BlockedAt.IsZero() }

// Ruling is what is to be true of a tenant.
type Ruling struct {
	// Lists holds, for each policy's scope, the addresses that its rule has to
	// block, in order. An empty list is a rule that is switched off.
	Lists map[string][]string
	// Changes are the mailboxes that are blocked or let go by that. They are
	// so once the rules are as Lists has them, and not before.
	Changes []Change
}

// Change is a mailbox that is blocked or let go.
type Change struct {
	Box    string // its id
	Scope  string // whose rule blocks it, of no use for one that is let go
	Action Action
	At     time.Time // when it was decided
	Event  Event     // without id and time, which it gets when it is stored
}

// Decide says what is to be done about a tenant's mailboxes at a moment of its
// day.
//
// A mailbox is blocked when it was counted beyond its limit, and let go when
// its day is over, when its limit allows what it sent, or when no policy covers
// it any more. One that was not counted stays as it is: a gap is no zero, and a
// part lets nobody go.
// A clock that steps back lets nobody go.
func Decide(id tenant.GUID, policies Policies, boxes []Box, day Day, now time.Time) Ruling {
	r := Ruling{Lists: map[string][]string{}}
	for scope := range policies {
		r.Lists[scope] = []string{}
	}
	for _, b := range boxes {
		scope, covered := policies.Covering(b.Domain)
		over := covered && beyond(b, policies.Effective(b.Own, b.Domain), day)
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

// Becomes is the change of a mailbox that is blocked or let go. Its limit is the
// one that applies, or that of its block where none is enforced any more.
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

// beyond reports whether a mailbox that a policy covers has to be blocked.
func beyond(b Box, limit int, day Day) bool {
	if b.Sent > limit {
		return true
	}
	if b.Counted {
		// What was counted on a day that has not come yet says nothing of
		// the block.
		return b.blocked() && !b.BlockedAt.Before(day.End)
	}
	return b.blocked() && !b.BlockedAt.Before(day.Start)
}
