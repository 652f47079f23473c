// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"sync"
	"time"
)

// limits are 30 reads and 15 writes a minute for a key. They count by the
// machine's clock, as rate windows do.
type limits struct {
	mu    sync.Mutex
	calls map[string][]time.Time
}

func newLimits() *limits { return &limits{calls: map[string][]time.Time{}} }

func (l *limits) allow(key, method string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := 15
	if method == http.MethodGet {
		most = 30
	}
	now, kept := time.Now(), l.calls[method+" "+key]
	for len(kept) > 0 && now.Sub(kept[0]) >= time.Minute {
		kept = kept[1:]
	}
	allowed := len(kept) < most
	if allowed {
		kept = append(kept, now)
	}
	l.calls[method+" "+key] = kept
	return allowed
}
