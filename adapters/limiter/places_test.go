// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestPlaces: the slots of a process that dies are free when its lease is over.
// A process that lives keeps its slots, even when Redis loses its data.
func TestPlaces(t *testing.T) {
	t.Parallel()
	// A renewal may be late by two thirds of it.
	const lease = 2 * time.Second
	server := testserver.NewRedis(t)
	o := limiter.Options{URL: server.URL, Lease: lease, Patience: hang}
	one, other := sharing(t, o), sharing(t, o)
	brief := o
	brief.Lease /= 2
	dead, err := limiter.Open(t.Context(), brief)
	if err != nil {
		t.Fatal(err)
	}
	enter := func(l *limiter.Limiter) (func(), bool) { return l.Enter(t.Context(), "a", 2) }
	leave, ok := enter(one)
	if !ok {
		t.Fatal("the first did not enter")
	}
	if _, ok := enter(dead); !ok {
		t.Fatal("the second did not enter")
	}
	if _, ok := enter(other); ok {
		t.Fatal("a third entered")
	}
	if err := dead.Close(); err != nil { // it renews nothing any more
		t.Fatal(err)
	}
	eventually(t, "the dead one's place is free", func() bool { _, ok := enter(other); return ok })
	<-time.After(lease * 4 / 3)
	if _, ok := enter(sharing(t, o)); ok {
		t.Error("places that are in use became free")
	}
	server.Empty(t)
	eventually(t, "Redis learns again who is inside", func() bool {
		free, ok := enter(sharing(t, o))
		free()
		return !ok
	})
	leave()
	leave()
	if _, ok := enter(sharing(t, o)); !ok {
		t.Error("a slot that was released is not free")
	}
}
