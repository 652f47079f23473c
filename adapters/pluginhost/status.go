// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"time"

	"github.com/tenantry/tenantry/core/outcome"
)

// State is what a plugin is doing.
type State string

// The states of a plugin. Waiting: it failed and may not start again before
// RetryAt. CrashLoop: it fails whenever it starts; it is tried once in a while.
const (
	Idle      State = "idle"
	Starting  State = "starting"
	Running   State = "running"
	Waiting   State = "waiting"
	CrashLoop State = "crash_loop"
	Closed    State = "closed"
)

// States are all of them.
var States = []State{Idle, Starting, Running, Waiting, CrashLoop, Closed}

// Status is how a plugin is.
type Status struct {
	Name    string
	Version string // by the catalog
	State   State
	PID     int // 0 unless running
	// Starts counts the processes started; all but the first replaced one
	// that ended.
	Starts int
	// Hangs counts the processes killed because they did not answer.
	Hangs int
	// Crashes counts the processes in a row that ended, or failed to start,
	// without having answered a call.
	Crashes   int
	LastError error // of the last crash or failed start
	RetryAt   time.Time
}

// down is the answer while a plugin cannot be called: nothing has left.
func down(cause string, wait time.Duration) error {
	return &outcome.Error{
		Kind: outcome.Down, Cause: cause, RetryAfter: wait,
		Detail: "the plugin of this provider does not run",
	}
}

func (s *supervised) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Name: s.entry.Name, Version: s.entry.Version, State: Idle,
		Starts: s.starts, Hangs: s.hangs, Crashes: s.crashes, LastError: s.lastError, RetryAt: s.retryAt,
	}
	_, loop := s.patience.wait(max(s.crashes, 1))
	switch {
	case s.closed:
		st.State = Closed
	case s.life != nil:
		st.State, st.PID = Running, s.life.process.PID()
	case s.starting != nil:
		st.State = Starting
	case loop:
		st.State = CrashLoop
	case time.Now().Before(s.retryAt):
		st.State = Waiting
	}
	return st
}
