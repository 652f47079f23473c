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

// TestProcessCountsAloneWhileRedisFails checks that each replica counts its own requests while
// Redis fails, and that the replicas count together again when Redis works. All requests that wait
// for Redis must wait at the same time. The log must have one line for the failure and one for the
// recovery.
func TestProcessCountsAloneWhileRedisFails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name               string
		breakRedis, repair func(*testserver.Redis, *testing.T)
		answerTimeout      time.Duration
		maxAllowed         int64 // of the 12 requests that a new process could allow after the recovery
	}{
		{"Redis stops, and restarts without data", func(r *testserver.Redis, _ *testing.T) { r.Stop() }, func(r *testserver.Redis, t *testing.T) { r.Start(t) }, hangTimeout, 12},
		{"Redis hangs", func(r *testserver.Redis, t *testing.T) { r.Suspend(t) }, func(r *testserver.Redis, t *testing.T) { r.Resume(t) }, 2 * time.Second, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var server *testserver.Redis
			var log *logBuffer
			var replica1, replica2 *limiter.Limiter
			// On a busy machine Redis may answer later than answerTimeout before the test breaks
			// it. The test then begins again.
			for attempts := 1; ; attempts++ {
				server, log = testserver.NewRedis(t), &logBuffer{}
				options := limiter.Options{URL: server.URL, AnswerTimeout: tc.answerTimeout, Log: slog.New(slog.NewJSONHandler(log, nil))}
				replica1, replica2 = openShared(t, options), openShared(t, limiter.Options{URL: server.URL, AnswerTimeout: options.AnswerTimeout})
				if n := countAllowed(10, testBucket(12), replica1); n != 10 {
					t.Fatalf("%d requests were allowed, want 10", n)
				}
				if replica1.State().Fallbacks == 0 {
					break
				}
				if attempts == 10 { // a busy machine does not explain so many late answers
					t.Fatalf("replica1 counted alone in %d attempts although Redis worked:\n%s", attempts, log)
				}
			}
			tc.breakRedis(server, t)
			began := time.Now()
			var running sync.WaitGroup
			running.Go(func() {
				if n := countAllowed(50, testBucket(12), replica1); n != 2 {
					t.Errorf("replica1 allowed %d requests, want the 2 that its limit of 12 had left", n)
				}
			})
			running.Go(func() {
				if n := countAllowed(50, testBucket(12), replica2); n != 12 {
					t.Errorf("replica2 allowed %d requests, want 12 because it counts alone", n)
				}
			})
			running.Wait()
			if state := replica1.State(); !state.Shared || !state.Fallback || state.Fallbacks != 1 {
				t.Errorf("the state of replica1 is %+v, want one fallback that lasts", state)
			}
			for range 1000 { // requests that must not wait for Redis
				replica1.Take(t.Context(), testBucket(12))
			}
			// If the 50 requests of a replica waited one after the other, they would take longer.
			if duration := time.Since(began); duration > 50*tc.answerTimeout {
				t.Errorf("the requests took %s, want at most 50 times %s", duration, tc.answerTimeout)
			}
			tc.repair(server, t)
			waitUntil(t, "both replicas count in Redis again", func() bool { return !replica1.State().Fallback && !replica2.State().Fallback })
			waitUntil(t, "the recovery is logged", func() bool { return log.count("Redis answers") == 1 })
			if failures := log.count("Redis does not answer"); failures != 1 {
				t.Errorf("the log has %d lines for the failure, want 1:\n%s", failures, log)
			}
			if n := countAllowed(50, testBucket(12), replica1); n != 0 {
				t.Errorf("replica1, which had already allowed 12 requests, allowed %d more, want none", n)
			}
			// A Redis that hung keeps the 10 requests that it had counted. It also executes the
			// commands that it received while it hung.
			if n := countAllowed(50, testBucket(12), openShared(t, longTimeoutOptions(server))); n > tc.maxAllowed {
				t.Errorf("a new process allowed %d requests, want at most %d", n, tc.maxAllowed)
			}
			if serverURL, err := url.Parse(server.URL); err != nil || strings.Contains(log.String(), serverURL.User.String()[1:]) {
				t.Errorf("the log contains the password of Redis (%v):\n%s", err, log)
			}
		})
	}
}

// TestFullRedisIsNotUsed checks that a replica counts alone while the memory of Redis is full, so
// that Redis refuses writes.
func TestFullRedisIsNotUsed(t *testing.T) {
	t.Parallel()
	server, log := testserver.NewRedis(t), &logBuffer{}
	client := redisClient(t, server)
	replica := openShared(t, limiter.Options{URL: server.URL, AnswerTimeout: hangTimeout, Log: slog.New(slog.NewJSONHandler(log, nil))})
	before := replica.State().Fallbacks
	configure(t, client, "maxmemory", "1") // byte, so that each write fails
	if n := countAllowed(50, testBucket(12), replica); n != 12 {
		t.Errorf("%d requests were allowed, want 12", n)
	}
	<-time.After(1200 * time.Millisecond) // usually enough for two probes, which are 500 ms apart
	if s := replica.State(); !s.Fallback || s.Fallbacks != before+1 {
		t.Errorf("the state is %+v, want one more fallback than the %d before, which lasts:\n%s", s, before, log)
	}
	configure(t, client, "maxmemory", "0")
	waitUntil(t, "the replica counts in Redis again", func() bool { return !replica.State().Fallback })
}

// TestSlowRedisIsNotUsed checks that a replica counts alone while Redis answers neither requests
// nor probes within AnswerTimeout.
func TestSlowRedisIsNotUsed(t *testing.T) {
	t.Parallel()
	server := testserver.NewRedis(t)
	proxy := startProxy(t, server)
	replica := openShared(t, limiter.Options{URL: proxy.url, AnswerTimeout: time.Second})
	if n := countAllowed(10, testBucket(12), replica); n != 10 {
		t.Fatalf("%d requests were allowed, want 10", n)
	}
	waitUntil(t, "the replica counts in Redis", func() bool { return !replica.State().Fallback })
	before := replica.State().Fallbacks
	release := proxy.holdAnswers()
	t.Cleanup(release)
	if n := countAllowed(50, testBucket(12), replica); n != 2 {
		t.Errorf("%d requests were allowed, want the 2 that the limit of 12 had left", n)
	}
	waitUntil(t, "the answers of a request and a probe are held", func() bool { return proxy.held.Load() >= 2 })
	if s := replica.State(); !s.Fallback || s.Fallbacks != before+1 {
		t.Errorf("the state is %+v, want one more fallback than the %d before, which lasts", s, before)
	}
	release()
	waitUntil(t, "the replica counts in Redis again", func() bool { return !replica.State().Fallback })
}

// TestPrimaryIsFoundAfterFailover checks that the limiter counts in the new primary after a
// failover of Redis. The old primary keeps its connections and refuses writes, because it became a
// replica of Redis. New connections lead to the new primary.
func TestPrimaryIsFoundAfterFailover(t *testing.T) {
	t.Parallel()
	oldPrimary, newPrimary := testserver.NewRedis(t), testserver.NewRedis(t)
	proxy := startProxy(t, oldPrimary)
	process := openShared(t, limiter.Options{URL: proxy.url, AnswerTimeout: hangTimeout})
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
	if n := countAllowed(50, testBucket(12), process); n != 12 {
		t.Errorf("%d requests were allowed, want 12", n)
	}
	waitUntil(t, "the limiter counts in the new primary", func() bool { return !process.State().Fallback })
}

// TestClockSkewOfRedisDoesNotBlock checks that a jump of the clock of Redis blocks a bucket for at
// most one window. A process still allows at most its limit.
func TestClockSkewOfRedisDoesNotBlock(t *testing.T) {
	server := testserver.NewRedis(t)
	client, bucket := redisClient(t, server), testBucket(2)
	replica := openShared(t, longTimeoutOptions(server))
	fromNow := func(d time.Duration) any { return time.Now().Add(d).UnixMicro() }
	for name, tc := range map[string]struct {
		countedAt   []any // the times of counted requests, by the clock before it jumped
		wantAllowed bool
	}{
		"clock set back by half a window":  {[]any{fromNow(bucket.Window / 2), fromNow(bucket.Window / 2)}, false},
		"clock set back by three windows":  {[]any{fromNow(3 * bucket.Window), fromNow(3 * bucket.Window)}, true},
		"clock set forward by two windows": {[]any{fromNow(-2 * bucket.Window), fromNow(-2 * bucket.Window)}, true},
	} {
		bucket.Key = name
		if _, err := redis.DoContext(client, t.Context(), "RPUSH", append([]any{"tenantry:bucket:" + name}, tc.countedAt...)...); err != nil {
			t.Fatal(err)
		}
		verdict, _ := replica.Take(t.Context(), bucket)
		if verdict.Allowed != tc.wantAllowed || verdict.ResetIn > bucket.Window || verdict.RetryIn > bucket.Window {
			t.Errorf("%s: got %+v, want Allowed %v, and no wait longer than %s", name, verdict, tc.wantAllowed, bucket.Window)
		}
	}
	bucket.Key = "a new bucket"
	if n := countAllowed(10, bucket, replica); n != 2 {
		t.Fatalf("%d requests were allowed, want 2", n)
	}
	// The deletion has the same effect as a clock of Redis that jumps far ahead.
	if _, err := redis.DoContext(client, t.Context(), "DEL", "tenantry:bucket:"+bucket.Key); err != nil {
		t.Fatal(err)
	}
	if n := countAllowed(10, bucket, replica); n != 0 {
		t.Errorf("%d more requests were allowed, want none", n)
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

// configure changes a setting of a running Redis.
func configure(t *testing.T, client redis.Conn, name, value string) {
	t.Helper()
	if _, err := redis.DoContext(client, t.Context(), "CONFIG", "SET", name, value); err != nil {
		t.Fatal(err)
	}
}

// TestEmptiedRedisDoesNotResetTheLocalCount checks that a process allows at most its limit although
// Redis has lost its data. Redis answers, so the process continues to count in Redis.
func TestEmptiedRedisDoesNotResetTheLocalCount(t *testing.T) {
	server := testserver.NewRedis(t)
	replica1 := openShared(t, longTimeoutOptions(server))
	before := replica1.State().Fallbacks
	if n := countAllowed(20, testBucket(12), replica1); n != 12 {
		t.Fatalf("%d requests were allowed, want 12", n)
	}
	server.DeleteAllData(t)
	if n := countAllowed(20, testBucket(12), replica1); n != 0 {
		t.Errorf("%d more requests were allowed, want none", n)
	}
	if n := countAllowed(20, testBucket(12), openShared(t, longTimeoutOptions(server))); n != 12 {
		t.Errorf("a new process allowed %d requests, want 12, because Redis does not count refused requests", n)
	}
	if state := replica1.State(); state.Fallback || state.Fallbacks != before {
		t.Errorf("the state is %+v, want no more fallbacks than the %d before", state, before)
	}
}

func TestLimiterStartsWithoutRedis(t *testing.T) {
	server := testserver.NewRedis(t)
	server.Stop()
	replica := openLimiter(t, limiter.Options{URL: server.URL})
	if s := replica.State(); !s.Fallback {
		t.Fatalf("the state without Redis is %+v, want a fallback", s)
	}
	server.Start(t)
	waitUntil(t, "the replica counts in Redis", func() bool { return !replica.State().Fallback })
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
	gate    atomic.Pointer[chan struct{}] // answers wait until the channel is closed; nil while answers pass
	held    atomic.Int64                  // number of answers that had to wait
	conns   sync.WaitGroup
}

// startProxy starts a proxy that forwards to server, and stops it when the test ends.
func startProxy(t *testing.T, server *testserver.Redis) *proxy {
	t.Helper()
	serverURL, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	p.forwardTo(t, server)
	p.conns.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.forward(client) })
		}
	})
	t.Cleanup(p.conns.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	serverURL.Host = listener.Addr().String()
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
