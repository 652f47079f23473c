// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
)

func TestUnusedBucketsAreDropped(t *testing.T) {
	c, now := newCounters(), time.Duration(0)
	c.clock = func() time.Duration { return now }
	take := func(key string, window time.Duration) bool {
		v, _ := c.take(ratelimit.Bucket{Key: key, Limit: 1, Window: window}, now)
		return v.Allowed
	}
	var next time.Duration // when the bucket "long" allows a request again
	for second := range 4000 {
		now = time.Duration(second) * time.Second
		take(fmt.Sprint("passing by ", second), time.Minute)
		if got, want := take("long", 10*time.Minute), now >= next; got != want {
			t.Fatalf("after %s: allowed is %v, want %v", now, got, want)
		}
		if now >= next {
			next = now + 10*time.Minute
		}
	}
	// The maps current and previous each hold the keys of 600 s, with one key per second.
	if n := len(c.current) + len(c.previous); n > 1300 {
		t.Errorf("%d buckets are kept, want at most 1300", n)
	}
}
