// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPatience: a request waits its time for an answer that does not come, as long
// as one needs that does, and not at all once somebody else waited in vain.
func TestPatience(t *testing.T) {
	for name, tt := range map[string]struct {
		answer, over, wait time.Duration
		ok                 bool
	}{
		"no answer":                  {time.Hour, time.Hour, 50 * time.Millisecond, false},
		"a late answer":              {51 * time.Millisecond, time.Hour, 50 * time.Millisecond, false},
		"an answer":                  {49 * time.Millisecond, time.Hour, 49 * time.Millisecond, true},
		"another had none":           {time.Hour, 7 * time.Millisecond, 7 * time.Millisecond, false},
		"the answer is there before": {0, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer, over := make(chan int, 1), make(chan struct{})
				time.AfterFunc(tt.answer, func() { answer <- 1 })
				time.AfterFunc(tt.over, func() { close(over) })
				synctest.Wait()
				began := time.Now()
				_, ok := within(50*time.Millisecond, answer, over)
				if wait := time.Since(began); wait != tt.wait || ok != tt.ok {
					t.Errorf("it waited %s and has an answer is %v; want %s, %v", wait, ok, tt.wait, tt.ok)
				}
			})
		})
	}
}

// TestOurOwnSlowness: rounds that end late do not count, until there were
// many; those in time do.
func TestOurOwnSlowness(t *testing.T) {
	for _, tt := range []struct {
		late time.Duration
		want time.Duration
	}{{0, 50 * time.Millisecond}, {late - 1, 75*time.Millisecond - 5}, {40 * time.Millisecond, 1250 * time.Millisecond}} {
		began := time.Now()
		now := began
		for w := waiting(50*time.Millisecond, now); w.left > 0; w.round(now) {
			now = now.Add(round + tt.late)
		}
		if got := now.Sub(began); got != tt.want {
			t.Errorf("late by %s: it waits %s, want %s", tt.late, got, tt.want)
		}
	}
}
