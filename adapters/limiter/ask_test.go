// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestBatches: what is asked while a batch is under way goes together, after it.
func TestBatches(t *testing.T) {
	var p presence
	one, first := p.join(&command{})
	if !first || one == nil {
		t.Fatal("the first one has to send")
	}
	two, first := p.join(&command{})
	three, _ := p.join(&command{})
	if first || two != three || two == one {
		t.Fatal("what came later is not one batch after the first")
	}
	if next := p.answer(); next != two || len(next.commands) != 2 || !ended(one) || !one.answered || ended(two) {
		t.Fatalf("%+v is under way after the first", next)
	}
	if next := p.answer(); next != nil || !two.answered {
		t.Fatalf("%+v is under way, where nobody asks", next)
	}
	if _, first := p.join(&command{}); !first {
		t.Fatal("nobody sends what comes then")
	}
}

// TestNobodyWaitsForOneThatIsAway, those in the queue neither.
func TestNobodyWaitsForOneThatIsAway(t *testing.T) {
	var p presence
	one, _ := p.join(&command{})
	two, _ := p.join(&command{})
	if !p.end() || p.end() {
		t.Error("it does not end once")
	}
	if !ended(one) || !ended(two) || one.answered || two.answered || p.lasts() {
		t.Error("somebody waits")
	}
	if b, _ := p.join(&command{}); b != nil || p.answer() != nil {
		t.Error("it goes on")
	}
}

func ended(b *batch) bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// TestPatience: a batch that has no answer in time ends the presence, one that
// has its answer in time does not, nor a watch that comes too late.
func TestPatience(t *testing.T) {
	for name, tt := range map[string]struct {
		answer time.Duration
		lasts  bool
	}{"in time": {49 * time.Millisecond, true}, "late": {51 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed, cancel := context.WithCancel(t.Context())
				cancel() // it is not looked for
				s := &shared{patience: 50 * time.Millisecond, log: slog.New(slog.DiscardHandler), ctx: closed}
				now := &presence{}
				s.presence.Store(now)
				b, _ := now.join(&command{})
				s.watch(now, b)
				go func() {
					<-time.After(tt.answer)
					now.answer()
				}()
				<-b.done
				if b.answered != tt.lasts {
					t.Errorf("it has an answer is %v", b.answered)
				}
				<-time.After(time.Second)
				if now.lasts() != tt.lasts {
					t.Errorf("it lasts is %v", now.lasts())
				}
			})
		})
	}
}
