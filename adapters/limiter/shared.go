// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	_ "embed"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tenantry/tenantry/core/ratelimit"
)

const (
	// patience is how long a request waits for Redis.
	patience = 50 * time.Millisecond
	// greeting is how long a connection may take to be made, which no
	// request waits for.
	greeting = time.Second
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

	away   atomic.Bool
	losses atomic.Int64

	ctx    context.Context // of the looking
	cancel context.CancelFunc
	looks  sync.WaitGroup
}

func connect(ctx context.Context, o Options) (*shared, error) {
	settings, err := options(o.URL)
	if err != nil {
		return nil, err
	}
	settings.DialTimeout, settings.MinIdleConns = greeting, 1
	settings.ReadBufferSize, settings.WriteBufferSize = 4<<10, 4<<10
	s := &shared{client: redis.NewClient(settings), log: o.Log}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.answers(); err != nil {
		s.lose(err)
	}
	return s, nil
}

func (s *shared) close() error {
	s.cancel()
	s.looks.Wait()
	return s.client.Close()
}

// ask reports whether Redis did what it was asked for. The caller's going away
// says nothing about Redis.
func (s *shared) ask(ctx context.Context, what func(context.Context) error) bool {
	if s.away.Load() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := what(ctx); err != nil {
		s.lose(err)
		return false
	}
	return true
}

// lose notes that Redis is away, once, and begins to look for it.
func (s *shared) lose(err error) {
	if !s.away.CompareAndSwap(false, true) {
		return
	}
	s.losses.Add(1)
	s.log.Warn("Redis does not answer: this process counts rate limits by itself", "error", err)
	s.looks.Go(s.look)
}

func (s *shared) look() {
	for s.answers() != nil {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
	s.away.Store(false)
	s.log.Info("Redis answers: replicas count rate limits together")
}

// answers reports whether Redis is there, and as fast as a request needs it.
func (s *shared) answers() error {
	for _, within := range []time.Duration{greeting, patience} {
		ctx, cancel := context.WithTimeout(s.ctx, within)
		err := s.client.Ping(ctx).Err()
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// keyspace leads all keys, as the Redis may serve others too.
const keyspace = "tenantry:"

// take counts a request in a bucket. answered is false when Redis did not.
func (s *shared) take(ctx context.Context, b ratelimit.Bucket) (v ratelimit.Verdict, token string, answered bool) {
	answered = s.ask(ctx, func(ctx context.Context) error {
		said, err := takeScript.Run(ctx, s.client, []string{keyspace + "bucket:" + b.Key}, b.Limit, b.Window.Microseconds()).Slice()
		if err == nil {
			v, token, err = verdict(b, said)
		}
		return err
	})
	return v, token, answered
}

func (s *shared) giveBack(ctx context.Context, b ratelimit.Bucket, token string) {
	s.ask(ctx, func(ctx context.Context) error {
		return s.client.LRem(ctx, keyspace+"bucket:"+b.Key, -1, token).Err()
	})
}
