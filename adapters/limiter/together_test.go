// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestReplicasCountTogether, and one that is asked late tells the time that is
// left, not its own.
func TestReplicasCountTogether(t *testing.T) {
	server := testserver.NewRedis(t)
	one, other := sharing(t, counting(server)), sharing(t, counting(server))
	if n := allowed(500, bucket(12), one, other); n != 12 {
		t.Fatalf("%d of 12 passed", n)
	}
	began := time.Now()
	a, _ := one.Take(t.Context(), bucket(12))
	b, _ := other.Take(t.Context(), bucket(12))
	if passed := a.RetryIn - b.RetryIn; a.Allowed || b.Allowed || passed < 0 || passed > time.Since(began)+time.Second {
		t.Errorf("one says %+v, the other %+v", a, b)
	}
}
