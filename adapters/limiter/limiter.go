// SPDX-License-Identifier: Apache-2.0

// Package limiter counts requests per bucket, limits concurrency, and stores how long providers
// asked tenantry to wait. A bucket allows a number of requests per window of time. Without Redis
// each process has its own counts, slots and waits. With Redis all replicas share them.
//
// Limiter implements ports.Limiter and ports.Waits. When Redis does not answer within the timeout,
// the process counts alone until Redis answers again.
//
//   - limiter.go: Options, Limiter and State. Start here.
//   - counters.go: counters, the buckets of this process.
//   - rediscounters.go: redisCounters, the buckets in Redis, and how failures of Redis are
//     detected.
//   - batch.go: redisSession and batch, which group the commands of concurrent requests.
//   - slots.go: concurrency slots, in the process (localSlots) and in Redis (slotLease).
//   - waits.go: waits, in the process (localWaits) and in Redis.
//   - redis.go: CheckURL, Ping, connections, the commands and their replies.
//   - take.lua, remaining.lua, enter.lua, wait.lua: the scripts that run in Redis.
package limiter

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/ports"
)

// Options configures a Limiter. A zero field has its default value.
type Options struct {
	// URL is the address of the Redis server that all replicas share. "" means that there is no
	// such server.
	URL string
	Log *slog.Logger
	// Lease is how long a slot stays in use after its replica last renewed the lease. The default
	// is 30 s.
	Lease time.Duration
	// AnswerTimeout is how long Redis may take to answer. The default is 200 ms. Commands are sent
	// in batches. A request that arrives while a batch is in flight may wait twice as long. If the
	// timeout is too short, replicas on a busy machine count alone although Redis works.
	AnswerTimeout time.Duration
}

// Limiter implements ports.Limiter and ports.Waits. With Redis, it also counts the accepted
// requests in the process, so that they still count if Redis fails or loses its data.
type Limiter struct {
	local  *counters
	slots  *localSlots
	waits  *localWaits
	shared *redisCounters // nil without Redis
	lease  time.Duration
}

var _ ports.Limiter = (*Limiter)(nil)

// Open returns a Limiter. It fails only when the URL is invalid. If Redis cannot be reached, the
// Limiter probes Redis in the background until Redis answers.
func Open(ctx context.Context, options Options) (*Limiter, error) {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	l := &Limiter{local: newCounters(), slots: newLocalSlots(), waits: newLocalWaits(), lease: cmp.Or(options.Lease, 30*time.Second)}
	if options.URL == "" {
		return l, nil
	}
	var err error
	if l.shared, err = connect(ctx, options); err != nil {
		return nil, fmt.Errorf("redis_url: %w", err)
	}
	return l, nil
}

// Close stops the background work and closes the connections to Redis.
func (l *Limiter) Close() error {
	if l.shared == nil {
		return nil
	}
	return l.shared.close()
}

// Take implements ports.Limiter.
func (l *Limiter) Take(_ context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
	arrivedAt := l.local.clock()
	if l.shared == nil {
		return l.takeLocal(b, arrivedAt)
	}
	remote, answered := l.shared.take(b)
	switch {
	case !answered:
		return l.takeLocal(b, arrivedAt)
	case !remote.verdict.Allowed:
		return remote.verdict, func() {}
	}
	verdict, giveBack := l.takeLocal(b, arrivedAt)
	if !verdict.Allowed {
		l.shared.giveBack(b, remote.token)
		return verdict, giveBack
	}
	verdict.Remaining, verdict.ResetIn = min(verdict.Remaining, remote.verdict.Remaining), max(verdict.ResetIn, remote.verdict.ResetIn)
	return verdict, sync.OnceFunc(func() {
		giveBack()
		l.shared.giveBack(b, remote.token)
	})
}

// Remaining implements ports.Limiter.
func (l *Limiter) Remaining(_ context.Context, b ratelimit.Bucket) int {
	remaining := l.local.remaining(b)
	if l.shared == nil {
		return remaining
	}
	if sharedRemaining, answered := l.shared.remaining(b); answered {
		return min(remaining, sharedRemaining)
	}
	return remaining
}

func (l *Limiter) takeLocal(b ratelimit.Bucket, arrivedAt time.Duration) (ratelimit.Verdict, func()) {
	verdict, token := l.local.take(b, arrivedAt)
	if !verdict.Allowed {
		return verdict, func() {}
	}
	return verdict, sync.OnceFunc(func() { l.local.giveBack(b, token) })
}

// Enter implements ports.Limiter.
func (l *Limiter) Enter(_ context.Context, name string, limit int) (func(), bool) {
	if !l.slots.acquire(name, limit) {
		return func() {}, false
	}
	releaseLocal := func() { l.slots.release(name) }
	if l.shared == nil {
		return sync.OnceFunc(releaseLocal), true
	}
	lease := l.shared.newSlotLease(name, l.lease)
	if !lease.acquire(limit) {
		releaseLocal()
		return func() {}, false
	}
	return sync.OnceFunc(func() {
		lease.release()
		releaseLocal()
	}), true
}

// State is the state of a Limiter, for metrics and health.
type State struct {
	// Shared is true if Redis is configured.
	Shared bool
	// Fallback is true while Redis does not answer and this process counts alone.
	Fallback bool
	// Fallbacks is the number of times that this process has begun to count alone.
	Fallbacks int64
}

// State returns the current state.
func (l *Limiter) State() State {
	if l.shared == nil {
		return State{}
	}
	return State{Shared: true, Fallback: l.shared.isUnavailable(), Fallbacks: l.shared.outages.Load()}
}
