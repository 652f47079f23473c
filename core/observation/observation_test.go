// SPDX-License-Identifier: Apache-2.0

package observation_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/observation"
)

func TestAdvanceKeepsNewerObservation(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	for _, tt := range []struct {
		name               string
		stored, seen, want time.Time
		replaced           bool
	}{
		{"newer", early, late, late, true},
		{"older", late, early, late, false},
		{"at the same time", early, early, early, true},
		{"not observed", early, time.Time{}, early, false},
		{"never observed", time.Time{}, time.Time{}, time.Time{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := tt.stored
			if replaced := observation.Advance(&at, tt.seen); replaced != tt.replaced || !at.Equal(tt.want) {
				t.Fatalf("replaced: %v, now from %s", replaced, at)
			}
		})
	}
}

func TestGoneNeedsTwoMissesApart(t *testing.T) {
	first := time.Unix(1000, 0)
	for _, tt := range []struct {
		name  string
		since time.Time
		at    time.Time
		gone  bool
	}{
		{"the first miss", time.Time{}, first, false},
		{"a second miss too early", first, first.Add(observation.ReplicaLag - 1), false},
		{"a second miss", first, first.Add(observation.ReplicaLag), true},
		{"a miss that was stored late", first, first.Add(-time.Minute), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if gone := observation.IsGone(tt.since, tt.at); gone != tt.gone {
				t.Fatalf("gone: %v", gone)
			}
		})
	}
}
