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

// referenceLog is a simple implementation of Log. It keeps the times of all accepted requests, and
// inspects all of them for each verdict.
type referenceLog struct{ accepted []time.Duration }

// inWindow returns the accepted requests that count at now, sorted.
func (l *referenceLog) inWindow(b Bucket, now time.Duration) (counted []time.Duration) {
	for _, at := range l.accepted {
		if now-at < b.Window {
			counted = append(counted, at)
		}
	}
	slices.Sort(counted)
	return counted
}

func (l *referenceLog) verdict(b Bucket, now time.Duration) Verdict {
	counted := l.inWindow(b, now)
	result := Verdict{Limit: b.Limit, Allowed: len(counted) < b.Limit}
	if result.Allowed {
		counted = append(counted, now)
		result.Remaining = b.Limit - len(counted)
	} else {
		for wait := time.Duration(1); ; wait++ {
			if len(l.inWindow(b, now+wait)) < b.Limit {
				result.RetryIn = wait
				break
			}
		}
	}
	result.ResetIn = counted[0] + b.Window - now
	return result
}

func (l *referenceLog) giveBack(token time.Duration) {
	if i := slices.Index(l.accepted, token); i >= 0 {
		l.accepted = slices.Delete(l.accepted, i, i+1)
	}
}

// maxInWindow returns the highest number of accepted requests in any window.
func (l *referenceLog) maxInWindow(b Bucket) (most int) {
	for _, from := range l.accepted {
		count := 0
		for _, at := range l.accepted {
			if at >= from && at < from+b.Window {
				count++
			}
		}
		most = max(most, count)
	}
	return most
}

func TestLogMatchesReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bucket := Bucket{Limit: rapid.IntRange(1, 5).Draw(t, "limit"), Window: time.Duration(rapid.IntRange(1, 30).Draw(t, "window"))}
		var log Log
		reference, now, tokens := &referenceLog{}, time.Duration(1000), []time.Duration(nil)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 8).Draw(t, "pause"))
			if len(tokens) > 0 && rapid.IntRange(0, 5).Draw(t, "give back") == 0 {
				i := rapid.IntRange(0, len(tokens)-1).Draw(t, "index of the token")
				log.GiveBack(tokens[i])
				reference.giveBack(tokens[i])
				tokens = slices.Delete(tokens, i, i+1)
				continue
			}
			want := reference.verdict(bucket, now)
			got, token := log.Take(bucket, now, now)
			if got != want {
				t.Fatalf("at %d after %v: got %+v, want %+v", now, reference.accepted, got, want)
			}
			if got.Allowed {
				reference.accepted, tokens = append(reference.accepted, token), append(tokens, token)
			}
		}
		if most := reference.maxInWindow(bucket); most > bucket.Limit {
			t.Fatalf("a window has %d accepted requests, want at most %d: %v", most, bucket.Limit, reference.accepted)
		}
	})
}

// TestLogDoesNotGrow checks that the memory of a Log depends on the limit, and not on how long the
// Log is used.
func TestLogDoesNotGrow(t *testing.T) {
	bucket := Bucket{Limit: 10, Window: 10 * time.Second}
	var log Log
	for now := range 100_000 {
		log.Take(bucket, time.Duration(now)*time.Second/2, time.Duration(now)*time.Second/2)
	}
	if cap(log.accepted) > 4*bucket.Limit {
		t.Errorf("the log has room for %d entries, want at most %d", cap(log.accepted), 4*bucket.Limit)
	}
}

// TestTakeCountsFromTheEarlierAcceptance checks a request that a different counter accepted
// earlier. The request counts from the time of that acceptance.
func TestTakeCountsFromTheEarlierAcceptance(t *testing.T) {
	bucket := Bucket{Limit: 1, Window: 10}
	var log Log
	if verdict, token := log.Take(bucket, 5, 2); !verdict.Allowed || token != 2 || verdict.ResetIn != 7 {
		t.Fatalf("got %+v, counted from %d; want an allowed request that counts from 2", verdict, token)
	}
	if verdict, _ := log.Take(bucket, 11, 11); verdict.Allowed || verdict.RetryIn != 1 {
		t.Errorf("within the window: got %+v, want a refusal with RetryIn 1", verdict)
	}
	if verdict, _ := log.Take(bucket, 12, 12); !verdict.Allowed {
		t.Errorf("after the window: got %+v, want an allowed request", verdict)
	}
}

func TestARequestDoesNotCountBeforeAnEarlierOne(t *testing.T) {
	bucket := Bucket{Limit: 3, Window: 10}
	var log Log
	log.Take(bucket, 8, 8)
	if _, token := log.Take(bucket, 9, 4); token != 8 {
		t.Errorf("the token is %d, want 8, the time of the earlier request", token)
	}
}

// TestALoweredLimitCountsEarlierRequests checks a Log after its limit was lowered. The next request
// is allowed once enough earlier requests have left the window.
func TestALoweredLimitCountsEarlierRequests(t *testing.T) {
	var log Log
	for now := range time.Duration(4) {
		log.Take(Bucket{Limit: 4, Window: 10}, now, now)
	}
	verdict, _ := log.Take(Bucket{Limit: 2, Window: 10}, 5, 5)
	if want := (Verdict{Limit: 2, ResetIn: 5, RetryIn: 7}); verdict != want {
		t.Errorf("got %+v, want %+v", verdict, want)
	}
}

func BenchmarkTake(b *testing.B) {
	bucket := Bucket{Limit: 600, Window: time.Minute}
	var log Log
	now := time.Duration(0)
	for b.Loop() {
		now += 90 * time.Millisecond
		log.Take(bucket, now, now)
	}
}
