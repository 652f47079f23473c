// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/ports"
)

// expectWait checks that the remaining wait of a scope is want. A wait that is up to 30 minutes
// shorter is also accepted, because the test may be slow.
func expectWait(t *testing.T, waits ports.Waits, scope string, want time.Duration) {
	t.Helper()
	if wait := waits.Wait(t.Context(), scope, 0); wait > want || wait < want-30*time.Minute {
		t.Errorf("%s: the remaining wait is %s, want %s", scope, wait, want)
	}
}

func TestWaitsLastAsLongAsRequestedInAllReplicas(t *testing.T) {
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		l := openLimiter(t, limiter.Options{})
		testWaits(t, l, l)
	})
	t.Run("two replicas", func(t *testing.T) {
		t.Parallel()
		server := testserver.NewRedis(t)
		testWaits(t, openShared(t, longTimeoutOptions(server)), openShared(t, longTimeoutOptions(server)))
	})
}

// testWaits sets waits in two replicas, and checks that both return the longest wait of a scope.
func testWaits(t *testing.T, replica1, replica2 ports.Waits) {
	t.Helper()
	if wait := replica1.Wait(t.Context(), "tenant", 2*time.Hour); wait != 2*time.Hour {
		t.Errorf("a new wait is %s, want 2h", wait)
	}
	replica2.Wait(t.Context(), "tenant", time.Hour) // does not end the longer wait
	expectWait(t, replica1, "tenant", 2*time.Hour)
	expectWait(t, replica2, "tenant", 2*time.Hour)
	if wait := replica2.Wait(t.Context(), "other tenant", 0); wait != 0 {
		t.Errorf("the wait of a scope that nobody set is %s, want 0", wait)
	}
	replica1.Wait(t.Context(), "short", 10*time.Millisecond)
	waitUntil(t, "the short wait ends in both replicas", func() bool {
		return replica1.Wait(t.Context(), "short", 0) == 0 && replica2.Wait(t.Context(), "short", 0) == 0
	})
}

func TestWaitsSurviveAnEmptyRedis(t *testing.T) {
	t.Parallel()
	server := testserver.NewRedis(t)
	replica := openShared(t, longTimeoutOptions(server))
	replica.Wait(t.Context(), "tenant", 2*time.Hour)
	server.DeleteAllData(t)
	expectWait(t, replica, "tenant", 2*time.Hour)
}
