// SPDX-License-Identifier: Apache-2.0

// Package ratelimit decides whether a request is within a rate limit. The window slides: while the
// limit stays the same, no period of the window's length has more accepted requests than the limit.
//
// Log.Take decides on a request and returns a Verdict. Log.Remaining returns how many requests are
// left. Bucket describes the limit.
package ratelimit

import (
	"slices"
	"time"
)

// Bucket is a rate limit of one owner.
type Bucket struct {
	// Key identifies the owner and the limit.
	Key    string
	Limit  int
	Window time.Duration
}

// Verdict is the decision on a request.
type Verdict struct {
	Allowed bool
	Limit   int
	// Remaining is the number of further requests that would be allowed right after this request.
	Remaining int
	// ResetIn is the time until the oldest counted request leaves the window.
	ResetIn time.Duration
	// RetryIn is the time until a refused request would be allowed.
	RetryIn time.Duration
}

// Log holds the times of the accepted requests that may still count, oldest first. Times are
// durations since a fixed moment of a monotonic clock. The zero Log is empty.
type Log struct {
	accepted     []time.Duration
	expiredCount int // number of entries at the front of accepted that have left the window
}

// Take decides on a request at the time now. An allowed request counts as accepted at acceptedAt,
// or at the time of the newest counted request if that is later. acceptedAt is earlier than now if
// a different counter has already accepted the request. The caller passes token to GiveBack to undo
// the request.
func (l *Log) Take(b Bucket, now, acceptedAt time.Duration) (v Verdict, token time.Duration) {
	l.dropUntil(now - b.Window)
	inWindow := l.accepted[l.expiredCount:]
	if n := len(inWindow); n >= b.Limit {
		// After the limit was lowered, the window can have more requests than the limit.
		return Verdict{Limit: b.Limit, ResetIn: inWindow[0] + b.Window - now, RetryIn: inWindow[n-b.Limit] + b.Window - now}, 0
	}
	if n := len(inWindow); n > 0 {
		acceptedAt = max(acceptedAt, inWindow[n-1]) // keep the entries sorted
	}
	l.accepted = append(l.accepted, acceptedAt)
	inWindow = l.accepted[l.expiredCount:]
	return Verdict{Allowed: true, Limit: b.Limit, Remaining: b.Limit - len(inWindow), ResetIn: inWindow[0] + b.Window - now}, acceptedAt
}

// Remaining returns the number of requests that would be allowed at now.
func (l *Log) Remaining(b Bucket, now time.Duration) int {
	l.dropUntil(now - b.Window)
	return max(0, b.Limit-len(l.accepted[l.expiredCount:]))
}

// dropUntil drops the requests that were accepted at or before a time. When more than half of the
// entries are dropped, it moves the rest to the front, so that the memory stays bounded.
func (l *Log) dropUntil(until time.Duration) {
	for l.expiredCount < len(l.accepted) && l.accepted[l.expiredCount] <= until {
		l.expiredCount++
	}
	if 2*l.expiredCount > len(l.accepted) {
		l.accepted = slices.Delete(l.accepted, 0, l.expiredCount)
		l.expiredCount = 0
	}
}

// GiveBack undoes a Take. It does nothing if the request of the token has already left the window.
func (l *Log) GiveBack(token time.Duration) {
	for i := len(l.accepted) - 1; i >= l.expiredCount && l.accepted[i] >= token; i-- {
		if l.accepted[i] == token {
			l.accepted = slices.Delete(l.accepted, i, i+1)
			return
		}
	}
}
