// SPDX-License-Identifier: Apache-2.0

// Package observation orders the observations of a provider's objects by time.
//
// Requests and jobs read a provider concurrently, and may store their answers late and in any
// order. Each part of a stored row therefore has the time of its observation, and an older
// observation never replaces a newer one. Tenants, domains, mailboxes and integrations are merged
// part by part, with Advance.
//
// The time of a read is the time before its call, because the answer may show the state at that
// time. The time of a write is the time after its answer, because the effect of the write is
// certain only then. A read that overlaps a write therefore never replaces the result of the write.
// If a lagging replica can show the old value even after the write, the time comes from HeldUntil.
//
// The times come from the clocks of the processes. If the clock of a process is behind, its
// observation does not replace the observations that other processes made just before. The next
// sync reads the object again.
package observation

import "time"

// ReplicaLag is how long a provider's replicas may lack an object that exists, or show a value that
// was replaced.
const ReplicaLag = 15 * time.Minute

// HeldUntil returns the observation time to store for a write at the time at, if later reads can
// still show the old value. The time is ReplicaLag after the write. A read that began earlier than
// that therefore does not replace the written value.
func HeldUntil(at time.Time) time.Time { return at.Add(ReplicaLag) }

// Advance reports whether an observation at the time seen replaces the observation at the time
// stored. If so, it sets stored to seen. The zero time means not observed: an observation at the
// zero time replaces only a part that was never observed.
func Advance(stored *time.Time, seen time.Time) bool {
	if seen.Before(*stored) {
		return false
	}
	*stored = seen
	return true
}

// IsGone reports whether a missing object no longer exists. missedAt is the time of a read that did
// not find the object. missingSince is the time of the first such read, zero if there was none
// since the object was last found. Two such reads less than ReplicaLag apart may come from the same
// lagging replica.
func IsGone(missingSince, missedAt time.Time) bool {
	return !missingSince.IsZero() && missedAt.Sub(missingSince) >= ReplicaLag
}
