// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"slices"
	"sync"

	"github.com/tenantry/tenantry/ports"
)

// Wakeups is a job queue that only records its wake-ups. The zero value is ready to use.
type Wakeups struct {
	mu      sync.Mutex
	wakeups []ports.Wakeup
}

// Wake implements ports.Queue.
func (q *Wakeups) Wake(_ context.Context, wakeups ...ports.Wakeup) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeups = append(q.wakeups, wakeups...)
	return nil
}

// All returns the recorded wake-ups in order.
func (q *Wakeups) All() []ports.Wakeup {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.wakeups)
}

// Take returns the recorded wake-ups in order, and forgets them.
func (q *Wakeups) Take() []ports.Wakeup {
	q.mu.Lock()
	defer q.mu.Unlock()
	wakeups := q.wakeups
	q.wakeups = nil
	return wakeups
}
