// SPDX-License-Identifier: Apache-2.0

package pluginhost

import "time"

// Patience says how long the host waits for what.
type Patience struct {
	Start    time.Duration // for a plugin to be healthy; 10 s
	Ping     time.Duration // for a sign of health; 1 s
	Stop     time.Duration // for a plugin to end by itself; 2 s
	Backoff  time.Duration // before the second start of one that crashes, doubling; 200 ms
	Cooldown time.Duration // between single starts of one in a crash loop; 1 min
	Crashes  int           // in a row that make a crash loop; 5
	Hangs    int           // in a row that get a plugin killed; 3
}

func (p Patience) orDefaults() Patience {
	return Patience{
		Start:    orDefault(p.Start, 10*time.Second),
		Ping:     orDefault(p.Ping, time.Second),
		Stop:     orDefault(p.Stop, 2*time.Second),
		Backoff:  orDefault(p.Backoff, 200*time.Millisecond),
		Cooldown: orDefault(p.Cooldown, time.Minute),
		Crashes:  orDefault(p.Crashes, 5),
		Hangs:    orDefault(p.Hangs, 3),
	}
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// wait is the time until the next start after so many crashes in a row, and
// whether that is a loop.
func (p Patience) wait(crashes int) (wait time.Duration, loop bool) {
	if crashes >= p.Crashes {
		return p.Cooldown, true
	}
	return p.Backoff << (crashes - 1), false
}
