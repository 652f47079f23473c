// SPDX-License-Identifier: Apache-2.0

// Package limiter counts requests: in the process, and for all replicas
// together in Redis where there is one.
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

// Options say where to count. Zero values are the defaults.
type Options struct {
	// URL is the Redis in which replicas count together; none when "".
	URL string
	Log *slog.Logger
	// Lease is how long a place stays taken for a replica that says nothing
	// more; 30 s.
	Lease time.Duration
	// Patience is how long Redis has for an answer; 200 ms. A request may wait
	// twice that, when it came while others were waiting. Shorter, and on a
	// machine that is busy replicas count apart for no reason.
	Patience time.Duration
}

// Limiter is a ports.Limiter. What the process itself let through is always
// counted in the process too, so that neither a Redis that goes away nor one
// that comes back empty makes it forget that.
type Limiter struct {
	here   *counters
	places *places
	shared *shared // nil without Redis
	lease  time.Duration
}

var _ ports.Limiter = (*Limiter)(nil)

// Open starts to count. A Redis that is away is no error: it is waited for.
func Open(ctx context.Context, o Options) (*Limiter, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Limiter{here: newCounters(), places: newPlaces(), lease: cmp.Or(o.Lease, 30*time.Second)}
	if o.URL == "" {
		return l, nil
	}
	var err error
	if l.shared, err = connect(ctx, o); err != nil {
		return nil, fmt.Errorf("redis_url: %w", err)
	}
	return l, nil
}

// Close ends the connections to Redis.
func (l *Limiter) Close() error {
	if l.shared == nil {
		return nil
	}
	return l.shared.close()
}

// Take implements ports.Limiter.
func (l *Limiter) Take(_ context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
	since := l.here.clock()
	if l.shared == nil {
		return l.takeHere(b, since)
	}
	there, answered := l.shared.take(b)
	switch {
	case !answered:
		return l.takeHere(b, since)
	case !there.verdict.Allowed:
		return there.verdict, func() {}
	}
	v, giveBack := l.takeHere(b, since)
	if !v.Allowed {
		l.shared.giveBack(b, there.token)
		return v, giveBack
	}
	v.Remaining, v.ResetIn = min(v.Remaining, there.verdict.Remaining), max(v.ResetIn, there.verdict.ResetIn)
	return v, sync.OnceFunc(func() {
		giveBack()
		l.shared.giveBack(b, there.token)
	})
}

func (l *Limiter) takeHere(b ratelimit.Bucket, since time.Duration) (ratelimit.Verdict, func()) {
	v, token := l.here.take(b, since)
	if !v.Allowed {
		return v, func() {}
	}
	return v, sync.OnceFunc(func() { l.here.giveBack(b, token) })
}

// Enter implements ports.Limiter.
func (l *Limiter) Enter(_ context.Context, name string, most int) (func(), bool) {
	if !l.places.enter(name, most) {
		return func() {}, false
	}
	leave := func() { l.places.leave(name) }
	if l.shared == nil {
		return sync.OnceFunc(leave), true
	}
	at := l.shared.place(name, l.lease)
	if !at.enter(most) {
		leave()
		return func() {}, false
	}
	return sync.OnceFunc(func() {
		at.leave()
		leave()
	}), true
}

// State is how the counting goes.
type State struct {
	// Shared: there is a Redis to count in.
	Shared bool
	// Fallback: it is away, and this process counts by itself.
	Fallback bool
	// Fallbacks is how often it has gone away.
	Fallbacks int64
}

// State tells how the counting goes.
func (l *Limiter) State() State {
	if l.shared == nil {
		return State{}
	}
	return State{Shared: true, Fallback: l.shared.away(), Fallbacks: l.shared.losses.Load()}
}
