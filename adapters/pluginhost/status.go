// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
)

// State is the state of a plugin.
type State string

// The states of a plugin.
const (
	// Idle means that no process runs and that the next call starts a process.
	Idle     State = "idle"
	Starting State = "starting"
	Running  State = "running"
	// Waiting means that the last process or start failed. The next start is allowed at RetryAt.
	Waiting State = "waiting"
	// CrashLoop means that SupervisionPolicy.CrashLimit processes in a row failed: they did not
	// start, or exited before they answered a call. Calls now start the plugin at most once per
	// SupervisionPolicy.Cooldown.
	CrashLoop State = "crash_loop"
	// Closed means that the host is closed.
	Closed State = "closed"
)

// States has every state.
var States = []State{Idle, Starting, Running, Waiting, CrashLoop, Closed}

// Status is the state of a plugin and the counts of its processes.
type Status struct {
	Name    string
	Version string // of the running process, or of the process that would be started next
	State   State
	PID     int // the process id when State is Running, otherwise 0
	Calls   int // calls in progress in the current process
	// Limits are the limits of the process if State is Running.
	Limits wire.Limits
	// Starts counts the processes that started successfully, including restarts and upgrades.
	Starts int
	// Hangs counts the processes that were killed because they did not answer.
	Hangs int
	// ConsecutiveFailures counts the failures in a row. A failure is a failed start, or the exit of
	// a process that has answered no call. An exit after Host.Kill does not count, nor does a
	// failure after which the previous version is used again.
	ConsecutiveFailures int
	// LastError is the error of the last failure, nil before the first. It is not the error with
	// which Reload rejects an upgrade, because calls of the current version do not fail with it.
	LastError error
	RetryAt   time.Time // the earliest time of the next start, zero or past if a start is allowed now
}

// downError returns the error of a call that was not sent because no process of the plugin runs.
// cause begins with outcome.PluginCausePrefix.
func downError(cause string, retryAfter time.Duration) error {
	return &outcome.Error{
		Kind: outcome.Down, Cause: cause, RetryAfter: retryAfter,
		Detail: "the plugin of this provider does not run",
	}
}

func (s *supervisor) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	reported := Status{
		Name: s.entry.Name, Version: s.entry.Version, State: Idle,
		Starts: s.starts, Hangs: s.hangs, ConsecutiveFailures: s.consecutiveFailures, LastError: s.lastError, RetryAt: s.retryAt,
	}
	switch {
	case s.isClosed:
		reported.State = Closed
	case s.running != nil:
		reported.State, reported.PID, reported.Calls, reported.Limits = Running, s.running.process.PID(), s.running.calls, s.running.process.Limits()
	case s.starting != nil:
		reported.State = Starting
	case s.consecutiveFailures >= s.policy.CrashLimit:
		reported.State = CrashLoop
	case time.Now().Before(s.retryAt):
		reported.State = Waiting
	}
	return reported
}
