// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestReplicasCountTogether, and one that is asked late tells the time that is
// left, not its own.
func TestReplicasCountTogether(t *testing.T) {
	server := testserver.NewRedis(t)
	log := &lines{}
	o := limiter.Options{URL: server.URL, Log: slog.New(slog.NewJSONHandler(log, nil))}
	one, other := open(t, o), open(t, o)
	if n := allowed(500, bucket(12), one, other); n != 12 {
		t.Fatalf("%d of 12 passed\n%s", n, log)
	}
	a, _ := one.Take(t.Context(), bucket(12))
	b, _ := other.Take(t.Context(), bucket(12))
	if d := (a.RetryIn - b.RetryIn).Abs(); a.Allowed || b.Allowed || d > time.Second {
		t.Errorf("one says %+v, the other %+v", a, b)
	}
}

// TestABusyMachine: that a process comes to run late is no outage of Redis.
func TestABusyMachine(t *testing.T) {
	server := testserver.NewRedis(t)
	one, other := open(t, limiter.Options{URL: server.URL}), open(t, limiter.Options{URL: server.URL})
	var over atomic.Bool
	var busy sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for !over.Load() { //nolint:revive // it is to be busy
			}
		})
	}
	n := allowed(500, bucket(12), one, other)
	over.Store(true)
	busy.Wait()
	if a, b := one.State(), other.State(); n != 12 || a.Fallbacks != 0 || b.Fallbacks != 0 {
		t.Errorf("%d of 12 passed, %+v, %+v", n, a, b)
	}
}
