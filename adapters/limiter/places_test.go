// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestPlaces: those of a process that dies are free again when its lease is
// over, those of one that lives are kept, also by a Redis that lost them.
func TestPlaces(t *testing.T) {
	const lease = 600 * time.Millisecond
	server := testserver.NewRedis(t)
	o := limiter.Options{URL: server.URL, Lease: lease, Patience: 10 * time.Second}
	one, other := open(t, o), open(t, o)
	dead, err := limiter.Open(t.Context(), o)
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
	<-time.After(2 * lease)
	if _, ok := enter(open(t, o)); ok {
		t.Error("places that are in use became free")
	}
	server.Empty(t)
	eventually(t, "Redis learns again who is inside", func() bool {
		free, ok := enter(open(t, o))
		free()
		return !ok
	})
	leave()
	leave()
	if _, ok := enter(open(t, o)); !ok {
		t.Error("a place that was left is not free")
	}
}
