// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/tenantry/tenantry/ports"
)

var _ ports.Waits = (*Limiter)(nil)

// Wait implements ports.Waits. With Redis, the process still keeps its own waits in memory, so that
// they stay in force if Redis fails or loses its data.
func (l *Limiter) Wait(_ context.Context, scope string, atLeast time.Duration) time.Duration {
	remaining := l.waits.extend(scope, l.local.clock(), atLeast)
	if l.shared == nil {
		return remaining
	}
	return max(remaining, l.shared.wait(scope, atLeast))
}

// wait extends the wait of a scope in Redis and returns its remaining time. It returns 0 if Redis
// does not answer or returns an error.
func (rc *redisCounters) wait(scope string, atLeast time.Duration) time.Duration {
	cmd := scriptCommand(waitScript, "wait:"+scope, atLeast.Microseconds())
	if !rc.sendCommand(cmd) {
		return 0
	}
	milliseconds, err := redis.Int64(cmd.reply, cmd.err)
	if err != nil {
		rc.endSession(rc.session.Load(), err)
	}
	return time.Duration(milliseconds) * time.Millisecond
}

// localWaits holds the waits of this process. All times are times of counters.clock.
type localWaits struct {
	mu    sync.Mutex
	until map[string]time.Duration // end of each wait, keyed by scope
}

func newLocalWaits() *localWaits { return &localWaits{until: map[string]time.Duration{}} }

// extend makes a wait last at least atLeast from now, and returns its remaining time. It removes
// all waits that have ended.
func (w *localWaits) extend(scope string, now, atLeast time.Duration) (remaining time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, until := range w.until {
		if until <= now {
			delete(w.until, name)
		}
	}
	if until := now + atLeast; atLeast > 0 && until > w.until[scope] {
		w.until[scope] = until
	}
	return max(0, w.until[scope]-now)
}
