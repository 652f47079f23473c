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
	var session redisSession
	firstBatch, isFirst := session.join(&command{})
	if !isFirst || firstBatch == nil {
		t.Fatalf("the first command: got the batch %+v, first %v, want a new batch", firstBatch, isFirst)
	}
	nextBatch, isFirst := session.join(&command{})
	sameBatch, _ := session.join(&command{})
	if isFirst || nextBatch != sameBatch || nextBatch == firstBatch {
		t.Fatal("the second and the third command are not in one new batch")
	}
	if next := session.completeBatch(); next != nextBatch || len(next.commands) != 2 || !isDone(firstBatch) || !firstBatch.wasAnswered || isDone(nextBatch) {
		t.Fatalf("after the first batch was answered, %+v is in flight, want the next batch with two commands", next)
	}
	if next := session.completeBatch(); next != nil || !nextBatch.wasAnswered {
		t.Fatalf("after the next batch was answered, %+v is in flight, want no batch", next)
	}
	if _, isFirst := session.join(&command{}); !isFirst {
		t.Fatal("a command after all batches were answered does not start a batch")
	}
}

func TestEndedSessionReleasesAllWaitingCallers(t *testing.T) {
	var session redisSession
	firstBatch, _ := session.join(&command{})
	nextBatch, _ := session.join(&command{})
	if !session.end() || session.end() {
		t.Error("two calls of end must return true, then false")
	}
	if !isDone(firstBatch) || !isDone(nextBatch) || firstBatch.wasAnswered || nextBatch.wasAnswered || session.isActive() {
		t.Error("after the end, a batch is not done or was answered, or the session is active")
	}
	if b, _ := session.join(&command{}); b != nil || session.completeBatch() != nil {
		t.Error("an ended session accepts a command, want no batch")
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
		answerAfter time.Duration
		wantActive  bool
	}{"in time": {49 * time.Millisecond, true}, "late": {51 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cancelledCtx, cancel := context.WithCancel(t.Context())
				cancel() // so that Redis is not probed
				shared := &redisCounters{answerTimeout: 50 * time.Millisecond, log: slog.New(slog.DiscardHandler), ctx: cancelledCtx}
				session := &redisSession{}
				shared.session.Store(session)
				b, _ := session.join(&command{})
				shared.startTimeout(session, b)
				go func() {
					<-time.After(tc.answerAfter)
					session.completeBatch()
				}()
				<-b.done
				if b.wasAnswered != tc.wantActive {
					t.Errorf("the batch was answered: %v, want %v", b.wasAnswered, tc.wantActive)
				}
				<-time.After(time.Second)
				if session.isActive() != tc.wantActive {
					t.Errorf("the session is active: %v, want %v", session.isActive(), tc.wantActive)
				}
			})
		})
	}
}
