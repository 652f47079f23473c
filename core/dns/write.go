// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"time"
)

// Write is one request of a provisioning run that changes a zone. The provider makes all of the
// changes or none.
type Write struct {
	ID              string // UUIDv7
	DomainID, RunID string
	Zone            string
	Changes         []Change
	// Written are the values that the changes add. They are managed by tenantry once the write is
	// confirmed or counts as made (see ResolveWrites).
	Written []Written
	// At is when the write was stored, just before the request was sent. Confirmed is true once the
	// provider is known to have made the write.
	At        time.Time
	Confirmed bool
}

// attributionLimit is the time after a request with an unknown outcome during which matching
// records count as written by the request. A person who publishes the same records by hand usually
// does so later.
const attributionLimit = time.Hour

// Resolution says which writes were made, as far as ResolveWrites can decide.
type Resolution struct{ Made, Unmade []Write }

// ResolveWrites decides which writes were made. current holds the provider's record sets. A
// confirmed write was made. A write with an unknown outcome counts as made for the time
// attributionLimit, while the zone has exactly its record sets, with their values and TTLs.
// Otherwise its values count as foreign, so that tenantry does not replace a record that someone
// else may have published.
func ResolveWrites(writes []Write, current []RRSet, now time.Time) Resolution {
	var r Resolution
	for _, w := range writes {
		if w.Confirmed || now.Sub(w.At) <= attributionLimit && w.isIn(current) {
			r.Made = append(r.Made, w)
		} else {
			r.Unmade = append(r.Unmade, w)
		}
	}
	return r
}

func (w Write) isIn(current []RRSet) bool {
	return len(w.Changes) > 0 && !slices.ContainsFunc(w.Changes, func(c Change) bool {
		set := Find(current, c.After.Name, c.After.Type)
		return set.Synthesised || !c.IsMade(current) || len(set.Values) > 0 && set.TTL != c.After.TTL
	})
}

// Written returns the values that the made writes added.
func (r Resolution) Written() []Written {
	var written []Written
	for _, w := range r.Made {
		written = append(written, w.Written...)
	}
	return written
}
