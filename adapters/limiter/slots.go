// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"crypto/rand"
	"math"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/tenantry/tenantry/core/panics"
)

// slotLease holds one concurrency slot in Redis. It renews the slot's lease until release or
// Limiter.Close is called.
type slotLease struct {
	counters *redisCounters
	name     string
	holder   string
	duration time.Duration

	mu          sync.Mutex
	wasReleased bool
	renewal     *time.Timer
}

func (rc *redisCounters) newSlotLease(name string, duration time.Duration) *slotLease {
	return &slotLease{counters: rc, name: "slots:" + name, holder: rand.Text(), duration: duration}
}

// acquire takes the slot and starts to renew its lease. It returns false if all slots are in use.
// It returns true if Redis does not answer.
func (l *slotLease) acquire(limit int) bool {
	if acquired, answered := l.claim(limit); answered && !acquired {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewal = panics.AfterFunc(l.duration/3, l.renewLease, l.counters.logPanic)
	return true
}

// renewLease renews the lease without checking the limit. A holder therefore keeps its slot even if
// Redis has lost its data.
func (l *slotLease) renewLease() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wasReleased || l.counters.ctx.Err() != nil {
		return
	}
	l.claim(math.MaxInt32)
	l.renewal.Reset(l.duration / 3)
}

func (l *slotLease) claim(limit int) (acquired, answered bool) {
	cmd := scriptCommand(enterScript, l.name, l.holder, limit, l.duration.Microseconds())
	if !l.counters.sendCommand(cmd) {
		return false, false
	}
	n, err := redis.Int(cmd.reply, cmd.err)
	return n == 1, err == nil
}

func (l *slotLease) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wasReleased = true
	l.renewal.Stop()
	l.remove(time.Now().Add(l.duration))
}

// remove deletes the holder from Redis. If Redis does not answer, remove tries again until expiry,
// when the lease has expired. Without these tries, a slot that was released while Redis was
// unavailable would stay in use until its lease expires.
func (l *slotLease) remove(expiry time.Time) {
	answered := l.counters.sendCommand(&command{name: "ZREM", args: []any{keyspace + l.name, l.holder}})
	if !answered && l.counters.ctx.Err() == nil && time.Now().Before(expiry) {
		panics.AfterFunc(probeInterval, func() { l.remove(expiry) }, l.counters.logPanic)
	}
}

// localSlots counts the concurrency slots in use in this process, by name.
type localSlots struct {
	mu    sync.Mutex
	inUse map[string]int
}

func newLocalSlots() *localSlots { return &localSlots{inUse: map[string]int{}} }

func (s *localSlots) acquire(name string, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inUse[name] >= limit {
		return false
	}
	s.inUse[name]++
	return true
}

func (s *localSlots) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inUse[name]--; s.inUse[name] <= 0 {
		delete(s.inUse, name)
	}
}
