// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/adapters/testserver"
)

func TestBenchmarks(t *testing.T) { testserver.Benchmarks(t, "Take") }

// referenceLog is a simple implementation that keeps all accepted requests and inspects all of them
// each time.
type referenceLog struct{ accepted []time.Duration }

func (m *referenceLog) counting(b Bucket, now time.Duration) (counted []time.Duration) {
	for _, at := range m.accepted {
		if now-at < b.Window {
			counted = append(counted, at)
		}
	}
	slices.Sort(counted)
	return counted
}

// verdict returns the expected verdict on a request at now.
func (m *referenceLog) verdict(b Bucket, now time.Duration) Verdict {
	counted := m.counting(b, now)
	v := Verdict{Limit: b.Limit, Allowed: len(counted) < b.Limit}
	if v.Allowed {
		counted = append(counted, now)
		v.Remaining = b.Limit - len(counted)
	} else {
		for wait := time.Duration(1); ; wait++ {
			if len(m.counting(b, now+wait)) < b.Limit {
				v.RetryIn = wait
				break
			}
		}
	}
	v.ResetIn = counted[0] + b.Window - now
	return v
}

func (m *referenceLog) giveBack(token time.Duration) {
	if i := slices.Index(m.accepted, token); i >= 0 {
		m.accepted = slices.Delete(m.accepted, i, i+1)
	}
}

// maxInWindow returns the highest number of accepted requests in any window.
func (m *referenceLog) maxInWindow(b Bucket) (most int) {
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

func TestLogMatchesReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bucket{Limit: rapid.IntRange(1, 5).Draw(t, "limit"), Window: time.Duration(rapid.IntRange(1, 30).Draw(t, "window"))}
		var l Log
		m, now, tokens := &referenceLog{}, time.Duration(1000), []time.Duration(nil)
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
		if most := m.maxInWindow(b); most > b.Limit {
			t.Fatalf("a window has %d of %d: %v", most, b.Limit, m.accepted)
		}
	})
}

// The memory of a Log depends on the limit, not on how long the Log is used.
func TestLogDoesNotGrow(t *testing.T) {
	b := Bucket{Limit: 10, Window: 10 * time.Second}
	var l Log
	for now := range 100_000 {
		l.Take(b, time.Duration(now)*time.Second/2, time.Duration(now)*time.Second/2)
	}
	if cap(l.accepted) > 4*b.Limit {
		t.Errorf("room for %d of a limit of %d", cap(l.accepted), b.Limit)
	}
}

// A request that a different counter accepted earlier counts from that time.
func TestTakeCountsFromSince(t *testing.T) {
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

func TestTakeKeepsOrder(t *testing.T) {
	b := Bucket{Limit: 3, Window: 10}
	var l Log
	l.Take(b, 8, 8)
	if _, token := l.Take(b, 9, 4); token != 8 {
		t.Errorf("the token is at %d, before the earlier token", token)
	}
}

// After the limit was lowered, a request is allowed once enough earlier requests have left the
// window.
func TestALoweredLimitCountsEarlierRequests(t *testing.T) {
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
