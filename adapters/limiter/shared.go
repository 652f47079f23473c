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

	"github.com/redis/go-redis/v9"

	"github.com/tenantry/tenantry/core/ratelimit"
)

const (
	// turns is how many ask at once.
	turns = 8
	// greeting is how long a connection may take to be made.
	greeting = 2 * time.Second
	// pause lies between two looks for a Redis that is away.
	pause = 500 * time.Millisecond
)

// The scripts. Each check is one, by the clock of Redis.
var (
	//go:embed take.lua
	takeText string
	//go:embed enter.lua
	enterText string

	takeScript  = redis.NewScript(takeText)
	enterScript = redis.NewScript(enterText)
)

// shared counts in Redis. While that does not answer it is away, and nobody
// waits for it but one goroutine that looks for it.
type shared struct {
	client *redis.Client
	log    *slog.Logger
	// patience is how long a request waits for an answer.
	patience time.Duration
	turn     chan struct{} // one for each that may ask at once

	presence atomic.Pointer[presence]
	losses   atomic.Int64

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	mu     sync.Mutex // between close and what it waits for
	under  sync.WaitGroup
}

// presence is a time in which Redis answers.
type presence struct {
	over chan struct{}
	end  sync.Once
}

func newPresence() *presence { return &presence{over: make(chan struct{})} }

func (p *presence) lasts() bool {
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

func connect(ctx context.Context, o Options) (*shared, error) {
	settings, err := options(o.URL)
	if err != nil {
		return nil, err
	}
	settings.DialTimeout, settings.PoolSize, settings.MinIdleConns = greeting, turns+1, turns
	settings.ReadBufferSize, settings.WriteBufferSize = 4<<10, 4<<10
	s := &shared{log: o.Log, patience: cmp.Or(o.Patience, 200*time.Millisecond), turn: make(chan struct{}, turns)}
	settings.ReadTimeout, settings.WriteTimeout = s.longest(), s.longest()
	s.client = redis.NewClient(settings)
	for range turns {
		s.turn <- struct{}{}
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	now := newPresence()
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
	return s.client.Close()
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
	now.end.Do(func() {
		close(now.over)
		s.losses.Add(1)
		s.log.Warn("Redis does not answer: this process counts rate limits by itself", "error", err)
		s.begin(s.look)
	})
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
	s.presence.Store(newPresence())
	s.log.Info("Redis answers: replicas count rate limits together")
}

// answers reports why Redis does not count, or not as fast as a request needs
// it. Before that is measured all connections are made.
func (s *shared) answers() error {
	answer := make(chan answered[any], turns)
	sign := func() { answer <- asked(s.ctx, s, s.signOfLife) }
	for range turns {
		if !s.begin(sign) {
			return context.Canceled
		}
	}
	for range turns {
		if first := <-answer; first.err != nil {
			return first.err
		}
	}
	if !s.begin(sign) {
		return context.Canceled
	}
	got, ok := within(s.patience, answer, nil)
	if !ok {
		return s.slow()
	}
	return got.err
}

// signOfLife is more than that Redis answers: it counts.
func (s *shared) signOfLife(ctx context.Context) (any, error) {
	return takeScript.Run(ctx, s.client, []string{keyspace + "sign-of-life"}, 1, 1).Slice()
}

func (s *shared) slow() error { return fmt.Errorf("no answer within %s", s.patience) }

// longest is how long an answer is read for, also when nobody waits any more.
func (s *shared) longest() time.Duration { return greeting + crowd*s.patience }

// keyspace leads all keys, as the Redis may serve others too.
const keyspace = "tenantry:"

// take counts a request in a bucket. answered is false when Redis did not.
func (s *shared) take(ctx context.Context, b ratelimit.Bucket) (there counted, answered bool) {
	return ask(ctx, s, func(ctx context.Context) (counted, error) {
		said, err := takeScript.Run(ctx, s.client, []string{keyspace + "bucket:" + b.Key}, b.Limit, b.Window.Microseconds()).Slice()
		if err != nil {
			return counted{}, err
		}
		return read(b, said)
	})
}

func (s *shared) giveBack(ctx context.Context, b ratelimit.Bucket, token string) {
	ask(ctx, s, func(ctx context.Context) (int64, error) {
		return s.client.LRem(ctx, keyspace+"bucket:"+b.Key, -1, token).Result()
	})
}
