// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/ports"
)

// deletionRecorder records the arguments of DropEvents.
type deletionRecorder struct {
	ports.EventLogs
	before []time.Time
}

func (r *deletionRecorder) DropEvents(_ context.Context, before time.Time) (int, error) {
	r.before = append(r.before, before)
	return 0, nil
}

// TestRetentionDeterminesDeletedEvents checks that events older than the retention are deleted, and
// that a zero or negative retention deletes nothing.
func TestRetentionDeterminesDeletedEvents(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for retention, wantDeletions := range map[time.Duration]int{48 * time.Hour: 1, 0: 0, -24 * time.Hour: 0} {
		log := &deletionRecorder{}
		s := &Service{Events: log, Retention: retention, Now: func() time.Time { return now }}
		if err := s.DeleteOldEvents(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(log.before) != wantDeletions || wantDeletions > 0 && !log.before[0].Equal(now.Add(-retention)) {
			t.Errorf("with the retention %s, events before %v were deleted", retention, log.before)
		}
	}
}
