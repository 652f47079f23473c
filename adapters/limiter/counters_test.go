// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
)

// TestWhatIsNotUsedIsForgotten, and nothing else: neither does memory grow with
// every account that ever came, nor does one get a limit anew.
func TestWhatIsNotUsedIsForgotten(t *testing.T) {
	c, now := newCounters(), time.Duration(0)
	c.clock = func() time.Duration { return now }
	take := func(key string, window time.Duration) bool {
		v, _ := c.take(ratelimit.Bucket{Key: key, Limit: 1, Window: window}, now)
		return v.Allowed
	}
	var next time.Duration // when the long one is free
	for second := range 4000 {
		now = time.Duration(second) * time.Second
		take(fmt.Sprint("passing by ", second), time.Minute)
		if got, want := take("long", 10*time.Minute), now >= next; got != want {
			t.Fatalf("after %s: allowed is %v", now, got)
		}
		if now >= next {
			next = now + 10*time.Minute
		}
	}
	if n := len(c.young) + len(c.old); n > 1300 { // of two of the longest windows
		t.Errorf("%d buckets are remembered", n)
	}
}
