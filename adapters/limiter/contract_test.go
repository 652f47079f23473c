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

	"go.uber.org/goleak"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/contract"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // most tests wait
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, o limiter.Options) *limiter.Limiter {
	t.Helper()
	l, err := limiter.Open(t.Context(), o)
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

// hang is how long a test waits for an event. Only a test that hangs reaches it.
const hang = 4 * time.Minute

// sharing opens a limiter and waits until it counts in Redis.
func sharing(t testing.TB, o limiter.Options) *limiter.Limiter {
	t.Helper()
	l := open(t, o)
	eventually(t, "the limiter counts in Redis", func() bool { return !l.State().Fallback })
	return l
}

// counting makes options for tests that do not depend on how soon Redis answers.
func counting(server *testserver.Redis) limiter.Options {
	return limiter.Options{URL: server.URL, Patience: hang}
}

func TestContract(t *testing.T) {
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		contract.Limiter(t, func(t testing.TB) ports.Limiter { return open(t, limiter.Options{}) })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		server := testserver.NewRedis(t)
		contract.Limiter(t, func(t testing.TB) ports.Limiter {
			server.Empty(t)
			return sharing(t, counting(server))
		})
	})
	t.Run("two replicas in turn", func(t *testing.T) {
		t.Parallel()
		server := testserver.NewRedis(t)
		contract.Limiter(t, func(t testing.TB) ports.Limiter {
			server.Empty(t)
			return &turns{of: [2]ports.Limiter{sharing(t, counting(server)), sharing(t, counting(server))}}
		})
	})
	t.Run("without its redis", func(t *testing.T) {
		t.Parallel()
		server := testserver.NewRedis(t)
		server.Stop()
		contract.Limiter(t, func(t testing.TB) ports.Limiter { return open(t, limiter.Options{URL: server.URL}) })
	})
}

// turns asks one replica, then the other.
type turns struct {
	of [2]ports.Limiter
	n  atomic.Int64
}

func (r *turns) next() ports.Limiter { return r.of[r.n.Add(1)%2] }

func (r *turns) Take(ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
	return r.next().Take(ctx, b)
}

func (r *turns) Enter(ctx context.Context, name string, places int) (func(), bool) {
	return r.next().Enter(ctx, name, places)
}

func bucket(limit int) ratelimit.Bucket {
	return ratelimit.Bucket{Key: "account/strict", Limit: limit, Window: 10 * time.Minute}
}

// allowed counts how many of many requests at once pass.
func allowed(many int, b ratelimit.Bucket, replicas ...ports.Limiter) int64 {
	var n atomic.Int64
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			if v, _ := replicas[i%len(replicas)].Take(context.Background(), b); v.Allowed {
				n.Add(1)
			}
		})
	}
	all.Wait()
	return n.Load()
}

// eventually waits until good returns true.
func eventually(t testing.TB, what string, good func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !good(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", hang, what)
		}
	}
}

func TestNothingButARedis(t *testing.T) {
	for _, url := range []string{"http://127.0.0.1", "redis://", "127.0.0.1:6379", "redis://:hunter2@127.0.0.1:6379/x"} {
		if _, err := limiter.Open(t.Context(), limiter.Options{URL: url}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	for name, url := range map[string]string{"process": "", "redis": testserver.NewRedis(b).URL} {
		b.Run(name, func(b *testing.B) {
			l := open(b, limiter.Options{URL: url})
			keys := make([]ratelimit.Bucket, 1000)
			for i := range keys {
				keys[i] = ratelimit.Bucket{Key: fmt.Sprint("account-", i), Limit: 600, Window: time.Minute}
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					l.Take(b.Context(), keys[i%len(keys)])
				}
			})
		})
	}
}
