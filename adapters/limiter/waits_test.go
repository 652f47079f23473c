// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/ports"
)

// expectWait checks that nearly the whole wait is left. The test may be slow, but not half an hour.
func expectWait(t *testing.T, w ports.Waits, scope string, want time.Duration) {
	t.Helper()
	if left := w.Wait(t.Context(), scope, 0); left > want || left < want-30*time.Minute || left < 0 {
		t.Errorf("%s: %s left, want %s", scope, left, want)
	}
}

func TestWaitsLastAsLongAsRequestedInAllReplicas(t *testing.T) {
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		l := open(t, limiter.Options{})
		testWaits(t, l, l)
	})
	t.Run("two replicas", func(t *testing.T) {
		t.Parallel()
		server := testserver.NewRedis(t)
		testWaits(t, openShared(t, withoutTimeout(server)), openShared(t, withoutTimeout(server)))
	})
}

// testWaits sets waits through a, and checks that b returns these waits.
func testWaits(t *testing.T, a, b ports.Waits) {
	if left := a.Wait(t.Context(), "tenant", 2*time.Hour); left != 2*time.Hour {
		t.Errorf("%s left of a new wait", left)
	}
	b.Wait(t.Context(), "tenant", time.Hour) // does not end the longer wait
	expectWait(t, a, "tenant", 2*time.Hour)
	expectWait(t, b, "tenant", 2*time.Hour)
	if left := b.Wait(t.Context(), "other tenant", 0); left != 0 {
		t.Errorf("another scope waits %s", left)
	}
	a.Wait(t.Context(), "short", 10*time.Millisecond)
	eventually(t, "the wait ends", func() bool { return a.Wait(t.Context(), "short", 0) == 0 && b.Wait(t.Context(), "short", 0) == 0 })
}

// A process keeps the waits that it set itself when Redis loses its data.
func TestWaitsSurviveAnEmptyRedis(t *testing.T) {
	t.Parallel()
	server := testserver.NewRedis(t)
	l := openShared(t, withoutTimeout(server))
	l.Wait(t.Context(), "tenant", 2*time.Hour)
	server.DeleteAllData(t)
	expectWait(t, l, "tenant", 2*time.Hour)
}
