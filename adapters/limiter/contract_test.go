// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/contract"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // more than the processors, because most tests mostly wait
	leaks.VerifyTestMain(m)
}

// openLimiter opens a limiter and closes it when the test ends.
func openLimiter(t testing.TB, options limiter.Options) *limiter.Limiter {
	t.Helper()
	l, err := limiter.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// hangTimeout is how long a test waits for an event. It is exceeded only if something hangs.
const hangTimeout = 4 * time.Minute

// openShared opens a limiter and waits until it uses Redis.
func openShared(t testing.TB, options limiter.Options) *limiter.Limiter {
	t.Helper()
	l := openLimiter(t, options)
	waitUntil(t, "the limiter counts in Redis", func() bool { return !l.State().Fallback })
	return l
}

// longTimeoutOptions returns options for tests that must not depend on the speed of Redis.
func longTimeoutOptions(server *testserver.Redis) limiter.Options {
	return limiter.Options{URL: server.URL, AnswerTimeout: hangTimeout}
}

func TestContract(t *testing.T) {
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		contract.Limiter(t, func(t *testing.T) ports.Limiter { return openLimiter(t, limiter.Options{}) })
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server := testserver.NewRedis(t)
		contract.Limiter(t, func(t *testing.T) ports.Limiter {
			server.DeleteAllData(t)
			return openShared(t, longTimeoutOptions(server))
		})
	})
	t.Run("two replicas alternately", func(t *testing.T) {
		t.Parallel()
		server := testserver.NewRedis(t)
		contract.Limiter(t, func(t *testing.T) ports.Limiter {
			server.DeleteAllData(t)
			return &roundRobin{replicas: [2]ports.Limiter{openShared(t, longTimeoutOptions(server)), openShared(t, longTimeoutOptions(server))}}
		})
	})
	t.Run("Redis is stopped", func(t *testing.T) {
		t.Parallel()
		server := testserver.NewRedis(t)
		server.Stop()
		contract.Limiter(t, func(t *testing.T) ports.Limiter { return openLimiter(t, limiter.Options{URL: server.URL}) })
	})
}

// roundRobin sends requests to two replicas alternately.
type roundRobin struct {
	replicas [2]ports.Limiter
	calls    atomic.Int64
}

func (r *roundRobin) next() ports.Limiter { return r.replicas[r.calls.Add(1)%2] }

func (r *roundRobin) Take(ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
	return r.next().Take(ctx, b)
}

func (r *roundRobin) Remaining(ctx context.Context, b ratelimit.Bucket) int {
	return r.next().Remaining(ctx, b)
}

func (r *roundRobin) Enter(ctx context.Context, name string, limit int) (func(), bool) {
	return r.next().Enter(ctx, name, limit)
}

func testBucket(limit int) ratelimit.Bucket {
	return ratelimit.Bucket{Key: "account/strict", Limit: limit, Window: 10 * time.Minute}
}

// countAllowed sends attempts requests to the replicas concurrently, and returns how many are
// allowed.
func countAllowed(attempts int, b ratelimit.Bucket, replicas ...ports.Limiter) int64 {
	var allowed atomic.Int64
	var running sync.WaitGroup
	for i := range attempts {
		running.Go(func() {
			if verdict, _ := replicas[i%len(replicas)].Take(context.Background(), b); verdict.Allowed {
				allowed.Add(1)
			}
		})
	}
	running.Wait()
	return allowed.Load()
}

// waitUntil waits until condition returns true. The failure text ends with description.
func waitUntil(t testing.TB, description string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(hangTimeout); !condition(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not fulfilled after %s: %s", hangTimeout, description)
		}
	}
}

func TestInvalidURLsAreRefused(t *testing.T) {
	for _, url := range []string{"http://127.0.0.1", "redis://", "127.0.0.1:6379", "redis://:hunter2@127.0.0.1:6379/x"} {
		if _, err := limiter.Open(t.Context(), limiter.Options{URL: url}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want an error without the password", url, err)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	for name, url := range map[string]string{"process": "", "redis": testserver.NewRedis(b).URL} {
		b.Run(name, func(b *testing.B) {
			l := openLimiter(b, limiter.Options{URL: url})
			buckets := make([]ratelimit.Bucket, 1000)
			for i := range buckets {
				buckets[i] = ratelimit.Bucket{Key: fmt.Sprint("account-", i), Limit: 600, Window: time.Minute}
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					l.Take(b.Context(), buckets[i%len(buckets)])
				}
			})
		})
	}
}

func TestBenchmarks(t *testing.T) { testserver.Benchmarks(t, "Take") }

// TestReplicasCountTogether checks that two replicas share the limit of a bucket, and that both
// tell a refused caller to wait until the same time.
func TestReplicasCountTogether(t *testing.T) {
	server := testserver.NewRedis(t)
	replica1, replica2 := openShared(t, longTimeoutOptions(server)), openShared(t, longTimeoutOptions(server))
	if n := countAllowed(500, testBucket(12), replica1, replica2); n != 12 {
		t.Fatalf("%d requests were allowed, want 12", n)
	}
	began := time.Now()
	verdict1, _ := replica1.Take(t.Context(), testBucket(12))
	verdict2, _ := replica2.Take(t.Context(), testBucket(12))
	if passed := verdict1.RetryIn - verdict2.RetryIn; verdict1.Allowed || verdict2.Allowed || passed < 0 || passed > time.Since(began)+time.Second {
		t.Errorf("the replicas return %+v and %+v, want two refusals with the same wait", verdict1, verdict2)
	}
}
