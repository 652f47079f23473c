// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func TestContract(t *testing.T) {
	t.Run("process", func(t *testing.T) {
		contract.Limiter(t, func(t testing.TB) ports.Limiter { return open(t, limiter.Options{}) })
	})
	t.Run("redis", func(t *testing.T) {
		server := testserver.NewRedis(t)
		contract.Limiter(t, func(t testing.TB) ports.Limiter {
			server.Empty(t)
			return open(t, limiter.Options{URL: server.URL})
		})
	})
	t.Run("two replicas in turn", func(t *testing.T) {
		server := testserver.NewRedis(t)
		contract.Limiter(t, func(t testing.TB) ports.Limiter {
			server.Empty(t)
			return &turns{of: [2]ports.Limiter{open(t, limiter.Options{URL: server.URL}), open(t, limiter.Options{URL: server.URL})}}
		})
	})
	t.Run("without its redis", func(t *testing.T) {
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

// eventually waits for what happens by itself.
func eventually(t *testing.T, what string, good func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !good(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 10 s: %s", what)
		}
	}
}

// TestReplicasCountTogether, and one that is asked late tells the time that is
// left, not its own.
func TestReplicasCountTogether(t *testing.T) {
	server := testserver.NewRedis(t)
	one, other := open(t, limiter.Options{URL: server.URL}), open(t, limiter.Options{URL: server.URL})
	if n := allowed(500, bucket(12), one, other); n != 12 {
		t.Fatalf("%d of 12 passed", n)
	}
	a, _ := one.Take(t.Context(), bucket(12))
	b, _ := other.Take(t.Context(), bucket(12))
	if d := (a.RetryIn - b.RetryIn).Abs(); a.Allowed || b.Allowed || d > time.Second {
		t.Errorf("one says %+v, the other %+v", a, b)
	}
}

// TestTroubleWithRedis: whatever happens to it, nobody waits for long, nobody
// gets more than one process gives, the log has one line for each change, and
// all is as before when it is back.
func TestTroubleWithRedis(t *testing.T) {
	for _, tt := range []struct {
		name          string
		trouble, mend func(*testserver.Redis, *testing.T)
		left          int64 // for a new process, at most
	}{
		{"it is gone, and comes back empty", func(r *testserver.Redis, _ *testing.T) { r.Stop() }, func(r *testserver.Redis, t *testing.T) { r.Start(t) }, 12},
		{"it hangs", func(r *testserver.Redis, t *testing.T) { r.Freeze(t) }, func(r *testserver.Redis, t *testing.T) { r.Thaw(t) }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, log := testserver.NewRedis(t), &lines{}
			o := limiter.Options{URL: server.URL, Log: slog.New(slog.NewJSONHandler(log, nil))}
			one, other := open(t, o), open(t, limiter.Options{URL: server.URL})
			if n := allowed(10, bucket(12), one); n != 10 {
				t.Fatalf("%d passed", n)
			}
			tt.trouble(server, t)
			began := time.Now()
			if n := allowed(50, bucket(12), one); n != 2 {
				t.Errorf("%d passed, where 2 were left for the process", n)
			}
			if took := time.Since(began); took > 3*time.Second { // they wait once, all together
				t.Errorf("50 requests at once took %s", took)
			}
			if s := one.State(); !s.Shared || !s.Fallback || s.Fallbacks != 1 {
				t.Errorf("state %+v", s)
			}
			if n := allowed(50, bucket(12), other); n != 12 {
				t.Errorf("%d passed in the other process, which counts by itself", n)
			}
			tt.mend(server, t)
			eventually(t, "it counts in Redis again", func() bool { return !one.State().Fallback && !other.State().Fallback })
			if n := allowed(50, bucket(12), one); n != 0 {
				t.Errorf("%d more passed in the process, which knows of its 12", n)
			}
			third := int64(12)
			if tt.returns {
				third = 2
			}
			// What it was asked while it hung it has counted after all.
			if n := allowed(50, bucket(12), open(t, o)); n > third || !tt.returns && n != third {
				t.Errorf("%d passed in a new process, not %d", n, third)
			}
			if away, back := log.count("Redis does not answer"), log.count("Redis answers"); away != 1 || back != 1 {
				t.Errorf("%d lines for its going, %d for its return:\n%s", away, back, log)
			}
		})
	}
}

// TestAnEmptiedRedis: it answers, so nothing is said; a process knows what it
// has let through itself, so each gives its own limit at most.
func TestAnEmptiedRedis(t *testing.T) {
	server := testserver.NewRedis(t)
	one := open(t, limiter.Options{URL: server.URL})
	if n := allowed(20, bucket(12), one); n != 12 {
		t.Fatalf("%d passed", n)
	}
	server.Empty(t)
	if n := allowed(20, bucket(12), one); n != 0 {
		t.Errorf("%d more passed", n)
	}
	if n := allowed(20, bucket(12), open(t, limiter.Options{URL: server.URL})); n != 12 {
		t.Errorf("%d passed elsewhere: what was refused was not given back", n)
	}
	if s := one.State(); s.Fallback || s.Fallbacks != 0 {
		t.Errorf("state %+v", s)
	}
}

// TestAStartWithoutRedis: it is waited for, and then counted in.
func TestAStartWithoutRedis(t *testing.T) {
	server := testserver.NewRedis(t)
	server.Stop()
	l := open(t, limiter.Options{URL: server.URL})
	if s := l.State(); !s.Fallback {
		t.Fatalf("state %+v", s)
	}
	server.Start(t)
	eventually(t, "it counts in Redis", func() bool { return !l.State().Fallback })
}

// TestPlaces: those of a process that dies are free again when its lease is
// over, those of one that lives are kept, also by a Redis that lost them.
func TestPlaces(t *testing.T) {
	const lease = 600 * time.Millisecond
	server := testserver.NewRedis(t)
	o := limiter.Options{URL: server.URL, Lease: lease}
	one, other := open(t, o), open(t, o)
	dead, err := limiter.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	enter := func(l *limiter.Limiter) (func(), bool) { return l.Enter(t.Context(), "a", 2) }
	leave, ok := enter(one)
	if !ok {
		t.Fatal("the first did not enter")
	}
	if _, ok := enter(dead); !ok {
		t.Fatal("the second did not enter")
	}
	if _, ok := enter(other); ok {
		t.Fatal("a third entered")
	}
	if err := dead.Close(); err != nil { // it renews nothing any more
		t.Fatal(err)
	}
	eventually(t, "the dead one's place is free", func() bool { _, ok := enter(other); return ok })
	<-time.After(2 * lease)
	if _, ok := enter(open(t, o)); ok {
		t.Error("places that are in use became free")
	}
	server.Empty(t)
	eventually(t, "Redis learns again who is inside", func() bool {
		free, ok := enter(open(t, o))
		free()
		return !ok
	})
	leave()
	leave()
	if _, ok := enter(open(t, o)); !ok {
		t.Error("a place that was left is not free")
	}
}

func TestNothingButARedis(t *testing.T) {
	for _, url := range []string{"http://127.0.0.1", "redis://", "127.0.0.1:6379", "redis://:hunter2@127.0.0.1:6379/x"} {
		if _, err := limiter.Open(t.Context(), limiter.Options{URL: url}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// lines is a log to look into.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

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
