// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost/verified"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/wire"
)

// supervisor runs one plugin of the catalog. It sends new calls to at most one process. It starts a
// process for a call or an upgrade, delays the restart after a failure, and kills a process that
// does not answer.
type supervisor struct {
	name, kind string // the plugin's name and kind, the same in all its entries
	host       *Host
	policy     SupervisionPolicy
	log        *slog.Logger

	background panics.Group  // the goroutines that close waits for
	closing    chan struct{} // closed by close

	mu                  sync.Mutex
	entry               CatalogEntry  // the entry that the next start runs
	previous            *CatalogEntry // the entry before an upgrade, until the upgraded process has answered a call
	rejected            CatalogEntry  // the entry of the last upgrade, if that upgrade failed
	wasRemoved          bool          // the catalog no longer has the plugin
	running             *instance
	starting            chan struct{} // nil when no start is in progress, closed when the start ends
	isClosed            bool
	starts              int
	hangs               int
	consecutiveFailures int // see Status
	retryAt             time.Time
	lastError           error
}

func newSupervisor(h *Host, e CatalogEntry) *supervisor {
	return &supervisor{
		name: e.Name, kind: e.Kind, entry: e, host: h, policy: h.options.Supervision,
		log: h.options.Log.With("plugin", e.Name), closing: make(chan struct{}),
	}
}

// acquire returns the running process for one call. If no process runs, it starts one. Concurrent
// callers wait for the same start. The caller must release the process. acquire fails with
// outcome.Down if the host is closed, if the plugin was removed, if a restart is delayed after a
// failure, or if ctx ends first.
func (s *supervisor) acquire(ctx context.Context) (*instance, error) {
	for {
		s.mu.Lock()
		if s.isClosed {
			s.mu.Unlock()
			return nil, downError("plugin_closed", 0)
		}
		if s.wasRemoved {
			s.mu.Unlock()
			return nil, downError("plugin_missing", 0)
		}
		if i := s.running; i != nil && !i.hasExited() {
			i.calls++
			s.mu.Unlock()
			return i, nil
		}
		stateChanged, err := s.startOrJoin()
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-stateChanged:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", downError("plugin_starting", 0), ctx.Err())
		}
	}
}

// startOrJoin returns a channel. When the channel is closed, acquire checks again. If the last
// process has exited and its exit is not recorded yet, the channel is closed when the exit is
// recorded. If a start is in progress, the channel is closed when the start ends. Otherwise
// startOrJoin begins a start. It fails while a restart is delayed. The caller holds s.mu.
func (s *supervisor) startOrJoin() (<-chan struct{}, error) {
	if s.running != nil {
		return s.running.exitRecorded, nil
	}
	if s.starting != nil {
		return s.starting, nil
	}
	if delay := time.Until(s.retryAt); delay > 0 {
		return nil, s.delayedError(delay)
	}
	s.starting = make(chan struct{})
	s.goLogged(s.start)
	return s.starting, nil
}

// goLogged starts f as a goroutine of background, and logs a panic of f.
func (s *supervisor) goLogged(f func()) { s.background.Go(panics.Guarded(f, s.logPanic)) }

func (s *supervisor) logPanic(e *panics.Error) {
	s.log.Error("panic", "type", e.Type, "stack", e.Stack)
}

// delayedError returns the error for a call while the restart is delayed. Its cause says whether
// the last error was a wrong checksum or protocol version, and otherwise whether the plugin is in a
// crash loop. The caller holds s.mu.
func (s *supervisor) delayedError(delay time.Duration) error {
	_, crashLoop := s.policy.restartDelay(s.consecutiveFailures)
	switch {
	case errors.Is(s.lastError, verified.ErrChecksum):
		return downError("plugin_checksum", delay)
	case errors.Is(s.lastError, wire.ErrVersion):
		return downError("plugin_version", delay)
	case crashLoop:
		return downError("plugin_crash_loop", delay)
	default:
		return downError("plugin_restarting", delay)
	}
}

// start makes one attempt to start the process. The attempt is independent of the context of the
// call that caused it, because other calls wait for the same start.
func (s *supervisor) start() {
	s.mu.Lock()
	entry := s.entry
	s.mu.Unlock()
	i, err := s.tryLaunch(entry)
	s.mu.Lock()
	started := s.starting
	s.starting = nil
	outdated := s.isClosed || s.wasRemoved || s.entry != entry // in these cases the process is not needed
	switch {
	case outdated:
	case err != nil:
		s.recordFailure(err)
	default:
		s.setRunning(i)
	}
	s.mu.Unlock()
	if outdated && i != nil {
		i.dispose(0)
	}
	close(started)
}

// tryLaunch calls launch, and returns a panic as an error.
func (s *supervisor) tryLaunch(entry CatalogEntry) (i *instance, err error) {
	panics.Guarded(func() { i, err = s.launch(entry) }, func(e *panics.Error) {
		s.logPanic(e)
		err = e
	})()
	return i, err
}

// setRunning makes i the process that executes calls. The caller holds s.mu.
func (s *supervisor) setRunning(i *instance) {
	s.starts++
	s.running = i
	s.log.Info("plugin started", "version", i.description.Version, "pid", i.process.PID())
	s.goLogged(func() { s.waitForExit(i) })
}

// waitForExit waits until a process exits and records the exit.
func (s *supervisor) waitForExit(i *instance) {
	<-i.process.Exited()
	s.recordExit(i, i.process.HowExited())
	close(i.exitRecorded)
	i.dispose(0) // closes the pipes, sockets, connections and files of the exited process
}

// recordExit records that a process has exited. exitStatus is the exit code or the signal. The exit
// counts as a failure if the process had not answered a call. It does not count if the host is
// closed, after Host.Kill, or if the process is draining.
func (s *supervisor) recordExit(i *instance, exitStatus string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == i {
		s.running = nil
	}
	switch {
	case s.isClosed:
	case i.isDraining():
		s.log.Info("the process of a replaced or removed plugin ended", "version", i.description.Version, "pid", i.process.PID(), "exit", exitStatus)
	case i.wasKillRequested, i.hasAnswered:
		s.consecutiveFailures = 0
		s.retryAt = time.Time{}
		s.log.Warn("plugin ended; the next call starts it again", "pid", i.process.PID(), "exit", exitStatus)
	default:
		s.recordFailure(fmt.Errorf("the process %d ended before it answered a call: %s", i.process.PID(), exitStatus))
	}
}

// recordFailure counts a failure (see Status) and sets the earliest time of the next start. The
// caller holds s.mu.
//
// If the plugin was upgraded and its new version has not answered a call yet, recordFailure makes
// the previous version current again instead. It does not do so if the files of the previous
// version were deleted or overwritten.
func (s *supervisor) recordFailure(err error) {
	if s.previous != nil {
		checkErr := verified.Check(filepath.Join(s.host.options.Dir, s.previous.File), s.previous.SHA256)
		if errors.Is(checkErr, fs.ErrNotExist) || errors.Is(checkErr, verified.ErrChecksum) {
			s.previous = nil
		}
	}
	if s.previous != nil {
		s.log.Error("the new version failed before it answered a call, so the previous version is used again",
			"error", err, "version", s.previous.Version, "rejected", s.entry.Version)
		s.rejected, s.entry, s.previous = s.entry, *s.previous, nil
		s.lastError = err
		s.host.reportChange(s.name)
		return
	}
	s.consecutiveFailures++
	s.lastError = err
	delay, crashLoop := s.policy.restartDelay(s.consecutiveFailures)
	s.retryAt = time.Now().Add(delay)
	s.log.Error("plugin failed", "error", err, "failures", s.consecutiveFailures, "crash_loop", crashLoop, "retry_in", delay.String())
}

// exitRecordTimeout is how long callEnded waits for the exit of a process to be recorded after its
// connection broke.
const exitRecordTimeout = 200 * time.Millisecond

// callEnded releases a process and updates its state from the error of the call that ended. If the
// cause of the error is wire.CausePluginExited, callEnded first waits until the exit is recorded,
// at most exitRecordTimeout. The caller's next call then normally gets a new process.
func (s *supervisor) callEnded(i *instance, err error) {
	var callErr *outcome.Error
	errors.As(err, &callErr)
	if callErr != nil && callErr.Cause == wire.CausePluginExited {
		select {
		case <-i.exitRecorded:
		case <-time.After(exitRecordTimeout):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(i)
	if now := time.Now(); now.After(i.usageCheckAt) && !s.isClosed {
		i.usageCheckAt = now.Add(s.policy.UsageInterval)
		s.goLogged(func() { s.warnOfUsage(i) })
	}
	switch {
	case callErr != nil && callErr.Cause == wire.CauseDeadline:
		i.consecutiveTimeouts++
		if !i.isPinging && !s.isClosed {
			i.isPinging = true
			s.goLogged(func() { s.checkResponsive(i) })
		}
	case callErr != nil && (callErr.Cause == wire.CausePluginExited || callErr.Cause == wire.CauseCanceled):
	default:
		i.consecutiveTimeouts = 0
		i.hasAnswered = true
		if i == s.running {
			s.consecutiveFailures, s.previous = 0, nil
		}
	}
}

// checkResponsive runs a health check after a call that ended at its deadline. A plugin that passes
// the check is not killed: its provider is slow, not the plugin. A plugin that fails the check is
// killed if at least MaxTimeouts consecutive calls have ended at their deadline.
func (s *supervisor) checkResponsive(i *instance) {
	ctx, cancel := context.WithTimeout(context.Background(), s.policy.PingTimeout)
	defer cancel()
	err := i.process.Ping(ctx)
	s.mu.Lock()
	i.isPinging = false
	if err == nil {
		i.consecutiveTimeouts = 0
	}
	isHanging := i.consecutiveTimeouts >= s.policy.MaxTimeouts && s.running == i
	if isHanging {
		s.hangs++
		s.running = nil
		s.log.Error("plugin does not answer and is killed", "pid", i.process.PID(), "calls", i.consecutiveTimeouts)
	}
	s.mu.Unlock()
	if isHanging {
		i.process.Kill()
	}
}

// warnOfUsage logs a warning if the process has almost reached its limit of processes or of open
// files, once for each limit.
func (s *supervisor) warnOfUsage(i *instance) {
	usages := i.process.AlmostReached()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range usages {
		if !i.warnedOf[u.Resource] {
			i.warnedOf[u.Resource] = true
			s.log.Warn("plugin has almost reached a limit", "pid", i.process.PID(), "resource", u.Resource, "used", u.Used, "limit", u.Limit)
		}
	}
}

func (s *supervisor) kill() {
	s.mu.Lock()
	i := s.running
	if i != nil {
		i.wasKillRequested = true
	}
	s.mu.Unlock()
	if i != nil {
		i.process.Kill()
	}
}

// close stops the process, even while it starts, and waits for the background work of the
// supervisor.
func (s *supervisor) close() {
	s.mu.Lock()
	if !s.isClosed {
		close(s.closing)
	}
	s.isClosed = true
	i := s.running
	s.mu.Unlock()
	if i != nil {
		i.process.Stop(s.policy.StopGrace)
	}
	s.background.Wait()
}
