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

	"github.com/tenantry/tenantry/core/ratelimit"
)

const (
	// greeting is how long a connection may take to be made.
	greeting = 2 * time.Second
	// pause lies between two looks for a Redis that is away.
	pause = 500 * time.Millisecond
	// tries is how often a look measures. The first one may have to make the
	// connection, and any may find our own machine busy.
	tries = 3
)

// The scripts. Each check is one, by the clock of Redis.
var (
	//go:embed take.lua
	takeText string
	//go:embed enter.lua
	enterText string

	takeScript  = redis.NewScript(1, takeText)
	enterScript = redis.NewScript(1, enterText)
)

// shared counts in Redis. While that does not answer it is away, and nobody
// waits for it but one goroutine that looks for it.
type shared struct {
	pool *redis.Pool
	log  *slog.Logger
	// patience is how long a batch of requests waits for its answers.
	patience time.Duration

	presence atomic.Pointer[presence]
	losses   atomic.Int64

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	mu     sync.Mutex // between close and what it waits for
	under  sync.WaitGroup
}

func connect(ctx context.Context, o Options) (*shared, error) {
	if err := CheckURL(o.URL); err != nil {
		return nil, err
	}
	s := &shared{log: o.Log, patience: cmp.Or(o.Patience, 200*time.Millisecond)}
	// One connection is in use, the others are for when it hangs.
	s.pool = &redis.Pool{MaxIdle: 1, MaxActive: 4, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return dial(ctx, o.URL, s.longest())
	}}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	now := &presence{}
	s.presence.Store(now)
	if err := s.answers(); err != nil {
		s.lose(now, err)
	}
	return s, nil
}

func (s *shared) close() error {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.under.Wait()
	return s.pool.Close()
}

// begin runs what close waits for, unless it was called.
func (s *shared) begin(what func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.under.Go(what)
	return true
}

func (s *shared) away() bool { return !s.presence.Load().lasts() }

// lose notes that a presence is over, once, and begins to look for the next.
func (s *shared) lose(now *presence, err error) {
	if !now.end() {
		return
	}
	s.losses.Add(1)
	s.log.Warn("Redis does not answer: this process counts rate limits by itself", "error", err)
	s.begin(s.look)
}

func (s *shared) look() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pause):
		}
		if s.answers() == nil {
			break
		}
	}
	s.presence.Store(&presence{})
	s.log.Info("Redis answers: replicas count rate limits together")
}

// answers reports why Redis does not count, or not as fast as a request needs
// it.
func (s *shared) answers() error {
	for range tries {
		began := time.Now()
		if err := s.trip(runScript(takeScript, "sign-of-life", 1, 1)); err != nil {
			return err
		}
		if time.Since(began) <= s.patience {
			return nil
		}
	}
	return s.slow()
}

func (s *shared) slow() error { return fmt.Errorf("no answer within %s", s.patience) }

// longest is how long an answer is read for, also when nobody waits any more.
func (s *shared) longest() time.Duration { return greeting + s.patience }

// keyspace leads all keys, as the Redis may serve others too.
const keyspace = "tenantry:"

// take counts a request in a bucket. answered is false when Redis did not.
func (s *shared) take(b ratelimit.Bucket) (there counted, answered bool) {
	said := runScript(takeScript, "bucket:"+b.Key, b.Limit, b.Window.Microseconds())
	if !s.ask(said) {
		return counted{}, false
	}
	list, err := redis.Values(said.reply, said.err)
	if err == nil {
		there, err = read(b, list)
	}
	if err != nil {
		s.lose(s.presence.Load(), err)
	}
	return there, err == nil
}

func (s *shared) giveBack(b ratelimit.Bucket, token string) {
	s.ask(&command{name: "LREM", args: []any{keyspace + "bucket:" + b.Key, -1, token}})
}
