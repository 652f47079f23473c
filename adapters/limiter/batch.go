// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/tenantry/tenantry/core/panics"
)

// redisSession is a period during which Redis answers. A failure ends the session. A new session
// begins when Redis answers again. Commands are sent in batches, one batch at a time. Commands that
// arrive while a batch is in flight form the next batch, so concurrent requests share a round trip.
type redisSession struct {
	mu             sync.Mutex
	hasEnded       bool
	inFlight, next *batch // nil if there is no such batch
}

// batch is a group of commands that are sent together.
type batch struct {
	commands    []*command
	done        chan struct{}
	wasAnswered bool // valid after done is closed
}

// join adds a command to a batch, or returns nil if the session has ended. If isFirst is true, the
// batch is now in flight, and the caller must call sendBatches.
func (rs *redisSession) join(c *command) (b *batch, isFirst bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.hasEnded {
		return nil, false
	}
	if rs.inFlight == nil {
		rs.inFlight = &batch{commands: []*command{c}, done: make(chan struct{})}
		return rs.inFlight, true
	}
	if rs.next == nil {
		rs.next = &batch{done: make(chan struct{})}
	}
	rs.next.commands = append(rs.next.commands, c)
	return rs.next, false
}

// completeBatch releases all callers that wait for the batch in flight. It returns the next batch,
// which is now in flight. It returns nil when no command waits or the session has ended.
func (rs *redisSession) completeBatch() *batch {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.hasEnded {
		return nil
	}
	rs.inFlight.wasAnswered = true
	close(rs.inFlight.done)
	rs.inFlight, rs.next = rs.next, nil
	return rs.inFlight
}

// end ends the session, and releases all waiting callers without an answer. It returns false if the
// session had already ended.
func (rs *redisSession) end() bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.hasEnded {
		return false
	}
	rs.hasEnded = true
	for _, b := range []*batch{rs.inFlight, rs.next} {
		if b != nil {
			close(b.done)
		}
	}
	return true
}

func (rs *redisSession) isActive() bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return !rs.hasEnded
}

func (rs *redisSession) isInFlight(b *batch) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return !rs.hasEnded && rs.inFlight == b
}

// sendCommand sends a command and reports whether Redis answered. It takes no context: if a
// cancelled request interrupted its command, the interruption would count as a failure of Redis. If
// a batch gets no answer, sendCommand returns false to all callers whose commands are in the batch.
func (rc *redisCounters) sendCommand(c *command) bool {
	session := rc.session.Load()
	b, isFirst := session.join(c)
	if b == nil {
		return false
	}
	onPanic := func(err error) { rc.endSession(session, err) }
	if isFirst && !rc.goUnlessClosed(func() { rc.sendBatches(session, b) }, onPanic) {
		session.end()
	}
	<-b.done
	return b.wasAnswered
}

// sendBatches sends batches until no command waits.
func (rc *redisCounters) sendBatches(session *redisSession, b *batch) {
	for ; b != nil; b = session.completeBatch() {
		timeout := rc.startTimeout(session, b)
		err := rc.roundTrip(b.commands...)
		timeout.Stop()
		if err != nil {
			rc.endSession(session, err)
			return
		}
	}
}

// roundTrip sends commands to Redis and reads their answers, within readTimeout. If Redis does not
// have the scripts, roundTrip loads them and repeats the commands that failed.
func (rc *redisCounters) roundTrip(commands ...*command) error {
	ctx, cancel := context.WithTimeout(rc.ctx, rc.readTimeout())
	defer cancel()
	err := rc.sendPipeline(ctx, commands)
	if !isScriptMissing(err) {
		return err
	}
	retry := []*command{
		{name: "SCRIPT", args: []any{"LOAD", takeText}}, {name: "SCRIPT", args: []any{"LOAD", enterText}},
		{name: "SCRIPT", args: []any{"LOAD", waitText}}, {name: "SCRIPT", args: []any{"LOAD", remainingText}},
	}
	for _, c := range commands {
		if isScriptMissing(c.err) { // the command had no effect
			retry = append(retry, c)
		}
	}
	return rc.sendPipeline(ctx, retry)
}

func isScriptMissing(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused) && strings.HasPrefix(string(refused), "NOSCRIPT")
}

// sendPipeline sends commands in one pipeline. It returns the error of the connection, which
// includes the refusal of a command (see pooledConn). Otherwise it returns the first error about a
// missing script.
func (rc *redisCounters) sendPipeline(ctx context.Context, commands []*command) (firstErr error) {
	conn, err := rc.pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for _, c := range commands {
		if err := conn.Send(c.name, c.args...); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	for _, c := range commands {
		c.reply, c.err = conn.Receive()
		if err := conn.Err(); err != nil {
			return err
		}
		if firstErr == nil {
			firstErr = c.err
		}
	}
	return firstErr
}

// startTimeout ends the session if the batch gets no answer within answerTimeout. It uses two
// timers in sequence, each for half of answerTimeout. After a pause of the process, the first timer
// can fire at once. The second timer then leaves time to receive an answer that arrived during the
// pause.
func (rc *redisCounters) startTimeout(session *redisSession, b *batch) *time.Timer {
	return panics.AfterFunc(rc.answerTimeout/2, func() {
		panics.AfterFunc(rc.answerTimeout/2, func() {
			if session.isInFlight(b) {
				rc.endSession(session, rc.timeoutError())
			}
		}, rc.logPanic)
	}, rc.logPanic)
}
