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
	// A lease is renewed after a third of its duration. On a busy machine the renewal may come up
	// to 20 s late, two thirds of this lease.
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
		t.Fatal("replica1 got no slot, want the first of two")
	}
	if _, ok := enter(dying); !ok {
		t.Fatal("the dying process got no slot, want the second of two")
	}
	if _, ok := enter(replica2); ok {
		t.Fatal("replica2 got a third slot, want at most two")
	}
	if err := dying.Close(); err != nil { // stops renewing the lease
		t.Fatal(err)
	}
	waitUntil(t, "the slot of the dead process is free", func() bool { _, ok := enter(replica2); return ok })
	// The slot of replica1 has been in use for longer than a lease lasts without renewal.
	if _, ok := enter(newcomer); ok {
		t.Error("the newcomer got a third slot, want replica1 and replica2 to keep theirs")
	}
	server.DeleteAllData(t)
	waitUntil(t, "the slots in use are in Redis again", func() bool {
		release, ok := enter(newcomer)
		release()
		return !ok
	})
	release()
	release() // has no effect
	if _, ok := enter(newcomer); !ok {
		t.Error("the newcomer got no slot after replica1 released its slot twice, want one")
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
		t.Fatal("replica1 got no slot, want the only one")
	}
	if _, ok := enter(replica2); ok {
		t.Fatal("replica2 got the slot that replica1 uses, want none")
	}
	configure(t, client, "maxmemory", "1") // Redis refuses each write, so replica1 stops using it
	replica1.Take(t.Context(), testBucket(12))
	if !replica1.State().Fallback {
		t.Fatalf("the state of replica1 is %+v, want a fallback while Redis is full", replica1.State())
	}
	release()
	configure(t, client, "maxmemory", "0")
	waitUntil(t, "the released slot is free", func() bool { _, ok := enter(replica2); return ok })
}
