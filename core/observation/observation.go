// SPDX-License-Identifier: Apache-2.0

// Package observation orders what tenantry learns about the objects of a provider.
//
// Requests and jobs ask the provider concurrently, and store the answers late and in any order. So
// each part of a stored row carries the time of its observation, and an older observation never
// replaces a newer one. The rows of tenants, domains, mailboxes and integrations are merged part by
// part, with Advance. The order in which the observations of a part are stored therefore does not
// matter.
//
// The time of a read is taken before its call, because the answer can show the state at that time.
// The time of a write is taken after its answer, because only then its effect is certain. So a read
// that overlaps a write never replaces the result of the write. Held is for a value that reads can show
// wrongly even after the write.
//
// Times are those of the processes' clocks. If the clock of a process is behind, its observation
// does not replace the observations that other processes made just before. The next sync reads the
// object again.
package observation

import "time"

// ReplicaLag is how long a provider's replicas may lack an object that exists, or show a value that was
// replaced.
const ReplicaLag = 15 * time.Minute

// Held returns the time of a write at the time at whose old value a later read can still show. Reads
// that began less than ReplicaLag after the write are older than this time, and later writes are newer.
func Held(at time.Time) time.Time { return at.Add(ReplicaLag) }

// Advance reports whether an observation made at seen replaces the one made at stored. If so, it
// sets stored to seen. The zero time stands for a part that was not observed: it replaces only a
// part that was never observed.
func Advance(stored *time.Time, seen time.Time) bool {
	if seen.Before(*stored) {
		return false
	}
	*stored = seen
	return true
}

// Gone reports whether an object that was missed at missedAt no longer exists. missingSince is the
// time of its first miss, zero if it was found after that. Two misses less than ReplicaLag apart can
// come from the same lagging replica.
func Gone(missingSince, missedAt time.Time) bool {
	return !missingSince.IsZero() && missedAt.Sub(missingSince) >= ReplicaLag
}
