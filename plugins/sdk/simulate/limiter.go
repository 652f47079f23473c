// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"sync"
	"time"
)

// Rate is a limit on the number of calls in a window of time. The window slides, unless Fixed is
// true. A fixed window begins with the first call after the previous window.
type Rate struct {
	Calls  int
	Window time.Duration
	Fixed  bool
}

// Usage is the result of counting one call.
type Usage struct {
	// Wait is how long to wait until all rates allow a call, or 0 if the call was counted.
	Wait time.Duration
	// Left is how many more calls the first rate allows. Reset is the time until the oldest call
	// leaves the window of that rate.
	Left  int
	Reset time.Duration
}

// longestWindow is the longest window of a Rate.
const longestWindow = 24 * time.Hour

// limiter counts calls in memory. After a restart of the simulator it begins without calls.
type limiter struct {
	mu    sync.Mutex
	calls map[string][]time.Time // the times of the counted calls, by counter
}

func (l *limiter) count(counter string, now time.Time, rates []Rate) Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[string][]time.Time{}
	}
	recent := l.calls[counter]
	for len(recent) > 0 && now.Sub(recent[0]) >= longestWindow {
		recent = recent[1:]
	}
	var usage Usage
	for i, rate := range rates {
		if rate.Fixed && len(recent) > 0 && now.Sub(recent[0]) >= rate.Window {
			recent = nil
		}
		counted, reset := 0, rate.Window
		for counted < len(recent) && now.Sub(recent[len(recent)-1-counted]) < rate.Window {
			counted++
		}
		if counted > 0 {
			reset -= now.Sub(recent[len(recent)-counted])
		}
		if i == 0 {
			usage.Left, usage.Reset = max(0, rate.Calls-counted-1), reset
		}
		if counted >= rate.Calls {
			usage.Wait = max(usage.Wait, reset)
		}
	}
	if usage.Wait == 0 {
		recent = append(recent, now)
	}
	l.calls[counter] = recent
	return usage
}
