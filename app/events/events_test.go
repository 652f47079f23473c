// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/ports"
)

// deletionRecorder records the times up to which DropEvents is told to delete events.
type deletionRecorder struct {
	ports.EventLogs
	deletedBefore []time.Time
}

func (r *deletionRecorder) DropEvents(_ context.Context, before time.Time) (int, error) {
	r.deletedBefore = append(r.deletedBefore, before)
	return 0, nil
}

// TestRetentionDeterminesDeletedEvents checks that DeleteOldEvents tells the store to delete the
// events older than the retention, and that a zero or negative retention deletes nothing.
func TestRetentionDeterminesDeletedEvents(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for retention, wantDeletions := range map[time.Duration]int{48 * time.Hour: 1, 0: 0, -24 * time.Hour: 0} {
		recorder := &deletionRecorder{}
		s := &Service{Events: recorder, Retention: retention, Now: func() time.Time { return now }}
		if err := s.DeleteOldEvents(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(recorder.deletedBefore) != wantDeletions || wantDeletions > 0 && !recorder.deletedBefore[0].Equal(now.Add(-retention)) {
			t.Errorf("with the retention %s: got deletions of the events before %v, want %d deletions of the events older than the retention", retention, recorder.deletedBefore, wantDeletions)
		}
	}
}
