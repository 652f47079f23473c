// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"slices"
	"time"
)

// Log is when the requests that may still count were accepted, the oldest
// first. Its times are counted from any fixed moment and never go back, unlike
// those of a wall clock. The zero Log is empty.
type Log struct {
	accepted []time.Duration
	gone     int // of accepted, from the front, those that left the window
}

// Take asks for a request at now, and counts it from since on when it is
// allowed. since is now, or earlier for a request that another counter
// accepted in between. The token undoes it.
func (l *Log) Take(b Bucket, now, since time.Duration) (v Verdict, token time.Duration) {
	l.forget(now - b.Window)
	counting := l.accepted[l.gone:]
	if n := len(counting); n >= b.Limit {
		// More than the limit count after it was lowered.
		return Verdict{Limit: b.Limit, ResetIn: counting[0] + b.Window - now, RetryIn: counting[n-b.Limit] + b.Window - now}, 0
	}
	if n := len(counting); n > 0 {
		since = max(since, counting[n-1]) // stay in order
	}
	l.accepted = append(l.accepted, since)
	counting = l.accepted[l.gone:]
	return Verdict{Allowed: true, Limit: b.Limit, Remaining: b.Limit - len(counting), ResetIn: counting[0] + b.Window - now}, since
}

// forget drops what was accepted at or before a moment. Its room is used again
// once it is half of the log, so that a log in use does not grow.
func (l *Log) forget(until time.Duration) {
	for l.gone < len(l.accepted) && l.accepted[l.gone] <= until {
		l.gone++
	}
	if 2*l.gone > len(l.accepted) {
		l.accepted = slices.Delete(l.accepted, 0, l.gone)
		l.gone = 0
	}
}

// GiveBack undoes a Take. A token that has left the window changes nothing.
func (l *Log) GiveBack(token time.Duration) {
	for i := len(l.accepted) - 1; i >= l.gone && l.accepted[i] >= token; i-- {
		if l.accepted[i] == token {
			l.accepted = slices.Delete(l.accepted, i, i+1)
			return
		}
	}
}
