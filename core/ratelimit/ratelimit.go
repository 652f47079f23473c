// SPDX-License-Identifier: Apache-2.0

// Package ratelimit decides whether a request still fits into a bucket. A
// bucket's window slides: no span of its length holds more accepted requests
// than its limit, wherever the span begins.
package ratelimit

import "time"

// Bucket is a limit on what one owner asks for.
type Bucket struct {
	// Key tells whose bucket it is and which.
	Key    string
	Limit  int
	Window time.Duration
}

// Verdict is what a bucket says to a request.
type Verdict struct {
	Allowed bool
	Limit   int
	// Remaining is how many more would be allowed right after this one.
	Remaining int
	// ResetIn is when the oldest request that counts leaves the window.
	ResetIn time.Duration
	// RetryIn is when a refused request would be allowed.
	RetryIn time.Duration
}
