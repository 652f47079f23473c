// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestSlotsOfADeadProcessAreReleased checks that the slots of a dead process become free when their
// lease expires. A live process keeps its slots, even if Redis loses its data.
func TestSlotsOfADeadProcessAreReleased(t *testing.T) {
	t.Parallel()
	server := testserver.NewRedis(t)
	options := longTimeoutOptions(server)
	// A lease is renewed after a third of its duration. On a busy machine the renewal may be late by
	// two thirds.
	options.Lease = 30 * time.Second
	replica1, replica2, newcomer := openShared(t, options), openShared(t, options), openShared(t, options)
	dying, err := limiter.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the process that will die counts in Redis", func() bool { return !dying.State().Fallback })
	enter := func(l *limiter.Limiter) (func(), bool) { return l.Enter(t.Context(), "a", 2) }
	release, ok := enter(replica1)
	if !ok {
		t.Fatal("replica1 did not get a slot")
	}
	if _, ok := enter(dying); !ok {
		t.Fatal("the dying process did not get a slot")
	}
	if _, ok := enter(replica2); ok {
		t.Fatal("replica2 got a third slot, want at most two slots in use")
	}
	if err := dying.Close(); err != nil { // stops renewing the lease
		t.Fatal(err)
	}
	waitUntil(t, "the slot of the dead process is free", func() bool { _, ok := enter(replica2); return ok })
	// The slot of replica1 is older than its lease now.
	if _, ok := enter(newcomer); ok {
		t.Error("slots that are in use became free")
	}
	server.DeleteAllData(t)
	waitUntil(t, "the slots in use are in Redis again", func() bool {
		release, ok := enter(newcomer)
		release()
		return !ok
	})
	release()
	release() // the second call does nothing
	if _, ok := enter(newcomer); !ok {
		t.Error("a slot that was released is not free")
	}
}

// TestSlotReleasedDuringAnOutageIsFree checks that a slot that was released while Redis was
// unavailable is free before its lease expires.
func TestSlotReleasedDuringAnOutageIsFree(t *testing.T) {
	t.Parallel()
	server := testserver.NewRedis(t)
	client, options := redisClient(t, server), longTimeoutOptions(server)
	options.Lease = time.Hour // does not expire during the test
	replica1, replica2 := openShared(t, options), openShared(t, options)
	enter := func(l *limiter.Limiter) (func(), bool) { return l.Enter(t.Context(), "a", 1) }
	release, ok := enter(replica1)
	if !ok {
		t.Fatal("replica1 did not get the slot")
	}
	if _, ok := enter(replica2); ok {
		t.Fatal("replica2 got a slot that is in use")
	}
	configure(t, client, "maxmemory", "1") // Redis refuses each write, so replica1 stops using it
	replica1.Take(t.Context(), testBucket(12))
	if !replica1.State().Fallback {
		t.Fatal("the process uses a full Redis")
	}
	release()
	configure(t, client, "maxmemory", "0")
	waitUntil(t, "the slot is free", func() bool { _, ok := enter(replica2); return ok })
}
