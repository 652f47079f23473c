// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"time"
)

// Write is one request of a provisioning run that changes a zone. The provider makes all its changes
// or none.
type Write struct {
	ID              string // UUIDv7
	DomainID, RunID string
	Zone            string
	Changes         []Change
	// Written are the values that the changes add. They are managed by tenantry once the write is
	// confirmed.
	Written []Written
	// At is when the write was intended, before the request was sent. Confirmed is true if the write
	// is known to have been made.
	At        time.Time
	Confirmed bool
}

// attributionLimit is how long after the request a record set counts as written by it. A person who
// publishes the same records by hand usually does so later.
const attributionLimit = time.Hour

// Resolution is the decision on writes whose outcomes are unknown.
type Resolution struct{ Made, Unmade []Write }

// Resolve decides from the provider's record sets whether writes with an unknown outcome were made.
// A write was made if the zone has all its sets with exactly the written values and TTLs, within
// attributionLimit. Otherwise all its values count as foreign, so that nothing replaces a record
// that someone else may have published.
func Resolve(open []Write, held []RRSet, now time.Time) Resolution {
	var r Resolution
	for _, w := range open {
		if w.Confirmed || now.Sub(w.At) <= attributionLimit && w.isIn(held) {
			r.Made = append(r.Made, w)
		} else {
			r.Unmade = append(r.Unmade, w)
		}
	}
	return r
}

// isIn reports whether the record sets of a zone are exactly those that the write wanted.
func (w Write) isIn(held []RRSet) bool {
	return len(w.Changes) > 0 && !slices.ContainsFunc(w.Changes, func(c Change) bool {
		set := Find(held, c.After.Name, c.After.Type)
		return set.Synthesised || !set.Same(c.After) || len(set.Values) > 0 && set.TTL != c.After.TTL
	})
}

// Written returns the values that the made writes added.
func (r Resolution) Written() []Written {
	var all []Written
	for _, w := range r.Made {
		all = append(all, w.Written...)
	}
	return all
}
