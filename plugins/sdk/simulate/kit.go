// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Call describes one request to the simulated API.
type Call struct {
	// Operation is the name of the operation, for the journal and planned faults. It may be empty.
	Operation string
	// Write is true if the call can change state.
	Write bool
	// Host is the path prefix of the provider's host, such as "/graph", if one simulator serves
	// several hosts.
	Host string
	// Scope is the name of a group of calls, such as the calls of one tenant or one key. A
	// Retry-After in an answer applies to all calls of the scope. The journal marks calls that
	// arrive too early with IgnoredRetryAfter. If Scope is empty, no Retry-After applies to the
	// call.
	Scope string
	// Violation is the rule of the provider that the request itself breaks, for the journal. It may
	// be empty.
	Violation string
	// WorkAt lists the statuses with which a provider answers only after it has executed the
	// request, such as the 504 of a gateway. If a planned fault has one of these statuses, the
	// simulator executes the request before it answers.
	WorkAt []int
}

// Provider is the part of a simulator that imitates the provider's API.
type Provider interface {
	// Call describes a request. body is the complete body of the request.
	Call(r *http.Request, body []byte) Call
	// Fail answers with a planned status in the provider's error format. retryAfter is the value of
	// Retry-After in seconds, or 0 for no header.
	Fail(w http.ResponseWriter, r *http.Request, status, retryAfter int)
	// ServeHTTP executes the request.
	http.Handler
}

// Kit is the common part of all simulators. A simulator opens a Kit, stores its own state in Files,
// gets the time from Now, and serves
//
//	kit.Handler(provider, control)
type Kit struct {
	Options

	name    string
	host    string
	journal *journal
	plan    *File[plan]
	waits   waits
	limiter limiter

	clockMu     sync.Mutex
	clockOffset atomic.Int64 // how many nanoseconds the simulated clock is ahead of the wall clock
}

// plan has the clock offset and the planned faults, which the control interface sets.
type plan struct {
	ClockOffset time.Duration `json:"ahead"`
	Faults      []Fault       `json:"faults"`
}

// Open returns the Kit of a provider. name is the provider's id. Open continues from the state in
// the data folder. It fails if that folder cannot be used, or if Options.URL is invalid.
func Open(name string, o Options) (*Kit, error) {
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	base, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("simulator URL: %w", err)
	}
	k := &Kit{Options: o, name: name, host: base.Host}
	if k.plan, err = OpenFile(filepath.Join(o.DataDir, "plan.json"), plan{}); err != nil {
		return nil, err
	}
	if k.journal, err = openJournal(filepath.Join(o.DataDir, "calls.jsonl")); err != nil {
		return nil, err
	}
	k.plan.View(func(p *plan) { k.clockOffset.Store(int64(p.ClockOffset)) })
	return k, nil
}

// OpenState is Open for a simulator that stores its whole state in one file of its data folder.
// fresh returns the initial state. now is the simulated time. OpenState fails like Open and
// OpenFile.
func OpenState[T any](name, file string, o Options, fresh func(now time.Time) T) (*Kit, *File[T], error) {
	k, err := Open(name, o)
	if err != nil {
		return nil, nil, err
	}
	f, err := OpenFile(filepath.Join(o.DataDir, file), fresh(k.Now()))
	return k, f, err
}

// Host returns the host and port of the simulator's URL, for links to the simulator.
func (k *Kit) Host() string { return k.host }

// Count counts one call at the time now. It does not count a call that exceeds a rate. Calls with
// different counters are counted separately. now must be time.Now(), not the simulated time. The
// simulated clock can move back, and calls would then be refused for too long. The host, too,
// counts the plugin's budgets by the real clock.
func (k *Kit) Count(counter string, now time.Time, rates ...Rate) Usage {
	return k.limiter.count(counter, now, rates)
}

// Handler returns a handler for the provider's API and the planned faults. Below /_control/ the
// handler serves the common control calls, and passes all other control calls to control.
func (k *Kit) Handler(p Provider, control http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/_control/", k.controlHandler(control))
	mux.Handle("/", k.withFaults(p))
	return mux
}

// clockRequest is the body of POST /_control/clock.
type clockRequest struct {
	Now     *time.Time `json:"now"`
	Advance *string    `json:"advance"`
}

// newOffset returns the new difference between the simulated clock and the wall clock. offset is
// the current difference.
func (c clockRequest) newOffset(offset time.Duration, wall time.Time) (time.Duration, error) {
	switch {
	case (c.Now == nil) == (c.Advance == nil):
		return 0, errors.New("set exactly one of now and advance")
	case c.Now != nil:
		return c.Now.Sub(wall), nil
	}
	advance, err := time.ParseDuration(*c.Advance)
	if err != nil {
		return 0, errors.New(`advance must be a duration such as "24h"`)
	}
	return offset + advance, nil
}

// Now returns the simulated time in UTC: the wall clock plus the offset set by POST
// /_control/clock.
func (k *Kit) Now() time.Time {
	return time.Now().Add(time.Duration(k.clockOffset.Load())).UTC()
}

// setClock changes the simulated clock. The simulator keeps the change after a restart.
func (k *Kit) setClock(c clockRequest) error {
	k.clockMu.Lock()
	defer k.clockMu.Unlock()
	offset, err := c.newOffset(time.Duration(k.clockOffset.Load()), time.Now())
	if err != nil {
		return BadRequest(err.Error())
	}
	if err := k.plan.Do(func(p *plan) { p.ClockOffset = offset }); err != nil {
		return err
	}
	k.clockOffset.Store(int64(offset))
	return nil
}
