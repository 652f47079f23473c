// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"errors"
	"slices"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// Zone is a zone at a DNS provider.
type Zone struct {
	ID          string // id at the provider, opaque
	Name        string // the apex, in the form of Record.Name
	NameServers []string
	// Idle is the provider's word for the state in which it publishes no changes of the zone, such
	// as "pending", "moved" or "secondary". A provider copies a secondary zone from a different
	// server. Idle is empty if changes are published.
	Idle string
}

// ServesDelegation reports whether the records of the zone are published: the zone is not idle, and
// NameServers equals the name servers of the delegation.
func (z Zone) ServesDelegation(delegation []string) bool {
	return z.Idle == "" && len(delegation) > 0 && slices.Equal(plainNames(z.NameServers), plainNames(delegation))
}

// plainNames returns the names in lower case without a final dot, sorted and without duplicates.
func plainNames(names []string) []string {
	normalized := make([]string, len(names))
	for i, name := range names {
		normalized[i] = normalName(name)
	}
	slices.Sort(normalized)
	return slices.Compact(normalized)
}

// Change replaces one record set of a zone. Before is the set from which the plan was made, After
// is the desired set. A set without values stands for a set that does not exist. If the TTLs of
// both are equal, the set keeps the TTL that it has at the provider. If only Before is Veiled, the
// change also makes the name servers return the set itself.
type Change struct {
	Before, After RRSet
}

// IsMade reports whether a zone with these record sets has the change.
func (c Change) IsMade(current []RRSet) bool {
	set := Find(current, c.After.Name, c.After.Type)
	return set.Same(c.After) && !(set.Veiled && c.Before.Veiled && !c.After.Veiled)
}

// The causes of errors that every DNS provider can return.
const (
	causeChanged    = "zone_changed"
	causeNoZone     = "zone_not_found"
	causeOverlapped = "zone_changed_during_write"
)

// ChangedError returns the error of a write that was refused because the zone has changed since the
// write was planned. Nothing was written.
func ChangedError() error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.ProviderError, Cause: causeChanged,
		Detail: "the zone has changed since the write was planned; nothing was written"}
}

// NoZoneError returns the error for a zone to which the credential has no access.
func NoZoneError() error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.ProviderError, Cause: causeNoZone,
		Detail: "the credential has no access to the zone at the DNS provider"}
}

// OverlappedError returns the error of a write that was made after someone else had changed the
// zone between the last read and the write. The write may have overwritten a value that the other
// change wrote.
func OverlappedError() error {
	return &outcome.Error{Kind: outcome.Broken, Cause: causeOverlapped,
		Detail: "the zone was changed by someone else during the write, so a value may be lost"}
}

// IsChanged reports whether err is or wraps an error of ChangedError.
func IsChanged(err error) bool { return hasCause(err, outcome.Refused, causeChanged) }

// IsNoZone reports whether err is or wraps an error of NoZoneError.
func IsNoZone(err error) bool { return hasCause(err, outcome.Refused, causeNoZone) }

// IsOverlapped reports whether err is or wraps an error of OverlappedError.
func IsOverlapped(err error) bool { return hasCause(err, outcome.Broken, causeOverlapped) }

func hasCause(err error, kind outcome.Kind, cause string) bool {
	var callErr *outcome.Error
	return errors.As(err, &callErr) && callErr.Kind == kind && callErr.Cause == cause
}

// Outstanding returns the changes that are not made yet. current holds the provider's current
// record sets. In each returned change, Before is the current set. Changes that are already made
// are omitted, so that a write can be repeated. Sets are compared without their TTLs, so a change
// of only the TTL counts as made. Outstanding fails with ChangedError if a set has neither the
// values of Before nor those of After, or if a CNAME would share its name with other records. The
// caller must then write nothing.
func Outstanding(current []RRSet, changes []Change) ([]Change, error) {
	var outstanding []Change
	for _, c := range changes {
		set := Find(current, c.After.Name, c.After.Type)
		switch {
		case c.IsMade(current):
		case set.Same(c.Before):
			if len(set.Values) > 0 && c.After.TTL == c.Before.TTL {
				c.After.TTL = set.TTL
			}
			c.Before = set
			outstanding = append(outstanding, c)
		default:
			return nil, ChangedError()
		}
	}
	if !cnamesStandAlone(current, changes) {
		return nil, ChangedError()
	}
	return outstanding, nil
}

// cnamesStandAlone reports whether no name of a changed set has both a CNAME and other records
// after the changes.
func cnamesStandAlone(current []RRSet, changes []Change) bool {
	after := WithoutChanged(current, changes)
	for _, c := range changes {
		after = append(after, c.After)
	}
	for _, c := range changes {
		for _, s := range after {
			if len(c.After.Values) > 0 && len(s.Values) > 0 && sameName(s.Name, c.After.Name) &&
				s.Type != c.After.Type && (s.Type == CNAME || c.After.Type == CNAME) {
				return false
			}
		}
	}
	return true
}

// CheckChanges returns an error for changes that a plan can never contain: a set that the zone
// cannot hold (see InZone), an SOA, the zone's own NS, several CNAMEs at one name, a set that
// occurs twice, or a change of name or type.
func CheckChanges(zone string, changes []Change) error {
	for i, c := range changes {
		set := c.After
		atApex := sameName(set.Name, zone)
		switch {
		case !sameName(set.Name, c.Before.Name) || set.Type != c.Before.Type,
			!set.InZone(zone),
			set.Type == SOA || (atApex && set.Type == NS),
			set.Type == CNAME && len(set.Values) > 1,
			slices.ContainsFunc(changes[:i], func(o Change) bool {
				return o.After.Type == set.Type && sameName(o.After.Name, set.Name)
			}):
			return &outcome.Error{Kind: outcome.Refused, Code: fault.ProviderError, Cause: "change_not_allowed",
				Detail: "this change of the zone is not allowed"}
		}
	}
	return nil
}
