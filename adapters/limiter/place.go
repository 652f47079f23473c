// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"crypto/rand"
	"math"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
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
	return &place{s: s, name: "places:" + name, who: rand.Text(), lease: lease}
}

// enter reports whether Redis, if it is there, has a place left.
func (p *place) enter(most int) bool {
	if got, answered := p.take(most); answered && !got {
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
	if p.left || p.s.ctx.Err() != nil {
		return
	}
	p.take(math.MaxInt32)
	p.renew.Reset(p.lease / 3)
}

func (p *place) take(most int) (got, answered bool) {
	said := runScript(enterScript, p.name, p.who, most, p.lease.Microseconds())
	if !p.s.ask(said) {
		return false, false
	}
	n, err := redis.Int(said.reply, said.err)
	return n == 1, err == nil
}

func (p *place) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	p.renew.Stop()
	p.s.ask(&command{name: "ZREM", args: []any{keyspace + p.name, p.who}})
}
