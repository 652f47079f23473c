// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
)

// supervised is one plugin of the catalog, with at most one process at a time.
type supervised struct {
	entry    Entry
	host     *Host
	patience Patience
	log      *slog.Logger

	background sync.WaitGroup // of starts, watches and pings

	mu        sync.Mutex
	life      *life
	starting  chan struct{} // closes when the start under way has ended
	closed    bool
	starts    int
	hangs     int
	crashes   int // in a row, see Status
	retryAt   time.Time
	lastError error
}

func newSupervised(h *Host, e Entry) *supervised {
	return &supervised{entry: e, host: h, patience: h.options.Patience, log: h.options.Log.With("plugin", e.Name)}
}

// acquire gives the running process, starting it if there is none. Of many
// callers one starts it and the others wait for the outcome.
func (s *supervised) acquire(ctx context.Context) (*life, error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, down("plugin_closed", 0)
		}
		if l := s.life; l != nil && !l.over() {
			s.mu.Unlock()
			return l, nil
		}
		next, err := s.next()
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", down("plugin_starting", 0), ctx.Err())
		}
	}
}

// next is what a caller waits for while there is no process: the end of the
// last one to be taken in, or a start to end. It begins the start itself.
func (s *supervised) next() (<-chan struct{}, error) {
	if s.life != nil {
		return s.life.settled, nil
	}
	if s.starting != nil {
		return s.starting, nil
	}
	if wait := time.Until(s.retryAt); wait > 0 {
		return nil, s.refusal(wait)
	}
	s.starting = make(chan struct{})
	s.background.Go(s.start)
	return s.starting, nil
}

// refusal says why the plugin is not started now.
func (s *supervised) refusal(wait time.Duration) error {
	_, loop := s.patience.wait(s.crashes)
	switch {
	case errors.Is(s.lastError, errChecksum):
		return down("plugin_checksum", wait)
	case errors.Is(s.lastError, wire.ErrVersion):
		return down("plugin_version", wait)
	case loop:
		return down("plugin_crash_loop", wait)
	default:
		return down("plugin_restarting", wait)
	}
}

// start makes one attempt. It does not end with the call that caused it, since
// others wait for it too.
func (s *supervised) start() {
	l, err := s.launch()
	s.mu.Lock()
	started := s.starting
	s.starting = nil
	closed := s.closed
	switch {
	case err != nil:
		s.failed(err)
	case !closed:
		s.starts++
		s.life = l
		s.log.Info("plugin started", "version", l.description.Version, "pid", l.process.PID())
		s.background.Go(func() { s.watch(l) })
	}
	s.mu.Unlock()
	if closed && l != nil {
		l.process.Kill()
	}
	close(started)
}

// watch waits for the end of a process.
func (s *supervised) watch(l *life) {
	<-l.process.Exited()
	s.takeIn(l)
	close(l.settled)
	l.process.Kill() // what is left of it: pipes, sockets, connections
}

func (s *supervised) takeIn(l *life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == l {
		s.life = nil
	}
	switch {
	case s.closed:
	case l.wanted, l.answered:
		s.crashes = 0
		s.retryAt = time.Time{}
		s.log.Warn("plugin ended; the next call starts it again")
	default:
		s.failed(errors.New("the process ended before it answered a call"))
	}
}

// failed counts a start or a process that was of no use.
func (s *supervised) failed(err error) {
	s.crashes++
	s.lastError = err
	wait, loop := s.patience.wait(s.crashes)
	s.retryAt = time.Now().Add(wait)
	s.log.Error("plugin failed", "error", err, "crashes", s.crashes, "crash_loop", loop, "retry_in", wait.String())
}

// dying is how long the end of a process may take to be noticed after its
// connection broke.
const dying = 200 * time.Millisecond

// ended learns from the end of a call. It returns when the call's caller
// would meet a new process.
func (s *supervised) ended(l *life, err error) {
	var o *outcome.Error
	errors.As(err, &o)
	if o != nil && o.Cause == wire.CauseGone {
		select {
		case <-l.settled:
		case <-time.After(dying):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case o != nil && o.Cause == wire.CauseDeadline:
		l.unanswered++
		if !l.pinging && !s.closed {
			l.pinging = true
			s.background.Go(func() { s.ping(l) })
		}
	case o != nil && (o.Cause == wire.CauseGone || o.Cause == wire.CauseCanceled):
	default:
		l.unanswered = 0
		l.answered = true
		s.crashes = 0
	}
}

// ping tells a slow provider from a plugin that hangs, and kills one that
// hung too often.
func (s *supervised) ping(l *life) {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience.Ping)
	defer cancel()
	err := l.process.Ping(ctx)
	s.mu.Lock()
	l.pinging = false
	if err == nil {
		l.unanswered = 0
	}
	hangs := l.unanswered >= s.patience.Hangs && s.life == l
	if hangs {
		s.hangs++
		s.life = nil
		s.log.Error("plugin does not answer and is killed", "calls", l.unanswered)
	}
	s.mu.Unlock()
	if hangs {
		l.process.Kill()
	}
}

func (s *supervised) kill() {
	s.mu.Lock()
	l := s.life
	if l != nil {
		l.wanted = true
	}
	s.mu.Unlock()
	if l != nil {
		l.process.Kill()
	}
}

func (s *supervised) close() {
	s.mu.Lock()
	s.closed = true
	l := s.life
	s.mu.Unlock()
	if l != nil {
		l.process.Stop(s.patience.Stop)
	}
	s.background.Wait()
}
