// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"sync"
	"time"
)

// Rate is a limit on the number of calls in a window of time. The window slides if Fixed is false.
// A fixed window begins with the first call after the previous window.
type Rate struct {
	Calls  int
	Window time.Duration
	Fixed  bool
}

// Usage is the result of counting one call.
type Usage struct {
	// Wait is how long to wait until all rates allow a call, or 0 if the call was counted.
	Wait time.Duration
	// Left is how many more calls the first rate allows after this call. Reset is the time until
	// the oldest call leaves the window of the first rate.
	Left  int
	Reset time.Duration
}

// longestWindow is the longest window that a Rate may have.
const longestWindow = 24 * time.Hour

// limiter counts calls in memory. After a restart of the simulator it begins without calls.
type limiter struct {
	mu       sync.Mutex
	counters map[string]*counter
}

// counter has the recent calls that were counted under one name. A call stays stored until it is
// older than longestWindow, so that rates with different windows can count it.
type counter struct {
	calls []time.Time // the times of the counted calls
	// windowStart has the start of the current window of each fixed rate, keyed by the length of
	// the window.
	windowStart map[time.Duration]time.Time
}

func (l *limiter) count(name string, now time.Time, rates []Rate) Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counters == nil {
		l.counters = map[string]*counter{}
	}
	c := l.counters[name]
	if c == nil {
		c = &counter{windowStart: map[time.Duration]time.Time{}}
		l.counters[name] = c
	}
	return c.count(now, rates)
}

func (c *counter) count(now time.Time, rates []Rate) Usage {
	for len(c.calls) > 0 && now.Sub(c.calls[0]) >= longestWindow {
		c.calls = c.calls[1:]
	}
	var usage Usage
	for i, rate := range rates {
		counted, reset := c.countInWindow(rate, now)
		if i == 0 {
			usage.Left, usage.Reset = max(0, rate.Calls-counted), reset
		}
		if counted >= rate.Calls {
			usage.Wait = max(usage.Wait, reset)
		}
	}
	if usage.Wait > 0 {
		return usage
	}
	for _, rate := range rates {
		if rate.Fixed && c.windowEnded(rate, now) {
			c.windowStart[rate.Window] = now
		}
	}
	c.calls = append(c.calls, now)
	usage.Left = max(0, usage.Left-1)
	return usage
}

// countInWindow returns the number of calls in the window of a rate, and the time until the oldest
// call leaves the window. If the window has no call, the time is the length of the window.
func (c *counter) countInWindow(rate Rate, now time.Time) (counted int, reset time.Duration) {
	if rate.Fixed && c.windowEnded(rate, now) {
		return 0, rate.Window
	}
	isInside := func(call time.Time) bool { return now.Sub(call) < rate.Window }
	if rate.Fixed {
		isInside = func(call time.Time) bool { return !call.Before(c.windowStart[rate.Window]) }
	}
	for counted < len(c.calls) && isInside(c.calls[len(c.calls)-1-counted]) {
		counted++
	}
	if counted == 0 {
		return 0, rate.Window
	}
	return counted, rate.Window - now.Sub(c.calls[len(c.calls)-counted])
}

// windowEnded reports whether the window of a fixed rate has ended, or no call has begun a window
// yet.
func (c *counter) windowEnded(rate Rate, now time.Time) bool {
	start, ok := c.windowStart[rate.Window]
	return !ok || now.Sub(start) >= rate.Window
}
