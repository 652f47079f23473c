// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/ratelimit"
)

const (
	// dialTimeout is how long a connection may take to be established.
	dialTimeout = 2 * time.Second
	// probeInterval is the time between two probes while Redis does not answer.
	probeInterval = 500 * time.Millisecond
	// probeAttempts is how many attempts a probe makes to get an answer in time. The first attempt
	// may also have to connect, and any attempt may be slow on a busy machine.
	probeAttempts = 3
)

// Each script runs atomically and uses the clock of the Redis server.
var (
	//go:embed take.lua
	takeText string
	//go:embed enter.lua
	enterText string
	//go:embed wait.lua
	waitText string
	//go:embed remaining.lua
	remainingText string

	takeScript  = redis.NewScript(1, takeText)
	enterScript = redis.NewScript(1, enterText)
	waitScript  = redis.NewScript(1, waitText)

	remainingScript = redis.NewScript(1, remainingText)
)

// redisCounters counts in Redis. When Redis stops answering, requests no longer wait for Redis, and
// one goroutine probes Redis until it answers again.
type redisCounters struct {
	pool *redis.Pool
	log  *slog.Logger
	// answerTimeout is how long a batch waits for its answers.
	answerTimeout time.Duration

	session atomic.Pointer[redisSession]
	outages atomic.Int64

	ctx        context.Context // cancelled by close
	cancel     context.CancelFunc
	mu         sync.Mutex // held by close and goUnlessClosed, so that no goroutine starts after close
	background panics.Group
}

func connect(ctx context.Context, o Options) (*redisCounters, error) {
	if err := CheckURL(o.URL); err != nil {
		return nil, err
	}
	rc := &redisCounters{log: o.Log, answerTimeout: cmp.Or(o.AnswerTimeout, 200*time.Millisecond)}
	// One connection is in use. The other connections replace it if it hangs.
	rc.pool = &redis.Pool{MaxIdle: 1, MaxActive: 4, DialContext: func(ctx context.Context) (redis.Conn, error) {
		conn, err := dial(ctx, o.URL, rc.readTimeout())
		return &pooledConn{Conn: conn}, err
	}}
	rc.ctx, rc.cancel = context.WithCancel(context.WithoutCancel(ctx))
	session := &redisSession{}
	rc.session.Store(session)
	if err := rc.probe(); err != nil {
		rc.endSession(session, err)
	}
	return rc, nil
}

func (rc *redisCounters) close() error {
	rc.mu.Lock()
	rc.cancel()
	rc.mu.Unlock()
	rc.background.Wait()
	return rc.pool.Close()
}

// goUnlessClosed runs fn in a goroutine, and close waits for that goroutine. If fn panics, the
// goroutine calls onPanic. After close, goUnlessClosed does not run fn and returns false.
func (rc *redisCounters) goUnlessClosed(fn func(), onPanic func(error)) bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.ctx.Err() != nil {
		return false
	}
	rc.background.Go(panics.Guarded(fn, func(e *panics.Error) {
		rc.logPanic(e)
		onPanic(e)
	}))
	return true
}

func (rc *redisCounters) logPanic(e *panics.Error) {
	rc.log.Error("panic", "type", e.Type, "stack", e.Stack)
}

func (rc *redisCounters) isUnavailable() bool { return !rc.session.Load().isActive() }

// endSession ends a session after an error and starts probing. Further calls for the same session
// do nothing.
func (rc *redisCounters) endSession(session *redisSession, err error) {
	if !session.end() {
		return
	}
	rc.outages.Add(1)
	rc.log.Warn("Redis does not answer: this process counts rate limits by itself", "error", err)
	rc.startProbing()
}

func (rc *redisCounters) startProbing() {
	rc.goUnlessClosed(rc.probeUntilAvailable, func(error) { rc.startProbing() })
}

func (rc *redisCounters) probeUntilAvailable() {
	for {
		select {
		case <-rc.ctx.Done():
			return
		case <-time.After(probeInterval):
		}
		if rc.probe() == nil {
			break
		}
	}
	rc.session.Store(&redisSession{})
	rc.log.Info("Redis answers: replicas count rate limits together")
}

// probe returns an error if Redis does not run the script, or if no attempt gets an answer within
// answerTimeout.
func (rc *redisCounters) probe() error {
	for range probeAttempts {
		start := time.Now()
		if err := rc.roundTrip(scriptCommand(takeScript, "probe", 1, 1)); err != nil {
			return err
		}
		if time.Since(start) <= rc.answerTimeout {
			return nil
		}
	}
	return rc.timeoutError()
}

func (rc *redisCounters) timeoutError() error {
	return fmt.Errorf("no answer within %s", rc.answerTimeout)
}

// readTimeout limits how long a connection waits for an answer. It is longer than answerTimeout,
// which limits how long callers wait.
func (rc *redisCounters) readTimeout() time.Duration { return dialTimeout + rc.answerTimeout }

// keyspace is the prefix of all keys, so that other programs can use the same Redis.
const keyspace = "tenantry:"

// take counts a request in a bucket. answered is false if Redis returned no valid reply.
func (rc *redisCounters) take(b ratelimit.Bucket) (reply takeReply, answered bool) {
	cmd := scriptCommand(takeScript, "bucket:"+b.Key, b.Limit, b.Window.Microseconds())
	if !rc.sendCommand(cmd) {
		return takeReply{}, false
	}
	list, err := redis.Values(cmd.reply, cmd.err)
	if err == nil {
		reply, err = parseTakeReply(b, list)
	}
	if err != nil {
		rc.endSession(rc.session.Load(), err)
	}
	return reply, err == nil
}

// remaining returns how many requests a bucket still allows. answered is false if Redis returned no
// valid reply.
func (rc *redisCounters) remaining(b ratelimit.Bucket) (remaining int, answered bool) {
	cmd := scriptCommand(remainingScript, "bucket:"+b.Key, b.Limit, b.Window.Microseconds())
	if !rc.sendCommand(cmd) {
		return 0, false
	}
	remaining, err := redis.Int(cmd.reply, cmd.err)
	if err != nil {
		rc.endSession(rc.session.Load(), err)
	}
	return remaining, err == nil
}

func (rc *redisCounters) giveBack(b ratelimit.Bucket, token string) {
	rc.sendCommand(&command{name: "LREM", args: []any{keyspace + "bucket:" + b.Key, -1, token}})
}
