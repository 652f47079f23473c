// SPDX-License-Identifier: Apache-2.0

package observation_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/observation"
)

func TestAdvanceKeepsNewerObservation(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	for _, tc := range []struct {
		name               string
		stored, seen, want time.Time
		wantReplaced       bool
	}{
		{"a newer observation", early, late, late, true},
		{"an older observation", late, early, late, false},
		{"an observation of the same time", early, early, early, true},
		{"no new observation", early, time.Time{}, early, false},
		{"no observation at all", time.Time{}, time.Time{}, time.Time{}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at := tc.stored
			if replaced := observation.Advance(&at, tc.seen); replaced != tc.wantReplaced || !at.Equal(tc.want) {
				t.Fatalf("got %t and the time %s, want %t and %s", replaced, at, tc.wantReplaced, tc.want)
			}
		})
	}
}

func TestIsGoneNeedsTwoMissesFarEnoughApart(t *testing.T) {
	firstMiss := time.Unix(1000, 0)
	for _, tc := range []struct {
		name         string
		missingSince time.Time
		at           time.Time
		wantGone     bool
	}{
		{"the first miss", time.Time{}, firstMiss, false},
		{"a second miss too early", firstMiss, firstMiss.Add(observation.ReplicaLag - 1), false},
		{"a second miss", firstMiss, firstMiss.Add(observation.ReplicaLag), true},
		{"a miss before the stored first miss", firstMiss, firstMiss.Add(-time.Minute), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if gone := observation.IsGone(tc.missingSince, tc.at); gone != tc.wantGone {
				t.Fatalf("gone is %t, want %t", gone, tc.wantGone)
			}
		})
	}
}
