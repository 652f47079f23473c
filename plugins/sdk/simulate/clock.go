// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"time"
)

// clockCall is the body of POST /_control/clock.
type clockCall struct {
	Now     *time.Time `json:"now"`
	Advance *string    `json:"advance"`
}

// shift tells how far ahead of the wall clock the simulated clock is to be,
// given how far ahead it is.
func (c clockCall) shift(ahead time.Duration, wall time.Time) (time.Duration, error) {
	switch {
	case (c.Now == nil) == (c.Advance == nil):
		return 0, errors.New("give exactly one of now and advance")
	case c.Now != nil:
		return c.Now.Sub(wall), nil
	}
	by, err := time.ParseDuration(*c.Advance)
	if err != nil {
		return 0, errors.New(`advance is a duration such as "24h"`)
	}
	return ahead + by, nil
}

// Now is the simulated time: the wall clock and what POST /_control/clock has
// put on top of it.
func (k *Kit) Now() time.Time {
	return time.Now().Add(time.Duration(k.ahead.Load())).UTC()
}

// setClock moves the simulated clock and keeps it so over a restart.
func (k *Kit) setClock(c clockCall) error {
	k.clockMu.Lock()
	defer k.clockMu.Unlock()
	ahead, err := c.shift(time.Duration(k.ahead.Load()), time.Now())
	if err != nil {
		return badCall{err.Error()}
	}
	if err := k.plan.Do(func(p *plan) { p.Ahead = ahead }); err != nil {
		return err
	}
	k.ahead.Store(int64(ahead))
	return nil
}
