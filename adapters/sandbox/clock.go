// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox/disk"
)

// maxClockOffset limits how far the clock can be from the machine's clock. A time.Duration holds at
// most about 292 years.
const maxClockOffset = 100 * 365 * 24 * time.Hour

// Clock is the machine's clock plus an offset. The offset is stored, because otherwise times in the
// database could be in the future after a restart.
type Clock struct {
	path string

	mu     sync.RWMutex
	offset time.Duration
}

func openClock(path string) (*Clock, error) {
	c := &Clock{path: path}
	if err := disk.Load(path, &c.offset); err != nil {
		return nil, fmt.Errorf("read clock: %w", err)
	}
	return c, nil
}

// Now returns the time of the sandbox in UTC.
func (c *Clock) Now() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return time.Now().Add(c.offset).UTC()
}

// isMoved reports whether the clock differs from the machine's clock.
func (c *Clock) isMoved() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.offset != 0
}

// set moves the clock to now and saves the offset.
func (c *Clock) set(now time.Time) error {
	offset := time.Until(now)
	if offset > maxClockOffset || offset < -maxClockOffset {
		return badRequest("the clock can differ from the machine's clock by at most 100 years")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := disk.Save(c.path, offset); err != nil {
		return fmt.Errorf("save clock: %w", err)
	}
	c.offset = offset
	return nil
}

// setClock sets the clock of the service and of the simulators. It then calls WakeDueJobs.
func (c *controller) setClock(r *http.Request) (any, error) {
	var in struct {
		Now     *time.Time `json:"now"`
		Advance *string    `json:"advance"`
	}
	if err := decodeBody(r, &in); err != nil {
		return nil, err
	}
	var advance time.Duration
	switch {
	case (in.Now == nil) == (in.Advance == nil):
		return nil, badRequest("give exactly one of now and advance")
	case in.Advance != nil:
		var err error
		if advance, err = time.ParseDuration(*in.Advance); err != nil || advance < 0 || advance > maxClockOffset {
			return nil, badRequest(`advance must be a duration such as "24h", between 0 and 100 years`)
		}
	}
	if err := c.moveClocks(r.Context(), in.Now, advance); err != nil {
		return nil, err
	}
	return emptyResponse{}, c.WakeDueJobs(r.Context())
}

// moveClocks sets the clock of the service and the clocks of the simulators to the time at. If at
// is nil, it moves them forward by advance. Concurrent calls run one after another, so that no call
// loses the advance of another.
func (env *Environment) moveClocks(ctx context.Context, at *time.Time, advance time.Duration) error {
	env.moveClockMu.Lock()
	defer env.moveClockMu.Unlock()
	now := env.Now().Add(advance)
	if at != nil {
		now = *at
	}
	if err := env.clock.set(now); err != nil {
		return err
	}
	return env.setSimulatorClocks(ctx, now)
}

func (env *Environment) setSimulatorClocks(ctx context.Context, now time.Time) error {
	body, err := json.Marshal(map[string]time.Time{"now": now})
	if err != nil {
		return err
	}
	return env.controlAll(ctx, http.MethodPost, "/clock", body)
}
