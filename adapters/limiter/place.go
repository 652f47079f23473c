// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"crypto/rand"
	"math"
	"sync"
	"time"
)

// place is one place in Redis, held by a lease that is renewed until leave.
type place struct {
	s     *shared
	name  string
	who   string
	lease time.Duration

	mu    sync.Mutex
	left  bool
	renew *time.Timer
}

func (s *shared) place(name string, lease time.Duration) *place {
	return &place{s: s, name: keyspace + "places:" + name, who: rand.Text(), lease: lease}
}

// enter reports whether Redis, if it is there, has a place left.
func (p *place) enter(ctx context.Context, most int) bool {
	got, answered := p.take(ctx, most)
	if answered && !got {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renew = time.AfterFunc(p.lease/3, p.keep)
	return true
}

// keep renews the lease. Whoever is inside stays there: a Redis that was away,
// or lost everything, learns of it again.
func (p *place) keep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return
	}
	p.take(context.Background(), math.MaxInt32)
	p.renew.Reset(p.lease / 3)
}

func (p *place) take(ctx context.Context, most int) (got, answered bool) {
	answered = p.s.ask(ctx, func(ctx context.Context) error {
		n, err := enterScript.Run(ctx, p.s.client, []string{p.name}, p.who, most, p.lease.Microseconds()).Int()
		got = n == 1
		return err
	})
	return got, answered
}

func (p *place) leave(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	p.renew.Stop()
	p.s.ask(ctx, func(ctx context.Context) error { return p.s.client.ZRem(ctx, p.name, p.who).Err() })
}
