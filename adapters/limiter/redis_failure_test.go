// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestProcessCountsAloneWhileRedisFails checks that each process allows at most its own limit while
// Redis fails, and that replicas count together again when Redis works. Requests must not wait for
// Redis one after the other. The log must have one line for the failure and one for the recovery.
func TestProcessCountsAloneWhileRedisFails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name               string
		breakRedis, repair func(*testserver.Redis, *testing.T)
		answerTimeout      time.Duration
		maxAllowed         int64 // the maximum number of requests that a new process may allow afterwards
	}{
		{"Redis stops, and restarts without data", func(r *testserver.Redis, _ *testing.T) { r.Stop() }, func(r *testserver.Redis, t *testing.T) { r.Start(t) }, hangTimeout, 12},
		{"Redis hangs", func(r *testserver.Redis, t *testing.T) { r.Suspend(t) }, func(r *testserver.Redis, t *testing.T) { r.Resume(t) }, 2 * time.Second, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var server *testserver.Redis
			var log *logBuffer
			var replica1, replica2 *limiter.Limiter
			// On a busy machine Redis may answer too late before the test breaks it. The test then
			// begins again.
			for attempts := 1; ; attempts++ {
				server, log = testserver.NewRedis(t), &logBuffer{}
				options := limiter.Options{URL: server.URL, AnswerTimeout: tc.answerTimeout, Log: slog.New(slog.NewJSONHandler(log, nil))}
				replica1, replica2 = openShared(t, options), openShared(t, limiter.Options{URL: server.URL, AnswerTimeout: options.AnswerTimeout})
				if n := countAllowed(10, testBucket(12), replica1); n != 10 {
					t.Fatalf("%d requests passed, want 10", n)
				}
				if replica1.State().Fallbacks == 0 {
					break
				}
				if attempts == 10 {
					t.Fatalf("the process counts alone although Redis works:\n%s", log)
				}
			}
			tc.breakRedis(server, t)
			began := time.Now()
			var running sync.WaitGroup
			running.Go(func() {
				if n := countAllowed(50, testBucket(12), replica1); n != 2 {
					t.Errorf("%d requests passed, want the 2 that were left for the process", n)
				}
			})
			running.Go(func() {
				if n := countAllowed(50, testBucket(12), replica2); n != 12 {
					t.Errorf("%d requests passed in the other process, which counts alone, want 12", n)
				}
			})
			running.Wait()
			if s := replica1.State(); !s.Shared || !s.Fallback || s.Fallbacks != 1 {
				t.Errorf("the state is %+v, want one fallback that lasts", s)
			}
			for range 1000 {
				replica1.Take(t.Context(), testBucket(12))
			}
			// All requests wait at the same time. If they waited one after the other, they would
			// take longer.
			if duration := time.Since(began); duration > 50*tc.answerTimeout {
				t.Errorf("the requests took %s, want less than 50 times %s", duration, tc.answerTimeout)
			}
			tc.repair(server, t)
			waitUntil(t, "it counts in Redis again", func() bool { return !replica1.State().Fallback && !replica2.State().Fallback })
			waitUntil(t, "the recovery is logged", func() bool { return log.count("Redis answers") == 1 })
			if failures := log.count("Redis does not answer"); failures != 1 {
				t.Errorf("%d lines for the failure, want 1:\n%s", failures, log)
			}
			if n := countAllowed(50, testBucket(12), replica1); n != 0 {
				t.Errorf("%d more requests passed in a process that had already allowed 12, want none", n)
			}
			// Redis executes the commands that it received while it hung, so these requests count.
			if n := countAllowed(50, testBucket(12), openShared(t, longTimeoutOptions(server))); n > tc.maxAllowed {
				t.Errorf("%d requests passed in a new process, want at most %d", n, tc.maxAllowed)
			}
			if serverURL, err := url.Parse(server.URL); err != nil || strings.Contains(log.String(), serverURL.User.String()[1:]) {
				t.Errorf("the password is in the log (%v):\n%s", err, log)
			}
		})
	}
}

// TestFullRedisIsNotUsed checks that the process counts alone while Redis refuses writes because
// its memory is full.
func TestFullRedisIsNotUsed(t *testing.T) {
	t.Parallel()
	server, log := testserver.NewRedis(t), &logBuffer{}
	client := redisClient(t, server)
	l := openShared(t, limiter.Options{URL: server.URL, AnswerTimeout: hangTimeout, Log: slog.New(slog.NewJSONHandler(log, nil))})
	before := l.State().Fallbacks
	configure(t, client, "maxmemory", "1") // from now on each write fails
	if n := countAllowed(50, testBucket(12), l); n != 12 {
		t.Errorf("%d requests passed, want 12", n)
	}
	<-time.After(1200 * time.Millisecond) // enough time for two probes
	if s := l.State(); !s.Fallback || s.Fallbacks != before+1 {
		t.Errorf("the state is %+v, want one more fallback than the %d before\n%s", s, before, log)
	}
	configure(t, client, "maxmemory", "0")
	waitUntil(t, "it counts in Redis again", func() bool { return !l.State().Fallback })
}

// TestSlowRedisIsNotUsed checks that the process counts alone while Redis does not answer requests
// and probes within AnswerTimeout.
func TestSlowRedisIsNotUsed(t *testing.T) {
	t.Parallel()
	server := testserver.NewRedis(t)
	proxy := startProxy(t, server)
	l := openShared(t, limiter.Options{URL: proxy.url, AnswerTimeout: time.Second})
	if n := countAllowed(10, testBucket(12), l); n != 10 {
		t.Fatalf("%d requests passed, want 10", n)
	}
	waitUntil(t, "it counts in Redis", func() bool { return !l.State().Fallback })
	before := l.State().Fallbacks
	release := proxy.holdAnswers()
	t.Cleanup(release)
	if n := countAllowed(50, testBucket(12), l); n != 2 {
		t.Errorf("%d requests passed, want the 2 that were left", n)
	}
	waitUntil(t, "the answers of a request and a probe are held", func() bool { return proxy.held.Load() >= 2 })
	if s := l.State(); !s.Fallback || s.Fallbacks != before+1 {
		t.Errorf("the state is %+v, want one more fallback than the %d before", s, before)
	}
	release()
	waitUntil(t, "it counts in Redis again", func() bool { return !l.State().Fallback })
}

// TestPrimaryIsFoundAfterFailover checks that the process counts in the new primary after the old
// primary became a replica. The replica keeps its connections and refuses writes, while the address
// leads to the new primary.
func TestPrimaryIsFoundAfterFailover(t *testing.T) {
	t.Parallel()
	oldPrimary, newPrimary := testserver.NewRedis(t), testserver.NewRedis(t)
	proxy := startProxy(t, oldPrimary)
	l := openShared(t, limiter.Options{URL: proxy.url, AnswerTimeout: hangTimeout})
	proxyURL, err := url.Parse(proxy.url)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := proxyURL.User.Password()
	configure(t, redisClient(t, newPrimary), "requirepass", password)
	proxy.forwardTo(t, newPrimary)
	if _, err := redis.DoContext(redisClient(t, oldPrimary), t.Context(), "REPLICAOF", "127.0.0.1", "1"); err != nil {
		t.Fatal(err)
	}
	if n := countAllowed(50, testBucket(12), l); n != 12 {
		t.Errorf("%d requests passed, want 12", n)
	}
	waitUntil(t, "it counts in the new primary", func() bool { return !l.State().Fallback })
}

// TestClockSkewOfRedisDoesNotBlock checks that a bucket is not blocked for longer than a window if
// the clock of Redis jumps. A process still allows at most its limit.
func TestClockSkewOfRedisDoesNotBlock(t *testing.T) {
	server := testserver.NewRedis(t)
	client, b := redisClient(t, server), testBucket(2)
	l := openShared(t, longTimeoutOptions(server))
	fromNow := func(d time.Duration) any { return time.Now().Add(d).UnixMicro() }
	for name, tc := range map[string]struct {
		counted []any // the times of counted requests
		allowed bool
	}{
		"clock set back by half a window":  {[]any{fromNow(b.Window / 2), fromNow(b.Window / 2)}, false},
		"clock set back by three windows":  {[]any{fromNow(3 * b.Window), fromNow(3 * b.Window)}, true},
		"clock set forward by two windows": {[]any{fromNow(-2 * b.Window), fromNow(-2 * b.Window)}, true},
	} {
		b.Key = name
		if _, err := redis.DoContext(client, t.Context(), "RPUSH", append([]any{"tenantry:bucket:" + name}, tc.counted...)...); err != nil {
			t.Fatal(err)
		}
		v, _ := l.Take(t.Context(), b)
		if v.Allowed != tc.allowed || v.ResetIn > b.Window || v.RetryIn > b.Window {
			t.Errorf("%s: got %+v, want allowed: %v, and no wait longer than %s", name, v, tc.allowed, b.Window)
		}
	}
	b.Key = "a new bucket"
	if n := countAllowed(10, b, l); n != 2 {
		t.Fatalf("%d requests passed, want 2", n)
	}
	// The deletion has the same effect as a clock of Redis that jumps far ahead.
	if _, err := redis.DoContext(client, t.Context(), "DEL", "tenantry:bucket:"+b.Key); err != nil {
		t.Fatal(err)
	}
	if n := countAllowed(10, b, l); n != 0 {
		t.Errorf("%d more requests passed, want none", n)
	}
}

func redisClient(t *testing.T, server *testserver.Redis) redis.Conn {
	t.Helper()
	conn, err := redis.DialURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func configure(t *testing.T, client redis.Conn, name, value string) {
	t.Helper()
	if _, err := redis.DoContext(client, t.Context(), "CONFIG", "SET", name, value); err != nil {
		t.Fatal(err)
	}
}

// TestEmptiedRedisDoesNotResetTheLocalCount checks that each process allows at most its own limit
// after Redis has lost its data. Redis still answers, so the process keeps counting in Redis.
func TestEmptiedRedisDoesNotResetTheLocalCount(t *testing.T) {
	server := testserver.NewRedis(t)
	replica1 := openShared(t, longTimeoutOptions(server))
	before := replica1.State().Fallbacks
	if n := countAllowed(20, testBucket(12), replica1); n != 12 {
		t.Fatalf("%d requests passed, want 12", n)
	}
	server.DeleteAllData(t)
	if n := countAllowed(20, testBucket(12), replica1); n != 0 {
		t.Errorf("%d more requests passed, want none", n)
	}
	if n := countAllowed(20, testBucket(12), openShared(t, longTimeoutOptions(server))); n != 12 {
		t.Errorf("%d requests passed in a new process, want 12, because Redis does not count refused requests", n)
	}
	if s := replica1.State(); s.Fallback || s.Fallbacks != before {
		t.Errorf("the state is %+v, want no fallback since the %d before", s, before)
	}
}

func TestLimiterStartsWithoutRedis(t *testing.T) {
	server := testserver.NewRedis(t)
	server.Stop()
	l := openLimiter(t, limiter.Options{URL: server.URL})
	if s := l.State(); !s.Fallback {
		t.Fatalf("the state is %+v, want a fallback", s)
	}
	server.Start(t)
	waitUntil(t, "it counts in Redis", func() bool { return !l.State().Fallback })
}

// logBuffer is a log that a test can read while the limiter writes to it.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logBuffer) count(text string) int { return strings.Count(l.String(), text) }

// proxy forwards connections to a Redis and can hold back its answers.
type proxy struct {
	url     string
	address atomic.Pointer[string]        // of the Redis to which new connections lead
	gate    atomic.Pointer[chan struct{}] // answers wait until it is closed, nil to pass them on at once
	held    atomic.Int64                  // answers that had to wait
	conns   sync.WaitGroup
}

func startProxy(t *testing.T, server *testserver.Redis) *proxy {
	t.Helper()
	serverURL, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	p.forwardTo(t, server)
	p.conns.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.forward(client) })
		}
	})
	t.Cleanup(p.conns.Wait)
	t.Cleanup(func() { _ = l.Close() })
	serverURL.Host = l.Addr().String()
	p.url = serverURL.String()
	return p
}

// forwardTo forwards new connections to a server. Open connections keep their server.
func (p *proxy) forwardTo(t *testing.T, server *testserver.Redis) {
	t.Helper()
	serverURL, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.address.Store(&serverURL.Host)
}

// holdAnswers holds back answers until release is called.
func (p *proxy) holdAnswers() (release func()) {
	gate := make(chan struct{})
	p.gate.Store(&gate)
	return sync.OnceFunc(func() {
		p.gate.Store(nil)
		close(gate)
	})
}

func (p *proxy) forward(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", *p.address.Load())
	if err != nil {
		return
	}
	p.conns.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	answer := make([]byte, 64<<10)
	for {
		n, err := server.Read(answer)
		if err != nil {
			return
		}
		if gate := p.gate.Load(); gate != nil {
			p.held.Add(1)
			<-*gate
		}
		if _, err := client.Write(answer[:n]); err != nil {
			return
		}
	}
}
