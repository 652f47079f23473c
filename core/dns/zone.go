// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"errors"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// Zone is a zone as a DNS provider holds it.
type Zone struct {
	ID          string // the provider's own, opaque to everyone else
	Name        string // the apex, as in Record
	NameServers []string
	// Idle says, as a stable word, why the world does not see what is
	// written here ("pending", "moved", "paused", "partial", "secondary"),
	// or is empty.
	Idle string
}

// Change takes one record set of a zone from the state it was planned from to
// the one that is wanted. A set without values is absent. A TTL that Before
// and After have in common is not the change's business: the set keeps what
// the provider has.
type Change struct {
	Before, After RRSet
}

// The causes of the two refusals that every DNS provider words alike.
const (
	causeChanged = "zone_changed"
	causeNoZone  = "zone_not_found"
)

// Changed is the refusal of a write because the zone is no longer what the
// write was planned from. Nothing was written.
func Changed() error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.ProviderError, Cause: causeChanged,
		Detail: "the zone changed since it was planned; nothing was written"}
}

// NoZone is the refusal of a zone that the credential does not reach.
func NoZone() error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.ProviderError, Cause: causeNoZone,
		Detail: "the DNS provider shows no such zone to this credential"}
}

// IsChanged reports whether err is Changed, wherever it comes from.
func IsChanged(err error) bool { return refusedFor(err, causeChanged) }

// IsNoZone reports whether err is NoZone, wherever it comes from.
func IsNoZone(err error) bool { return refusedFor(err, causeNoZone) }

func refusedFor(err error, cause string) bool {
	var o *outcome.Error
	return errors.As(err, &o) && o.Kind == outcome.Refused && o.Cause == cause
}

// Same reports whether two sets hold the same values, in any order. The TTL
// is no part of it, so it is not called Equal, which comparisons in tests use.
func (s RRSet) Same(other RRSet) bool {
	return sameName(s.Name, other.Name) && s.Type == other.Type &&
		slices.Equal(slices.Sorted(slices.Values(s.Values)), slices.Sorted(slices.Values(other.Values)))
}

// Find returns the set of a name and type, without values when there is none.
func Find(sets []RRSet, name string, of Type) RRSet {
	for _, s := range sets {
		if s.Type == of && sameName(s.Name, name) {
			return s
		}
	}
	return RRSet{Name: name, Type: of}
}

// Outstanding holds changes against what the provider has now and returns
// those that are still to be made, with Before as it really is. One whose After
// is there already is done, so a write may be repeated. When anything is
// neither as planned nor done, or a CNAME would not stand alone, it is Changed
// and nothing may be written.
func Outstanding(now []RRSet, changes []Change) ([]Change, error) {
	var open []Change
	for _, c := range changes {
		have := Find(now, c.After.Name, c.After.Type)
		switch {
		case have.Same(c.After):
		case have.Same(c.Before):
			if len(have.Values) > 0 && c.After.TTL == c.Before.TTL {
				c.After.TTL = have.TTL
			}
			c.Before = have
			open = append(open, c)
		default:
			return nil, Changed()
		}
	}
	if !standsAlone(now, changes) {
		return nil, Changed()
	}
	return open, nil
}

// standsAlone reports whether no CNAME would have a neighbour after changes.
func standsAlone(now []RRSet, changes []Change) bool {
	planned := func(s RRSet) bool {
		return slices.ContainsFunc(changes, func(c Change) bool {
			return c.After.Type == s.Type && sameName(c.After.Name, s.Name)
		})
	}
	after := make([]RRSet, 0, len(now)+len(changes))
	for _, c := range changes {
		after = append(after, c.After)
	}
	for _, s := range now {
		if !planned(s) {
			after = append(after, s)
		}
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

// CheckChanges refuses what no plan of ours asks of a zone: a record outside of
// it, the zone's own SOA and NS, one set twice, a change of one set into
// another.
func CheckChanges(zone string, changes []Change) error {
	for i, c := range changes {
		at := c.After
		apex := sameName(at.Name, zone)
		switch {
		case !sameName(at.Name, c.Before.Name) || at.Type != c.Before.Type,
			!apex && !strings.HasSuffix(strings.ToLower(at.Name), "."+strings.ToLower(zone)),
			at.Type == "" || at.Type == SOA || (apex && at.Type == NS),
			at.Type == CNAME && len(at.Values) > 1,
			slices.ContainsFunc(changes[:i], func(o Change) bool {
				return o.After.Type == at.Type && sameName(o.After.Name, at.Name)
			}):
			return &outcome.Error{Kind: outcome.Refused, Code: fault.ProviderError, Cause: "change_not_allowed",
				Detail: "this change of the zone is none that may be made"}
		}
	}
	return nil
}
