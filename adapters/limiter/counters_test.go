// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
)

func TestUnusedBucketsAreDropped(t *testing.T) {
	buckets, now := newCounters(), time.Duration(0)
	buckets.clock = func() time.Duration { return now }
	isAllowed := func(key string, window time.Duration) bool {
		verdict, _ := buckets.take(ratelimit.Bucket{Key: key, Limit: 1, Window: window}, now)
		return verdict.Allowed
	}
	// nextAllowed is the time at which the bucket "long" allows a request again.
	var nextAllowed time.Duration
	for second := range 4000 { // longer than six windows of the bucket "long"
		now = time.Duration(second) * time.Second
		isAllowed(fmt.Sprint("used once ", second), time.Minute)
		if got, want := isAllowed("long", 10*time.Minute), now >= nextAllowed; got != want {
			t.Fatalf("after %s, a request of the bucket \"long\" is allowed: %v, want %v", now, got, want)
		}
		if now >= nextAllowed {
			nextAllowed = now + 10*time.Minute
		}
	}
	// The maps current and previous each hold the keys of 600 s, with one key per second.
	if n := len(buckets.current) + len(buckets.previous); n > 1300 {
		t.Errorf("%d buckets are kept, want at most 1300", n)
	}
}
