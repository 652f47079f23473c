// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestCommandsDuringABatchFormTheNextBatch(t *testing.T) {
	var rs redisSession
	firstBatch, isFirst := rs.join(&command{})
	if !isFirst || firstBatch == nil {
		t.Fatal("the first command does not start a batch")
	}
	nextBatch, isFirst := rs.join(&command{})
	sameBatch, _ := rs.join(&command{})
	if isFirst || nextBatch != sameBatch || nextBatch == firstBatch {
		t.Fatal("later commands do not form one next batch")
	}
	if next := rs.completeBatch(); next != nextBatch || len(next.commands) != 2 || !isDone(firstBatch) || !firstBatch.wasAnswered || isDone(nextBatch) {
		t.Fatalf("after the first batch, %+v is in flight", next)
	}
	if next := rs.completeBatch(); next != nil || !nextBatch.wasAnswered {
		t.Fatalf("%+v is in flight, although no command waits", next)
	}
	if _, isFirst := rs.join(&command{}); !isFirst {
		t.Fatal("a command after the last batch does not start a batch")
	}
}

func TestEndedSessionReleasesAllWaitingCallers(t *testing.T) {
	var rs redisSession
	firstBatch, _ := rs.join(&command{})
	nextBatch, _ := rs.join(&command{})
	if !rs.end() || rs.end() {
		t.Error("end does not return true exactly once")
	}
	if !isDone(firstBatch) || !isDone(nextBatch) || firstBatch.wasAnswered || nextBatch.wasAnswered || rs.isActive() {
		t.Error("a caller still waits, or the session is active")
	}
	if b, _ := rs.join(&command{}); b != nil || rs.completeBatch() != nil {
		t.Error("an ended session accepts commands")
	}
}

func isDone(b *batch) bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// TestSessionEndsWhenABatchTimesOut checks that a session ends if a batch gets no answer within
// answerTimeout. A timer that fires after the answer must do nothing.
func TestSessionEndsWhenABatchTimesOut(t *testing.T) {
	for name, tc := range map[string]struct {
		answer time.Duration
		active bool
	}{"in time": {49 * time.Millisecond, true}, "late": {51 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cancelled, cancel := context.WithCancel(t.Context())
				cancel() // so that Redis is not probed
				rc := &redisCounters{answerTimeout: 50 * time.Millisecond, log: slog.New(slog.DiscardHandler), ctx: cancelled}
				session := &redisSession{}
				rc.session.Store(session)
				b, _ := session.join(&command{})
				rc.startTimeout(session, b)
				go func() {
					<-time.After(tc.answer)
					session.completeBatch()
				}()
				<-b.done
				if b.wasAnswered != tc.active {
					t.Errorf("the batch was answered: %v, want the opposite", b.wasAnswered)
				}
				<-time.After(time.Second)
				if session.isActive() != tc.active {
					t.Errorf("the session is active: %v, want the opposite", session.isActive())
				}
			})
		})
	}
}
