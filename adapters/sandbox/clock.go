// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"sync"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox/disk"
)

// farthest is how far the clock may be moved: more would only overflow.
const farthest = 100 * 365 * 24 * time.Hour

// Clock is the machine's clock and a distance from it. It keeps the distance
// over restarts, as stored times would else lie in the future.
type Clock struct {
	path string

	mu    sync.RWMutex
	ahead time.Duration
}

func openClock(path string) (*Clock, error) {
	c := &Clock{path: path}
	if err := disk.Load(path, &c.ahead); err != nil {
		return nil, fmt.Errorf("read clock: %w", err)
	}
	return c, nil
}

// Now is the time of the sandbox.
func (c *Clock) Now() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return time.Now().Add(c.ahead).UTC()
}

// moved reports whether the clock differs from the machine's.
func (c *Clock) moved() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.ahead != 0
}

// set moves the clock to now.
func (c *Clock) set(now time.Time) error {
	ahead := time.Until(now)
	if ahead > farthest || ahead < -farthest {
		return badCall("the clock moves at most 100 years")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := disk.Save(c.path, ahead); err != nil {
		return fmt.Errorf("save clock: %w", err)
	}
	c.ahead = ahead
	return nil
}
