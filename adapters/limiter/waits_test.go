// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/ports"
)

// expectWait checks that the remaining wait is want. It may be up to 30 minutes less, because the
// test may be slow.
func expectWait(t *testing.T, waits ports.Waits, scope string, want time.Duration) {
	t.Helper()
	if wait := waits.Wait(t.Context(), scope, 0); wait > want || wait < want-30*time.Minute || wait < 0 {
		t.Errorf("%s: %s left, want %s", scope, wait, want)
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

// testWaits sets waits through a, and checks that b returns these waits.
func testWaits(t *testing.T, a, b ports.Waits) {
	if wait := a.Wait(t.Context(), "tenant", 2*time.Hour); wait != 2*time.Hour {
		t.Errorf("%s left of a new wait, want 2h", wait)
	}
	b.Wait(t.Context(), "tenant", time.Hour) // does not end the longer wait
	expectWait(t, a, "tenant", 2*time.Hour)
	expectWait(t, b, "tenant", 2*time.Hour)
	if wait := b.Wait(t.Context(), "other tenant", 0); wait != 0 {
		t.Errorf("another scope waits %s", wait)
	}
	a.Wait(t.Context(), "short", 10*time.Millisecond)
	waitUntil(t, "the wait ends", func() bool { return a.Wait(t.Context(), "short", 0) == 0 && b.Wait(t.Context(), "short", 0) == 0 })
}

func TestWaitsSurviveAnEmptyRedis(t *testing.T) {
	t.Parallel()
	server := testserver.NewRedis(t)
	l := openShared(t, longTimeoutOptions(server))
	l.Wait(t.Context(), "tenant", 2*time.Hour)
	server.DeleteAllData(t)
	expectWait(t, l, "tenant", 2*time.Hour)
}
