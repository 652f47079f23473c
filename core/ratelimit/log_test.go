// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// brute is a bucket in the words of its promise: it remembers every accepted
// request and looks at all of them each time.
type brute struct{ accepted []time.Duration }

func (m *brute) counting(b Bucket, now time.Duration) (young []time.Duration) {
	for _, at := range m.accepted {
		if now-at < b.Window {
			young = append(young, at)
		}
	}
	slices.Sort(young)
	return young
}

// verdict is what a request at now must be told.
func (m *brute) verdict(b Bucket, now time.Duration) Verdict {
	young := m.counting(b, now)
	v := Verdict{Limit: b.Limit, Allowed: len(young) < b.Limit}
	if v.Allowed {
		young = append(young, now)
		v.Remaining = b.Limit - len(young)
	} else {
		for wait := time.Duration(1); ; wait++ {
			if len(m.counting(b, now+wait)) < b.Limit {
				v.RetryIn = wait
				break
			}
		}
	}
	v.ResetIn = young[0] + b.Window - now
	return v
}

func (m *brute) giveBack(token time.Duration) {
	if i := slices.Index(m.accepted, token); i >= 0 {
		m.accepted = slices.Delete(m.accepted, i, i+1)
	}
}

// fullest is the most accepted requests in any span of the window.
func (m *brute) fullest(b Bucket) (most int) {
	for _, from := range m.accepted {
		n := 0
		for _, at := range m.accepted {
			if at >= from && at < from+b.Window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func TestALogKeepsItsPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bucket{Limit: rapid.IntRange(1, 5).Draw(t, "limit"), Window: time.Duration(rapid.IntRange(1, 30).Draw(t, "window"))}
		var l Log
		m, now, tokens := &brute{}, time.Duration(1000), []time.Duration(nil)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 8).Draw(t, "pause"))
			if len(tokens) > 0 && rapid.IntRange(0, 5).Draw(t, "give back") == 0 {
				i := rapid.IntRange(0, len(tokens)-1).Draw(t, "which")
				l.GiveBack(tokens[i])
				m.giveBack(tokens[i])
				tokens = slices.Delete(tokens, i, i+1)
				continue
			}
			want := m.verdict(b, now)
			got, token := l.Take(b, now, now)
			if got != want {
				t.Fatalf("at %d after %v: %+v, want %+v", now, m.accepted, got, want)
			}
			if got.Allowed {
				m.accepted, tokens = append(m.accepted, token), append(tokens, token)
			}
		}
		if most := m.fullest(b); most > b.Limit {
			t.Fatalf("a window holds %d of %d: %v", most, b.Limit, m.accepted)
		}
	})
}

// TestALogDoesNotGrow: its room is what counts in one window, however long it
// is in use.
func TestALogDoesNotGrow(t *testing.T) {
	b := Bucket{Limit: 10, Window: 10 * time.Second}
	var l Log
	for now := range 100_000 {
		l.Take(b, time.Duration(now)*time.Second/2, time.Duration(now)*time.Second/2)
	}
	if cap(l.accepted) > 4*b.Limit {
		t.Errorf("room for %d of a limit of %d", cap(l.accepted), b.Limit)
	}
}

// TestCountingFromEarlier: a request that was accepted elsewhere first is not
// refused here for the time that this took.
func TestCountingFromEarlier(t *testing.T) {
	b := Bucket{Limit: 1, Window: 10}
	var l Log
	if v, token := l.Take(b, 5, 2); !v.Allowed || token != 2 || v.ResetIn != 7 {
		t.Fatalf("%+v, counted from %d", v, token)
	}
	if v, _ := l.Take(b, 11, 11); v.Allowed || v.RetryIn != 1 {
		t.Errorf("within the window: %+v", v)
	}
	if v, _ := l.Take(b, 12, 12); !v.Allowed {
		t.Errorf("after it: %+v", v)
	}
}

func TestTheOrderIsKept(t *testing.T) {
	b := Bucket{Limit: 3, Window: 10}
	var l Log
	l.Take(b, 8, 8)
	if _, token := l.Take(b, 9, 4); token != 8 {
		t.Errorf("counted from %d, before the one that is there", token)
	}
}

// TestALoweredLimit: as many have to leave as are too many.
func TestALoweredLimit(t *testing.T) {
	var l Log
	for now := range time.Duration(4) {
		l.Take(Bucket{Limit: 4, Window: 10}, now, now)
	}
	v, _ := l.Take(Bucket{Limit: 2, Window: 10}, 5, 5)
	if want := (Verdict{Limit: 2, ResetIn: 5, RetryIn: 7}); v != want {
		t.Errorf("%+v, want %+v", v, want)
	}
}

func BenchmarkTake(b *testing.B) {
	bucket := Bucket{Limit: 600, Window: time.Minute}
	var l Log
	now := time.Duration(0)
	for b.Loop() {
		now += 90 * time.Millisecond
		l.Take(bucket, now, now)
	}
}
